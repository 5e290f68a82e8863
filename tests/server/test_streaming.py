"""Answers that take long: streams, hang-ups, cancellation."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from supervisor.server import Request, Response

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_chunks_are_sent_one_by_one_as_they_come(served) -> None:
    send, receive = trio.open_memory_channel[bytes](0)

    async def app(_request: Request) -> Response:
        return Response(200, {"content-type": "application/x-ndjson"}, receive)

    async with served(app) as server, server.client() as client:
        await client.send(GET)
        for line in (b'{"position":1}\n', b"\n", b"", b'{"position":2}\n'):
            await send.send(line)
            await client.until(line)
        await send.aclose()
        whole = await client.until(b"\r\n0\r\n\r\n")
    head, _, body = whole.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert body == (
        b'f\r\n{"position":1}\n\r\n' + b"1\r\n\n\r\n" + b'f\r\n{"position":2}\n\r\n' + b"0\r\n\r\n"
    )


async def test_a_connection_is_kept_after_a_stream_that_ended(served) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"

    async def app(request: Request) -> Response:
        return Response(200, {}, chunks() if request.path else b"b")

    async with served(app) as server, server.client() as client:
        await client.send(GET.replace(b"/ ", b"/s "))
        await client.until(b"0\r\n\r\n")
        await client.send(GET)
        await client.until(b"\r\n\r\nb")


async def test_a_1_0_client_gets_a_stream_without_chunks(served) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a\n"
        yield b"b\n"

    async def app(_request: Request) -> Response:
        return Response(200, {}, chunks())

    async with served(app) as server, server.client() as client:
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert (await client.ended()).endswith(b"\r\n\r\na\nb\n")


@pytest.mark.parametrize("where", ["application", "stream"])
@pytest.mark.parametrize("how", ["close", "shutdown", "half, then close"])
@pytest.mark.parametrize("more", [b"", GET, GET * 1000], ids=["", "pipelined", "much pipelined"])
async def test_a_client_that_goes_ends_its_own_request_only(
    served, where: str, how: str, more: bytes
) -> None:
    begun, ended = trio.Event(), trio.Event()

    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"
        await wait()

    async def app(request: Request) -> Response:
        if request.path == ("other",):
            return Response(200)
        if where == "application":
            await wait()
        return Response(200, {}, chunks())

    async with served(app) as server, server.client() as other:
        async with server.client() as client:
            await client.send(GET + more)
            await begun.wait()
            assert (await other.get("/other")).status == 200
            assert not ended.is_set()
            if how == "half, then close":
                await client.stream.send_eof()
                await wait_all_tasks_blocked()
                assert not ended.is_set()
            if how != "shutdown":
                await client.stream.aclose()
            else:
                client.stream.socket.shutdown(socket.SHUT_RDWR)
            with trio.fail_after(60):
                await ended.wait()
        assert (await other.get("/other")).status == 200


async def test_what_the_application_shields_is_finished(served) -> None:
    begun, go, finished = trio.Event(), trio.Event(), trio.Event()

    async def app(_request: Request) -> Response:
        with trio.CancelScope(shield=True):
            begun.set()
            await go.wait()
            finished.set()
        return Response(200)

    async with served(app) as server:
        async with server.client() as client:
            await client.send(GET)
            await begun.wait()
        await wait_all_tasks_blocked()
        assert not finished.is_set()
        go.set()
        await finished.wait()


async def test_a_stream_that_fails_is_cut_and_not_completed(served, capsys) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first\n"
        raise RuntimeError("the disk is gone")

    async def app(request: Request) -> Response:
        return Response(200, {}, chunks() if request.path else b"")

    async with served(app) as server:
        async with server.client() as client:
            await client.send(GET.replace(b"/ ", b"/s "))
            ended = await client.ended()
            assert ended.endswith(b"6\r\nfirst\n\r\n")
        assert (await server.get()).status == 200
    err = capsys.readouterr().err
    assert err.count("Traceback") == err.count("RuntimeError: the disk is gone") == 1


async def test_a_failure_inside_a_cancelled_application_does_not_spread(served, capsys) -> None:
    begun = trio.Event()

    async def app(request: Request) -> Response:
        if not request.path:
            return Response(200)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            begun.set()
            try:
                await trio.sleep_forever()
            finally:
                raise RuntimeError("in the clean-up")

    async with served(app) as server:
        async with server.client() as client:
            await client.send(GET.replace(b"/ ", b"/s "))
            await begun.wait()
        await wait_all_tasks_blocked()
        assert (await server.get()).status == 200
    assert capsys.readouterr().err.count("RuntimeError: in the clean-up") == 1


async def test_head_of_a_stream_never_starts_it(served) -> None:
    started = False

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal started
        started = True
        yield b"x"

    async def app(_request: Request) -> Response:
        return Response(200, {}, chunks())

    async with served(app) as server, server.client() as client:
        await client.send(GET.replace(b"GET", b"HEAD") * 2)
        for _ in range(2):
            assert (await client.answer(head=True)).status == 200
    assert not started


async def test_a_stream_reader_that_stalls_is_dropped(served, autojump_clock, capsys) -> None:
    closed = trio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(100_000)
        finally:
            closed.set()

    async def app(_request: Request) -> Response:
        return Response(200, {}, chunks())

    async with served(app) as server, server.client() as client:
        await client.send(GET)
        begun = trio.current_time()
        await closed.wait()
        assert trio.current_time() - begun == pytest.approx(10)
    assert capsys.readouterr().err == ""


async def test_cancelling_the_server_cuts_every_connection(served) -> None:
    ended = trio.Event()

    async def app(request: Request) -> Response:
        if request.path:
            try:
                await trio.sleep_forever()
            finally:
                ended.set()
        return Response(200)

    async with (
        served(app) as server,
        server.client() as busy,
        server.client() as idle,
        server.client() as half,
    ):
        await busy.send(GET.replace(b"/ ", b"/w "))
        await idle.get()
        await half.send(b"GET ")
        await wait_all_tasks_blocked()
        server.scope.cancel()
        with trio.CancelScope(shield=True):
            for client in (busy, idle, half):
                assert await client.ended() == b""
    assert ended.is_set()
