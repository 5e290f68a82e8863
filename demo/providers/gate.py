"""Doors at which a provider's callers wait: how the demo kills at an exact moment, without sleeps.

A provider commits what it was asked to do and only then walks through its door. While the door
is shut the effect exists and nobody has heard of it.
"""

from __future__ import annotations

import threading
from collections import Counter


class Gate:
    """Named doors, all open at first. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shut: set[str] = set()
        self._waiting: Counter[str] = Counter()

    def shut(self, door: str) -> None:
        with self._changed:
            self._shut.add(door)

    def open(self, door: str) -> None:
        """Let everybody through who waits there, and everybody who comes later."""
        with self._changed:
            self._shut.discard(door)
            self._changed.notify_all()

    def walk_through(self, door: str) -> None:
        """Return once the door is open."""
        with self._changed:
            if door not in self._shut:
                return
            self._waiting[door] += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: door not in self._shut)
            finally:
                self._waiting[door] -= 1

    def wait_until(self, door: str, waiting: int, timeout_ms: int) -> int:
        """How many wait at the door, as soon as they are `waiting` or more, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[door] >= waiting, timeout_ms / 1000)
            return self._waiting[door]

    def open_all(self) -> None:
        """Nobody waits any longer: the provider is about to end."""
        with self._changed:
            self._shut.clear()
            self._changed.notify_all()
