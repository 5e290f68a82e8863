"""A small HTTP server on a Unix socket that answers as a test tells it to."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from typing import Any, Callable, NamedTuple, Optional, Union


class Asked(NamedTuple):
    """One request as the server read it."""

    method: str
    path: str
    query: str
    body: Any
    connection: int


class Say(NamedTuple):
    """An answer with a JSON document."""

    status: int
    document: Any
    headers: tuple[tuple[str, str], ...] = ()


class Raw(NamedTuple):
    """These bytes, and then the end of the connection (or not)."""

    data: bytes
    close: bool = True


DROP = Raw(b"")
Reply = Union[Say, Raw]
Script = Callable[[Asked], Reply]


def problem(status: int, code: str, *, retryable: Optional[bool] = None, **more: Any) -> Say:
    document = {"type": f"urn:effectd:{code}", "code": code, "title": code, **more}
    if retryable is not None:
        document["retryable"] = retryable
    return Say(status, document)


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    kind = b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
    head = b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + body + (b"0\r\n\r\n" if end else b"")


class Server:
    """Answers each request by `script`. It can be stopped and started like a daemon."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[Asked] = []
        self.script: Script = lambda asked: Say(404, {"code": "NotFound"})
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener: Optional[socket.socket] = None
        self._lock = threading.Lock()

    def replies(self, *replies: Reply) -> None:
        """Answer with these in turn, whatever is asked; the last one for ever."""
        left = list(replies)
        self.script = lambda asked: left.pop(0) if len(left) > 1 else left[0]

    def start(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """As a killed daemon: every connection ends at once."""
        with self._lock:
            listener, self._listener = self._listener, None
            connections = list(self._open)
        for sock in [*([listener] if listener else []), *connections]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if listener:
            listener.close()
            os.unlink(self.path)

    def join(self) -> None:
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)
                assert not thread.is_alive()

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                number = self.connections
                self._open.add(sock)
            self._spawn(self._serve, sock, number)

    def _serve(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), sock:
            while True:
                asked = self._read(sock, number)
                if asked is None:
                    break
                self.asked.append(asked)
                reply = self.script(asked)
                data = reply.data if isinstance(reply, Raw) else _bytes(reply)
                sock.sendall(data)
                if isinstance(reply, Raw) and reply.close:
                    break
        with self._lock:
            self._open.discard(sock)

    def _read(self, sock: socket.socket, number: int) -> Optional[Asked]:
        buffer = b""
        while b"\r\n\r\n" not in buffer:
            data = sock.recv(65536)
            if not data:
                return None
            buffer += data
        head, _, body = buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", "0"))
        while len(body) < length:
            data = sock.recv(65536)
            if not data:
                return None
            body += data
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        return Asked(method, path, query, json.loads(body) if body else None, number)


def _bytes(reply: Say) -> bytes:
    body = json.dumps(reply.document).encode()
    kind = "application/json" if reply.status < 400 else "application/problem+json"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *reply.headers]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode() + body
