"""Bounds: bytes, connections, time, descriptors. Time is simulated where it is the subject."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import time
from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from supervisor.server import Request, Response

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_a_body_at_the_bound_passes_and_one_byte_more_does_not(served) -> None:
    async with served(body_bytes=100) as server, server.client() as client:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        await client.send(head % 100 + b"x" * 100)
        assert (await client.answer()).status == 200
        await client.send(head % 101 + b"x" * 101)
        answer = await client.answer()
        assert (answer.status, answer.code) == (413, "LimitExceeded")


async def test_ten_megabytes_are_refused_without_being_kept(served) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with served() as server, server.client() as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n")
        answer = await client.answer()  # before any of the body
        assert answer.status == 413
        piece = bytes(65_536)
        with contextlib.suppress(trio.BrokenResourceError):  # it may be cut off
            for _ in range(10_000_000 // len(piece)):
                await client.send(piece)
        assert await client.ended() == b""
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown_kib < 8_000


async def test_chunks_are_bounded_by_their_sum_and_their_number(served) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(body_bytes=100_000) as server:
        for chunks in (b"9c41\r\n" + bytes(40_001) + b"\r\n", b"1\r\nx\r\n"):
            async with server.client() as client:
                await client.send(head)
                with contextlib.suppress(trio.BrokenResourceError):
                    await client.send(chunks * (3 if len(chunks) > 100 else 4_097))
                assert (await client.answer()).status == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"".join(b"a%d: b\r\n" % i for i in range(19)), 200),
        (b"".join(b"a%d: b\r\n" % i for i in range(20)), 431),
        (b"a: " + b"b" * 1_900 + b"\r\n", 200),
        (b"a: " + b"b" * 2_000 + b"\r\n", 431),
        (b"a: " + b"b" * 100_000 + b"\r\n", 431),
        (b"a: " + b"b" * 1_000_000, 431),
    ],
    ids=["20 headers", "21 headers", "just fits", "too long", "far too long", "endless"],
)
async def test_headers_are_bounded_by_bytes_and_number(served, headers, status: int) -> None:
    async with served(header_bytes=2_000, header_count=20) as server, server.client() as client:
        with contextlib.suppress(trio.BrokenResourceError):
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        answer = await client.answer()
        assert answer.status == status
        assert status == 200 or answer.code == "LimitExceeded"


async def test_a_target_counts_as_header(served) -> None:
    async with served(header_bytes=2_000) as server:
        assert (await server.get("/" + "a" * 1_900)).status == 200
        assert (await server.get("/" + "a" * 2_000)).status == 431


async def test_slow_headers_end_ten_seconds_after_their_first_byte(served, autojump_clock) -> None:
    async with served() as server, server.client() as client:
        assert (await client.get()).status == 200
        await trio.sleep(30)  # kept, and not yet counted
        begun = trio.current_time()

        async def trickle() -> None:
            with contextlib.suppress(trio.BrokenResourceError):
                for byte in GET:
                    await client.send(bytes([byte]))
                    await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle)
            answer = await client.answer()
            assert (answer.status, answer.code) == (408, "InvalidInput")
            assert trio.current_time() - begun == pytest.approx(10)
            assert await client.ended() == b""
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("requests", "seconds"), [(0, 10), (1, 75)])
async def test_a_silent_connection_is_closed_without_a_word(
    served, autojump_clock, requests: int, seconds: int
) -> None:
    async with served() as server, server.client() as client:
        for _ in range(requests):
            await client.get()
        begun = trio.current_time()
        assert await client.ended() == b""
        assert trio.current_time() - begun == pytest.approx(seconds)


async def test_a_body_must_make_progress(served, autojump_clock) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n"
    async with served() as server:
        async with server.client() as client:  # 16 KiB every nine seconds are enough
            await client.send(head)
            for _ in range(4):
                await trio.sleep(9)
                await client.send(bytes(16_384))
            assert (await client.answer()).status == 200
        async with server.client() as client:  # a byte a second is not
            begun = trio.current_time()
            await client.send(head)

            async def trickle() -> None:
                with contextlib.suppress(trio.BrokenResourceError):
                    while True:
                        await client.send(b"x")
                        await trio.sleep(1)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(trickle)
                answer = await client.answer()
                assert answer.status == 408
                assert trio.current_time() - begun == pytest.approx(10)
                nursery.cancel_scope.cancel()


async def test_a_client_that_does_not_read_is_dropped(served, autojump_clock, capsys) -> None:
    async def app(_request: Request) -> Response:
        return Response(200, {}, bytes(5_000_000))

    async with served(app) as server, server.client() as client:
        await client.send(GET)
        await trio.sleep(9)
        assert len(await client.until(b"\r\n\r\n")) > 0  # each piece has its own ten seconds
        await trio.sleep(60)
        assert len(await client.ended()) < 5_000_000
    assert capsys.readouterr().err == ""


async def test_connections_are_bounded_and_the_next_is_told(served) -> None:
    async with served(connections=100, connections_per_uid=100) as server:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(100)]
            for client in clients:
                assert (await client.get()).status == 200
            refused = await server.get()
            assert (refused.status, refused.code) == (503, "LimitExceeded")
            assert refused.document["retryable"] is True
            assert refused.headers["retry-after"] == "1"
            for client in clients:  # and nobody else notices
                assert (await client.get()).status == 200
            await clients[0].stream.aclose()
            await wait_all_tasks_blocked()
            assert (await server.get()).status == 200
        await wait_all_tasks_blocked()
        assert (await server.get()).status == 200


async def test_one_user_cannot_take_every_connection(served) -> None:
    bounds = {"connections": 100, "connections_per_uid": 2}
    async with served(**bounds) as server, server.client() as one, server.client() as two:
        assert (await one.get()).status == (await two.get()).status == 200
        refused = await server.get()
        assert (refused.status, refused.code) == (503, "LimitExceeded")
        assert f"uid {os.getuid()}" in str(refused.document["detail"])


async def test_five_hundred_at_once_are_each_served_or_refused(served) -> None:
    statuses: list[int] = []

    async def one(server) -> None:
        statuses.append((await server.get()).status)

    async with served(connections=50, connections_per_uid=50) as server:
        async with trio.open_nursery() as nursery:
            for _ in range(500):
                nursery.start_soon(one, server)
        await wait_all_tasks_blocked()
        assert (await server.get()).status == 200
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 50


@contextlib.contextmanager
def descriptors_left(left: int, highest: int) -> Iterator[None]:
    """So many are free for this process, all of them up to one above ``highest`` being its own."""
    gc.collect()  # what another test left to the collector would be freed, or closed, in between
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    limit = highest + left
    try:
        while limit == highest + left or len(taken) < left:
            limit += 1  # some of those may be somebody else's
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(0))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


async def test_without_descriptors_accepting_waits_and_says_so_once(served, capsys) -> None:
    async with served() as server, server.client() as before, server.client() as waiting:
        await before.get()
        await waiting.get()
        with trio.socket.socket(trio.socket.AF_UNIX) as late:
            with descriptors_left(0, late.fileno()):
                await late.connect(str(server.path))
                cpu = time.process_time()
                await trio.sleep(0.5)
                assert time.process_time() - cpu < 0.25
                assert (await before.get()).status == 200
            await late.send(GET)
            assert (await late.recv(100)).startswith(b"HTTP/1.1 200 OK\r\n")
    err = capsys.readouterr().err
    assert err == "effectd: cannot accept connections for the moment: Too many open files\n"


@pytest.mark.parametrize("left", [1, 2, 3])
async def test_a_peer_that_cannot_be_identified_for_want_of_descriptors_is_told(
    served, capsys, left: int
) -> None:
    async with served() as server, server.client() as before:
        await before.get()
        with (
            trio.socket.socket(trio.socket.AF_UNIX) as late,
            descriptors_left(left, late.fileno()),
        ):
            await late.connect(str(server.path))
            with contextlib.suppress(BrokenPipeError):  # told already, and given up after a second
                await late.send(GET)
            status = (await late.recv(1000)).split(b" ")[1]
            # The connection takes one, its pidfd another, reading /proc a third for a moment.
            assert status == (b"200" if left == 3 else b"503")
            assert (await before.get()).status == 200
    assert "Traceback" not in capsys.readouterr().err


async def test_nothing_is_left_open_after_clients_of_every_kind(served) -> None:
    def fds() -> int:
        return len(os.listdir("/proc/self/fd"))

    async with served() as server:
        await server.get()
        await wait_all_tasks_blocked()
        before = fds()
        for sent in (GET, b"", b"\0", b"GET / HT", GET * 3, b"POST / HTTP/1.1\r\nHost: x\r\n"):
            async with server.client() as client:
                if sent:
                    await client.send(sent)
        async with server.client() as client:
            await client.send(b"\0")
            await client.ended()
        for _ in range(3):
            await wait_all_tasks_blocked()
        assert fds() == before


async def test_nothing_is_left_open_after_refusals(served) -> None:
    def fds() -> int:
        return len(os.listdir("/proc/self/fd"))

    async with served(peer_check=lambda _peer: "no") as server:
        before = fds()
        for _ in range(5):
            assert (await server.get()).status == 403
        await wait_all_tasks_blocked()
        assert fds() == before
