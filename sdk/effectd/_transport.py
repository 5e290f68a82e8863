"""One request over one Unix socket, blocking; `_atransport` does the same under asyncio.

A connection is kept for the next request, but a request that must not be sent twice always
gets a fresh one: a kept connection may have been closed by the other end without anybody
noticing, and then nobody can tell whether the request was read.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Generator, Sequence
from typing import NamedTuple, Optional

from effectd._socket import choose, unreachable
from effectd._wire import AnswerReader, Head, Response, make_response
from effectd.errors import AnswerLost, Unreachable

PIECE = 65_536
KEPT = 8
CONNECT_SECONDS = 10.0
FULL_SECONDS = 0.01


class Send(NamedTuple):
    """One request, once. `timeout` is in seconds and covers the whole exchange."""

    request: bytes
    timeout: float
    repeatable: bool


class Address:
    """The socket's path, chosen at the first use and then kept (see `choose`)."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._chosen: Optional[str] = None

    @property
    def path(self) -> str:
        if self._chosen is None:
            self._chosen = choose(self._paths)
        return self._chosen


def late() -> AnswerLost:
    return AnswerLost("no answer came in time", timed_out=True)


def lost(error: OSError) -> AnswerLost:
    if isinstance(error, (socket.timeout, TimeoutError)):
        return late()
    return AnswerLost(f"the connection broke: {error.strerror or error}")


def is_quiet(sock: socket.socket) -> bool:
    """Whether nothing has come on a kept connection: an end of file counts as something."""
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLHUP)
    return not poll.poll(0)


def try_connect(sock: socket.socket, path: str, deadline: float) -> bool:
    """Connect, or tell that the listener's queue is full (EAGAIN).

    That is no connection in progress, as it would be with TCP: nothing ever becomes writable,
    and asyncio's sock_connect would call it connected.
    """
    try:
        sock.connect(path)
    except BlockingIOError:
        if time.monotonic() > deadline:
            raise
        return False
    return True


def stream_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


class Blocking:
    """The blocking transport. Safe to use from several threads, and after a fork."""

    def __init__(self, paths: Sequence[str], max_answer: int) -> None:
        self._address = Address(paths)
        self._max_answer = max_answer
        self._kept: list[socket.socket] = []
        self._pid = os.getpid()

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    def exchange(self, send: Send) -> Response:
        """Send and return the whole answer. Raises Unreachable, AnswerLost or BadAnswer."""
        kept = self._take() if send.repeatable else None
        if kept is None:
            return self._exchange(self._connect(), send)
        try:
            return self._exchange(kept, send)
        except AnswerLost as loss:
            if loss.timed_out:
                raise
            try:
                fresh = self._connect()
            except Unreachable as away:
                raise loss from away  # it was sent, so it may have been carried out
        return self._exchange(fresh, send)

    def stream(self, send: Send) -> Generator[tuple[Head, bytes], None, None]:
        """Send, and give the answer's body piece by piece; `timeout` is between two pieces."""
        reader = AnswerReader(max_body=None)
        with contextlib.closing(self._connect()) as sock:
            _send_all(sock, send.request, time.monotonic() + send.timeout)
            while not reader.done:
                _receive(sock, reader, time.monotonic() + send.timeout)
                if reader.head is not None:
                    yield reader.head, reader.take()

    def _exchange(self, sock: socket.socket, send: Send) -> Response:
        reader = AnswerReader(max_body=self._max_answer)
        deadline = time.monotonic() + send.timeout
        try:
            _send_all(sock, send.request, deadline)
            while not reader.done:
                _receive(sock, reader, deadline)
        except BaseException:
            sock.close()  # half an answer may still stand in it
            raise
        self._keep(sock, reader.reusable)
        assert reader.head is not None
        return make_response(reader.head, reader.take())

    def _connect(self) -> socket.socket:
        path = self._address.path
        sock = stream_socket()
        try:
            sock.setblocking(False)
            deadline = time.monotonic() + CONNECT_SECONDS
            while not try_connect(sock, path, deadline):
                time.sleep(FULL_SECONDS)
        except OSError as error:
            sock.close()
            raise unreachable(path, error) from error
        return sock

    def _take(self) -> Optional[socket.socket]:
        if self._pid != os.getpid():  # after a fork both processes would read the same answers
            self._pid = os.getpid()
            self.close()
        while True:
            try:
                sock = self._kept.pop()
            except IndexError:
                return None
            if is_quiet(sock):
                return sock
            sock.close()

    def _keep(self, sock: socket.socket, reusable: bool) -> None:
        if reusable and len(self._kept) < KEPT and self._pid == os.getpid():
            self._kept.append(sock)
        else:
            sock.close()


def _send_all(sock: socket.socket, request: bytes, deadline: float) -> None:
    try:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        sock.sendall(request)
    except (BrokenPipeError, ConnectionResetError):
        pass  # a refusal of a long body is sent before the body is read: look for an answer
    except OSError as error:
        raise lost(error) from error


def _receive(sock: socket.socket, reader: AnswerReader, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise late()
    try:
        sock.settimeout(left)
        data = sock.recv(PIECE)
    except OSError as error:
        raise lost(error) from error
    reader.feed(data)
