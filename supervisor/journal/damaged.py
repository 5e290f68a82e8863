"""What stands in for a journal that must not be written: its proven prefix, read-only."""

from __future__ import annotations

from supervisor.journal.errors import JournalPoisoned
from supervisor.journal.health import JournalStats, Recovered


class DamagedJournal:
    """The prefix that could be proven. It has positions, and takes nothing."""

    payload_limit = 0
    outcome_limit = 0
    poisoned: JournalPoisoned | None = None

    def __init__(self, position: int, frames: int) -> None:
        self.position = position
        self.durable_position = position
        self.recovered = Recovered(
            verdict="damaged",
            discarded=0,
            frames=frames,
            position=position,
            segments=0,
            blemishes=(),
            took_ms=0,
        )

    def stats(self) -> JournalStats:
        return JournalStats(
            syncs=0,
            frames=0,
            bytes=0,
            last_sync_us=0,
            in_flight_us=0,
            queued_bytes=0,
            room=0,
            spares=0,
            degraded="read-only: damaged",
        )

    async def close(self) -> None:
        """Nothing was opened."""
