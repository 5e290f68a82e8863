"""Keeps the head and the tail of a stream of any length, and counts what lay between."""

from __future__ import annotations

from collections import deque


class BoundedOutput:
    """Holds at most ``head`` + ``tail`` bytes (and one read more), however much is added."""

    def __init__(self, head: int, tail: int) -> None:
        self.head_max = head
        self.tail_max = tail
        self.total = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self.head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data or not self.tail_max:
            return
        self._tail.append(data[-self.tail_max :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self.tail_max:
            self._tail_size -= len(self._tail.popleft())

    @property
    def head(self) -> bytes:
        """The first bytes, at most ``head_max``."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The last bytes that are not in `head`, at most ``tail_max``."""
        return b"".join(self._tail)[-self.tail_max :] if self.tail_max else b""

    @property
    def omitted(self) -> int:
        """How many bytes between `head` and `tail` were not kept."""
        return self.total - len(self._head) - len(self.tail)
