"""How much of the disk the state directory takes, and when that is too much for new work.

`journal.state_bytes` bounds journal, snapshots, blobs and outputs together. New work is refused
while less than one segment and one snapshot is left: what runs must be able to end.
"""

from __future__ import annotations

import time

import attrs
import trio

from supervisor.dispatch import Engine
from supervisor.occupied import largest_snapshot, occupied

LOOK_S = 5.0
# Of a large directory: so many times as long as it took to look at it.
_EASE = 20


@attrs.define
class Occupancy:
    """What the state directory took at the last look, with the segments made since."""

    engine: Engine
    _bytes: int = 0
    _snapshot: int = 0
    _segments: int = 0

    async def run(self) -> None:
        """Until cancelled: look every few seconds."""
        while True:
            began = time.monotonic()
            await self.look()
            await trio.sleep(max(LOOK_S, _EASE * (time.monotonic() - began)))

    async def look(self) -> None:
        segments = self._made()
        try:
            directory = self.engine.config.state_dir
            self._bytes = await trio.to_thread.run_sync(occupied, directory)
            self._snapshot = await trio.to_thread.run_sync(largest_snapshot, directory)
        except OSError:
            return  # the journal meets what is wrong with the disk, and tells
        self._segments = segments

    @property
    def used(self) -> int:
        """In bytes."""
        made = self._made() - self._segments
        made_bytes = made * self.engine.config.journal.segment_bytes
        return self._bytes + made_bytes + self.engine.scratch.used

    @property
    def problem(self) -> str | None:
        """Why new work is refused; None while there is room for it."""
        limits = self.engine.config.journal
        if self.used + limits.segment_bytes + self._snapshot <= limits.state_bytes:
            return None
        return (
            f"state_dir takes {self.used} bytes, and journal.state_bytes {limits.state_bytes} "
            "leaves no room for another segment and snapshot: raise it, or keep less "
            "(retention.finished_days, limits.operations_kept)"
        )

    def _made(self) -> int:
        stats = self.engine.journal.stats()
        return self.engine.journal.segment + stats.spares
