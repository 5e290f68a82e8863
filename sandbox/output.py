"""Keeps the head and the tail of a stream of any length, and counts what lay between."""

from __future__ import annotations


class BoundedOutput:
    """Holds at most ``head`` + 2 x ``tail`` bytes and one read, in whatever pieces they come."""

    def __init__(self, head: int, tail: int) -> None:
        self.head_max = head
        self.tail_max = tail
        self.total = 0
        self._head = bytearray()
        # One buffer and not a list of reads: of reads of one byte each a list would hold forty
        # times what they weigh.
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self.head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self.tail_max:
            self._tail = bytearray(data[len(data) - self.tail_max :])
            return
        self._tail += data
        # Not at each read: what is left is moved only when as much again has come.
        if len(self._tail) > 2 * self.tail_max:
            del self._tail[: -self.tail_max]

    @property
    def head(self) -> bytes:
        """The first bytes, at most ``head_max``."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The last bytes that are not in `head`, at most ``tail_max``."""
        return bytes(self._tail[-self.tail_max :]) if self.tail_max else b""

    @property
    def omitted(self) -> int:
        """How many bytes between `head` and `tail` were not kept."""
        return self.total - len(self._head) - min(len(self._tail), self.tail_max)
