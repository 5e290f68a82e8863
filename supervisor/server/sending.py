"""Answers on their way out: framing, write timeouts, and an end the client can read."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import AsyncIterator
from http import HTTPStatus

import h11
import trio

from supervisor.server.messages import Response, ServerLimits

_PIECE_BYTES = 65_536
_CLOSE_S = 1
_LINGER_S = 1
_LINGER_BYTES = 4_194_304
# Its names are English: nobody here sets a locale for time.
_DATE = "%a, %d %b %Y %H:%M:%S GMT"


class GoneError(Exception):
    """The client closed, or stopped reading for longer than `write_timeout_ms`."""


def complain(text: str, error: Exception | None = None) -> None:
    """Tell the daemon's log, with the traceback of a failure."""
    trace = "" if error is None else "".join(traceback.format_exception(error))
    sys.stderr.write(f"effectd: {text}\n{trace}")
    sys.stderr.flush()


class Sender:
    """The writing half of one connection."""

    def __init__(
        self, stream: trio.SocketStream, http: h11.Connection, limits: ServerLimits
    ) -> None:
        self._stream = stream
        self._http = http
        self._limits = limits

    async def proceed(self) -> None:
        """Tell a client that asked (`Expect: 100-continue`) to send its body."""
        event = h11.InformationalResponse(status_code=100, headers=[])
        await self._write(self._http.send(event) or b"")

    async def respond(
        self, head: h11.Response, body: bytes | AsyncIterator[bytes], method: str
    ) -> None:
        """Send one answer whole. Raises `GoneError`; what the iterator raises passes through."""
        start = self._http.send(head) or b""
        if isinstance(body, bytes):
            if body and method != "HEAD":
                start += self._http.send(h11.Data(data=body)) or b""
            await self._write(start + (self._http.send(h11.EndOfMessage()) or b""))
            return
        try:
            await self._write(start)
            if method != "HEAD":
                async for chunk in body:
                    await self._write(self._http.send(h11.Data(data=chunk)) or b"")
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                # Shielded: its clean-up has as much right to wait as anyone's.
                with trio.move_on_after(_CLOSE_S, shield=True):
                    await close()
        await self._write(self._http.send(h11.EndOfMessage()) or b"")

    async def refuse(self, answer: Response, method: str = "") -> None:
        """Send an answer after which the connection ends, if the client is still there."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        try:
            await self.respond(response_head(answer, closing=True), answer.body, method)
            await self._linger()
        except GoneError:
            pass

    async def _linger(self) -> None:
        # A client that still writes its body when the socket closes gets EPIPE,
        # and most then never read the answer that explains why. So discard for
        # a moment what it sends.
        with trio.move_on_after(_LINGER_S):
            try:
                await self._stream.send_eof()
                left = _LINGER_BYTES
                while left > 0 and (data := await self._stream.receive_some(_PIECE_BYTES)):
                    left -= len(data)
            except trio.BrokenResourceError as error:
                raise GoneError from error

    async def _write(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(data), _PIECE_BYTES):
            piece = view[start : start + _PIECE_BYTES]
            try:
                with trio.fail_after(self._limits.write_timeout_ms / 1000):
                    await self._stream.send_all(piece)
            except (trio.BrokenResourceError, trio.TooSlowError) as error:
                raise GoneError from error


def response_head(answer: Response, *, closing: bool = False) -> h11.Response:
    """Make the status line and headers. Raises when they are not HTTP."""
    headers = [*answer.headers.items(), ("date", time.strftime(_DATE, time.gmtime()))]
    bodiless = answer.status in {204, 304}
    if isinstance(answer.body, bytes) and not bodiless:
        headers.append(("content-length", str(len(answer.body))))
    if closing:
        headers.append(("connection", "close"))
    reason = HTTPStatus(answer.status).phrase.encode()
    return h11.Response(status_code=answer.status, headers=headers, reason=reason)
