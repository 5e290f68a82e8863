"""Notice that a client has gone while its request is being answered.

End of file is not that: a client may shut down its sending half and read on.
On a Unix socket the kernel reports EPOLLHUP once the other end is closed, or
shut down both ways, and reports it whatever else is asked for. So one epoll
that asks for nothing watches all connections, and no byte of a next request is
read to find out.
"""

from __future__ import annotations

import select
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import trio


class HangUps:
    """Cancels scopes whose connection hangs up, while `run` runs.

    To be entered around all its users: a cancelled one still leaves its block.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._scopes: dict[int, trio.CancelScope] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._epoll.close()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for fd, _ in self._epoll.poll(0):
                self._scopes[fd].cancel()

    @contextmanager
    def cancelling(self, fd: int) -> Generator[trio.CancelScope]:
        """Cancel the block when the connection `fd` hangs up; `fd` stays open within."""
        # One report is enough, and a level-triggered one would spin.
        self._epoll.register(fd, select.EPOLLONESHOT)
        try:
            with trio.CancelScope() as scope:
                self._scopes[fd] = scope
                yield scope
        finally:
            del self._scopes[fd]
            self._epoll.unregister(fd)
