"""One request over one Unix socket under asyncio, by the rules of `_transport`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any, Optional, TypeVar

from effectd._socket import unreachable
from effectd._transport import (
    CONNECT_SECONDS,
    FULL_SECONDS,
    KEPT,
    PIECE,
    Address,
    Send,
    is_quiet,
    late,
    lost,
    stream_socket,
    try_connect,
)
from effectd._wire import AnswerReader, Head, Response, make_response
from effectd.errors import AnswerLost, Unreachable

T = TypeVar("T")


@contextlib.asynccontextmanager
async def closing(
    stream: AsyncGenerator[T, None],
) -> AsyncGenerator[AsyncGenerator[T, None], None]:
    """Close the stream at the end of the block, not when the collector comes by."""
    try:
        yield stream
    finally:
        await stream.aclose()


class Asyncio:
    """The same under asyncio. Belongs to the event loop that it is first used in."""

    def __init__(self, paths: Sequence[str], max_answer: int) -> None:
        self._address = Address(paths)
        self._max_answer = max_answer
        self._kept: list[socket.socket] = []
        self._owner = (os.getpid(), 0)

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    async def exchange(self, send: Send) -> Response:
        """Send and return the whole answer. Raises Unreachable, AnswerLost or BadAnswer."""
        kept = self._take() if send.repeatable else None
        if kept is None:
            return await self._exchange(await self._connect(), send)
        try:
            return await self._exchange(kept, send)
        except AnswerLost as loss:
            if loss.timed_out:
                raise
            try:
                fresh = await self._connect()
            except Unreachable as away:
                raise loss from away  # it was sent, so it may have been carried out
        return await self._exchange(fresh, send)

    async def stream(self, send: Send) -> AsyncGenerator[tuple[Head, bytes], None]:
        """Send, and give the answer's body piece by piece; `timeout` is between two pieces."""
        reader = AnswerReader(max_body=None)
        sock = await self._connect()
        try:
            await _in_time(_send_all_async(sock, send.request), send.timeout)
            while not reader.done:
                await _in_time(_receive_async(sock, reader), send.timeout)
                if reader.head is not None:
                    yield reader.head, reader.take()
        finally:
            sock.close()

    async def _exchange(self, sock: socket.socket, send: Send) -> Response:
        reader = AnswerReader(max_body=self._max_answer)

        async def both() -> None:
            await _send_all_async(sock, send.request)
            while not reader.done:
                await _receive_async(sock, reader)

        try:
            await _in_time(both(), send.timeout)
        except BaseException:
            sock.close()
            raise
        self._keep(sock, reader.reusable)
        assert reader.head is not None
        return make_response(reader.head, reader.take())

    async def _connect(self) -> socket.socket:
        path = self._address.path
        sock = stream_socket()
        sock.setblocking(False)
        deadline = time.monotonic() + CONNECT_SECONDS
        try:
            while not try_connect(sock, path, deadline):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(FULL_SECONDS)
        except OSError as error:
            sock.close()
            raise unreachable(path, error) from error
        except BaseException:
            sock.close()
            raise
        return sock

    def _take(self) -> Optional[socket.socket]:
        owner = (os.getpid(), id(asyncio.get_running_loop()))
        if self._owner != owner:
            self._owner = owner
            self.close()
        while self._kept:
            sock = self._kept.pop()
            if is_quiet(sock):
                return sock
            sock.close()
        return None

    def _keep(self, sock: socket.socket, reusable: bool) -> None:
        owner = (os.getpid(), id(asyncio.get_running_loop()))
        if reusable and len(self._kept) < KEPT and self._owner == owner:
            self._kept.append(sock)
        else:
            sock.close()


async def _in_time(work: Coroutine[Any, Any, None], seconds: float) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError as error:
        raise late() from error
    except OSError as error:
        raise lost(error) from error


async def _send_all_async(sock: socket.socket, request: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await asyncio.get_running_loop().sock_sendall(sock, request)


async def _receive_async(sock: socket.socket, reader: AnswerReader) -> None:
    reader.feed(await asyncio.get_running_loop().sock_recv(sock, PIECE))
