"""The daemon and its witness: when it is asked, when it is told, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import trio

from config.schema import Config
from supervisor.journal import lock
from supervisor.journal.errors import WitnessUnusable
from supervisor.journal.log import Journal
from supervisor.journal.witness import Witness

# A roll-back by less than this after a crash is not seen.
EVERY_S = 5.0
_NOBODY = "no witness is kept, and a journal that is rolled back would not be noticed"


class Keeper:
    """`problem` is why the witness could not be told, None while it can."""

    def __init__(self, config: Config, accept: str, say: Callable[[str], None]) -> None:
        """`accept` is the reason to accept a roll-back for, "" to refuse one."""
        self._config = config
        self._accept = accept
        self._say = say
        self._witness: Witness | None = None
        self.problem: str | None = None

    def open(self) -> Witness | None:
        """Once the journal is locked. Raises JournalLocked and WitnessUnusable; a developer
        whose state directory stands where nothing can stand beside it goes without."""
        directory = self._config.witness_dir
        try:
            self._witness = Witness.open(directory, accept=self._accept, lock_wait_ms=lock.WAIT_MS)
        except WitnessUnusable as error:
            if not self._config.origin.dev or directory.exists():
                raise
            self._say(f"warning: {error}: {_NOBODY}")
        return self._witness

    @property
    def accepted(self) -> str:
        """What an accepted roll-back forgets and why; "" when there was none."""
        return "" if self._witness is None else self._witness.accepted

    async def begin(self, journal: Journal) -> None:
        """The first testimony of this start, once its decision is durable."""
        witness = self._witness
        if witness is None:
            return
        if witness.told is None and journal.recovered.frames:
            self._say(
                f"warning: {witness.directory} has no witness of this journal yet; it begins "
                "now, and cannot tell whether an old state was restored before"
            )
        if witness.accepted:
            self._say(f"warning: a roll-back was accepted: {witness.accepted}")
        if witness.unneeded:
            self._say("warning: --accept-rollback has nothing to accept; take it away")
        await self.keep(journal)

    async def run(self, journal: Journal) -> None:
        """Until cancelled: every few seconds, and no write where nothing was decided."""
        while True:
            await trio.sleep(EVERY_S)
            await self.keep(journal)

    async def keep(self, journal: Journal) -> None:
        """Tell the witness the newest durable decision. Never raises for its disk."""
        position, digest = journal.decided
        if self._witness is None or not position:
            return
        directory = self._config.state_dir / "journal"
        try:
            await trio.to_thread.run_sync(self._witness.keep, directory, position, digest)
        except OSError as error:
            if self.problem is None:
                self._say(f"warning: witness_dir {self._config.witness_dir}: {error}: {_NOBODY}")
            self.problem = f"{self._config.witness_dir}: {error}"
        else:
            if self.problem is not None:
                self._say("the witness is kept again")
            self.problem = None

    def close(self) -> None:
        if self._witness is not None:
            self._witness.close()
            self._witness = None
