"""Something on the host that a handler may want to reach."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def answering(server: socket.socket) -> Iterator[None]:
    """Answer each connection with one line, until the end."""

    def serve() -> None:
        while True:
            try:
                one, _ = server.accept()
            except OSError:
                return
            with one, contextlib.suppress(OSError):  # who only looked has gone already
                one.sendall(b"hello\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)  # which ends the accept that waits
        thread.join(10)
        server.close()
