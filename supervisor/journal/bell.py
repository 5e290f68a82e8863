"""How a thread tells the loop to look: an eventfd, and a task that waits for it.

Every durable answer waits for this. Trio's own way in from a thread takes longer: a socket,
a lock, and a queue that everybody shares.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import trio


class Bell:
    """Rung from any thread, as often as wanted; several rings may be heard as one.

    It is closed with its last reference: a thread that still holds it can never ring what
    has the number of a closed one.
    """

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._listening = trio.CancelScope()

    def __del__(self) -> None:
        os.close(self._fd)

    def ring(self) -> None:
        os.eventfd_write(self._fd, 1)

    async def listen(self, hear: Callable[[], None]) -> None:
        """Call `hear` on the loop after each ring, until `stop` or a cancellation."""
        with self._listening:
            while True:
                await trio.lowlevel.wait_readable(self._fd)
                os.eventfd_read(self._fd)
                hear()

    def stop(self) -> None:
        """On the loop: nothing is heard any more."""
        self._listening.cancel()
