"""Whatever bytes come, in whatever pieces: an answer or an end, and the next client is served."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.server import Request, Response, ServerLimits, bind, serve

# Pieces of HTTP beside noise: random bytes alone never get past the request line.
WORDS = st.sampled_from(
    [
        b"GET ", b"POST ", b"HEAD ", b"/", b"/a?b=c", b"/%00", b" HTTP/1.1", b" HTTP/1.0", b"\r\n",
        b"Host: x\r\n", b"\r\n\r\n", b"Content-Length: 3\r\n", b"Content-Length: 99999\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n",
        b"Connection: Upgrade\r\nUpgrade: x\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"abc", b"%",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n", b": ", b"\0",
    ]
)  # fmt: skip
PIECES = st.lists(st.one_of(WORDS, WORDS, WORDS, st.binary(max_size=40)), max_size=12)
STATUS_LINE = re.compile(rb"HTTP/1\.1 (100|200|400|413|431) ")


async def talk(path: Path, pieces: list[bytes], *, each_alone: bool) -> None:
    async with await trio.open_unix_socket(str(path)) as stream:
        for piece in pieces if each_alone else [b"".join(pieces)]:
            try:
                await stream.send_all(piece)
            except trio.BrokenResourceError:
                break
            await trio.lowlevel.checkpoint()
        try:
            await stream.send_eof()
            answers = b""
            while data := await stream.receive_some(65_536):
                answers += data
        except trio.BrokenResourceError:
            return
        assert not answers or STATUS_LINE.match(answers), answers


async def scenario(path: Path, pieces: list[bytes], each_alone: bool) -> None:
    async def app(request: Request) -> Response:
        assert len(request.body) <= 64
        return Response(200, {}, request.method.encode())

    with bind(path) as listener:
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[None]) -> None:
                limits = ServerLimits(body_bytes=64, header_bytes=512)
                await serve(
                    [listener], app, limits=limits, peer_check=lambda _: None,
                    task_status=task_status,
                )  # fmt: skip

            await nursery.start(run)
            with trio.fail_after(60):
                await talk(path, pieces, each_alone=each_alone)
                async with await trio.open_unix_socket(str(path)) as other:
                    await other.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert (await other.receive_some(1000)).startswith(b"HTTP/1.1 200 OK\r\n")
            nursery.cancel_scope.cancel()


def fuzz(examples: int, capsys: pytest.CaptureFixture[str]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="efd-"))

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(PIECES, st.booleans())
    def run(pieces: list[bytes], each_alone: bool) -> None:
        trio.run(scenario, directory / "s", pieces, each_alone)

    try:
        run()
    finally:
        shutil.rmtree(directory)
    assert capsys.readouterr().err == ""


def test_no_bytes_cause_a_traceback_or_a_hang(capsys: pytest.CaptureFixture[str]) -> None:
    fuzz(150, capsys)


@pytest.mark.long
def test_no_bytes_cause_a_traceback_or_a_hang_in_many_tries(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fuzz(10_000, capsys)
