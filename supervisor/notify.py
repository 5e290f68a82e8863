"""Tell systemd how the daemon is (sd_notify), without ever waiting for it.

The variables are taken out of the environment when they are read: a handler
that knew the socket could speak for the daemon.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Self

import trio

from frozen import frozen


@frozen
class Notifier:
    """Where to report to, if anywhere. Nothing blocks or raises; reports say if they were sent."""

    _socket: socket.socket | None
    _address: str | bytes
    watchdog_ms: int | None
    """How long systemd waits for a sign of life; None when it does not."""

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] | None = None) -> Self:
        """Take NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment."""
        environ = os.environ if environ is None else environ
        named = environ.pop("NOTIFY_SOCKET", "")
        watchdog_ms = _watchdog_ms(
            environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        )
        # Abstract names are written with "@" for their first NUL.
        address: str | bytes = b"\0" + os.fsencode(named[1:]) if named[:1] == "@" else named
        if named[:1] not in {"/", "@"} or len(named) == 1:
            return cls(None, "", watchdog_ms)
        # Opened once: a daemon that is out of descriptors must still say so.
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        return cls(sock, address, watchdog_ms)

    def ready(self, status: str = "") -> bool:
        return self._send("READY=1", f"STATUS={_line(status)}")

    def status(self, text: str) -> bool:
        return self._send(f"STATUS={_line(text)}")

    def reloading(self) -> bool:
        """Say that a reload begins; `ready` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        return self._send("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self, status: str = "") -> bool:
        return self._send("STOPPING=1", f"STATUS={_line(status)}")

    async def watchdog(self, healthy: Callable[[], bool]) -> None:
        """Give a sign of life at half the interval, while `healthy` says so.

        Returns at once when systemd asks for none. Silence is the report: after
        the whole interval without a sign systemd ends and restarts the daemon.
        """
        if self.watchdog_ms is None:
            return
        while True:
            if healthy():
                self._send("WATCHDOG=1")
            await trio.sleep(self.watchdog_ms / 2000)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _send(self, *assignments: str) -> bool:
        if self._socket is None:
            return False
        try:
            self._socket.sendto("\n".join(assignments).encode(), self._address)
        except OSError:
            # Gone, full or forbidden: the daemon's work does not depend on it.
            return False
        return True


def _watchdog_ms(interval_us: str, pid: str) -> int | None:
    if pid and pid != str(os.getpid()):
        return None  # set for another process, and inherited
    if not (interval_us.isascii() and interval_us.isdecimal()):
        return None
    return max(int(interval_us) // 1000, 1) if int(interval_us) else None


def _line(text: str) -> str:
    """One line: a line break would begin another assignment."""
    return " ".join(text.split())
