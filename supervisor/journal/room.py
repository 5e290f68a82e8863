"""How much the prepared files will certainly take: the reserve for outcomes, in bytes.

A plan places every frame as if it were a batch of its own, in order, in the active
segment and then in the spares. Real batches are never larger and go the same way, so a
real frame is never behind its planned place. What is left is guaranteed, less what may be
wasted at the end of each file because the next frame does not fit there any more.

Pure arithmetic; whoever uses it from two threads brings the lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.journal.codec import OVERHEAD, aligned

HEADER_BYTES = 512
OUTCOME_BYTES = 64 << 10


def frame_cost(payload_bytes: int, align: int) -> int:
    """Bytes that a frame with such a payload takes at most, alone in its batch."""
    return aligned(OVERHEAD + payload_bytes, align)


class Room:
    """The plan. `spares` are sizes, next one first."""

    def __init__(self, segment_bytes: int, align: int) -> None:
        self.align = align
        self.payload_limit = segment_bytes // 4 - OVERHEAD - align
        """The largest payload, in bytes, that a frame may have."""
        self.outcome_limit = min(OUTCOME_BYTES, segment_bytes // 8 - OVERHEAD - align)
        """The largest payload, in bytes, that may use the reserve."""
        self._waste = frame_cost(self.outcome_limit, align)
        self._header = aligned(HEADER_BYTES, align)
        self._usable = segment_bytes - self._header - self._waste
        self._rest = 0
        self._spares: list[int] = []

    def reset(self, rest: int, spares: Iterable[int], costs: Iterable[int]) -> None:
        """Plan anew: what is really left, and the frames that still go into it."""
        self._rest = rest
        self._spares = list(spares)
        for cost in costs:
            assert self.take(cost), "what was planned once still fits"

    def add(self, size: int) -> None:
        """A spare became ready."""
        self._spares.append(size)

    def take(self, cost: int) -> bool:
        """Place one frame; False, and nothing changed, when it fits nowhere."""
        if cost <= self._rest:
            self._rest -= cost
            return True
        if not self._spares or cost > self._spares[0] - self._header:
            return False
        self._rest = self._spares.pop(0) - self._header - cost
        return True

    def after(self, cost: int) -> int:
        """The guaranteed bytes once a frame of this cost was placed; -1 when it fits nowhere."""
        if cost <= self._rest:
            return self._sum(self._rest - cost, self._spares)
        if not self._spares or cost > self._spares[0] - self._header:
            return -1
        return self._sum(self._spares[0] - self._header - cost, self._spares[1:])

    @property
    def guaranteed(self) -> int:
        return self._sum(self._rest, self._spares)

    def _sum(self, rest: int, spares: list[int]) -> int:
        whole = sum(size - self._header - self._waste for size in spares)
        return max(0, rest - self._waste) + whole

    def missing(self, keep: int) -> int:
        """How many more spares until one stands ready and `keep` is guaranteed with some ease."""
        short = keep + self._waste - self.guaranteed
        return max(0 if self._spares else 1, -(-short // self._usable))
