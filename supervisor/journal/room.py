"""How much the prepared files will certainly take: the reserve for outcomes, in bytes.

A plan places every frame as if it were a batch of its own, in order, in the active
segment and then in the spares. Real batches are never larger and go the same way, so a
real frame is never behind its planned place. What is left is guaranteed, less what may be
wasted at the end of each file because the next frame does not fit there any more.

Pure arithmetic; whoever uses it from two threads brings the lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.journal.codec import LENGTH_MAX, OVERHEAD, aligned

HEADER_BYTES = 512
OUTCOME_BYTES = 64 << 10


def frame_cost(payload_bytes: int, align: int) -> int:
    """Bytes that a frame with such a payload takes at most, alone in its batch."""
    return aligned(OVERHEAD + payload_bytes, align)


class Room:
    """The plan. `spares` are sizes, next one first."""

    def __init__(self, segment_bytes: int, align: int) -> None:
        self.align = align
        self.payload_limit = min(segment_bytes // 4, LENGTH_MAX) - OVERHEAD - align
        """The largest payload, in bytes, that a frame may have."""
        self.outcome_limit = min(OUTCOME_BYTES, segment_bytes // 8 - OVERHEAD - align)
        """The largest payload, in bytes, that may use the reserve."""
        self._waste = frame_cost(self.outcome_limit, align)
        self._header = aligned(HEADER_BYTES, align)
        self._ready = self._header + self._waste
        self._usable = segment_bytes - self._ready
        self._rest = 0
        self._spares: list[int] = []
        self._whole = 0  # guaranteed bytes of all spares

    def reset(self, rest: int, spares: Iterable[int], costs: Iterable[int]) -> None:
        """Plan anew: what is really left, and the frames that still go into it."""
        self._rest = rest
        self._spares = list(spares)
        self._whole = sum(self._spares) - self._ready * len(self._spares)
        for cost in costs:
            assert self.take(cost), "what was planned once still fits"

    def add(self, size: int) -> None:
        """A spare became ready."""
        self._spares.append(size)
        self._whole += size - self._ready

    def take(self, cost: int) -> bool:
        """Place one frame; False, and nothing changed, when it fits nowhere."""
        if cost <= self._rest:
            self._rest -= cost
            return True
        if not self._spares or cost > self.capacity(self._spares[0]):
            return False
        size = self._spares.pop(0)
        self._whole -= size - self._ready
        self._rest = self.capacity(size) - cost
        return True

    def after(self, cost: int) -> int:
        """The guaranteed bytes once a frame of this cost was placed; -1 when it fits nowhere."""
        if cost <= self._rest:
            return max(0, self._rest - cost - self._waste) + self._whole
        if not self._spares or cost > self.capacity(self._spares[0]):
            return -1
        size = self._spares[0]
        whole = self._whole - (size - self._ready)
        return max(0, self.capacity(size) - cost - self._waste) + whole

    @property
    def guaranteed(self) -> int:
        return max(0, self._rest - self._waste) + self._whole

    def capacity(self, size: int) -> int:
        """Bytes for batches in a segment of `size` bytes, behind its header."""
        return size - self._header

    def missing(self, keep: int) -> int:
        """How many more spares until one stands ready and `keep` is guaranteed with some ease."""
        short = keep + self._waste - self.guaranteed
        return max(0 if self._spares else 1, -(-short // self._usable))
