"""The daemon and the snapshots of its journal: when one is made, and what is said of it.

A `State` never changes, so taking hold of one costs nothing. It is written by a thread that
works a moment and rests a moment, so that the loop has the interpreter when it wants it.

Finished operations are filed for it, and that takes their place in memory (see core/filing.py).
When many are not filed yet, that is done without a snapshot.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from sandbox import scarce
from supervisor.core.filing import Filing
from supervisor.core.state import State
from supervisor.core.whole import lines
from supervisor.journal.log import Journal, JournalError, JournalPoisoned
from supervisor.journal.snapshot import KEPT

# Whichever comes first: so much is read by the next start at most. Of decisions it must be half
# as many as there are operations, too: writing these takes longer than folding those.
DECISIONS = 5_000
SEGMENTS = 4
# Segments that no start needs stay for people, the newest of them: what was known when. Unless the
# state directory is full.
PAST = 16
# A clean stop makes one sooner, and gives up after a while.
DECISIONS_AT_STOP = 1_000
AT_STOP_S = 5.0
LOOK_S = 5.0
RETRY_S, RETRY_MOST_S = 30.0, 3_600.0
_WORK_S, _REST_S = 0.001, 0.001

_T = TypeVar("_T")


class _Abandoned(Exception):  # noqa: N818  # caught where it is asked for
    """There is no time left to finish it."""


def content_of(filing: Filing, *, rest_s: float = 0, until: Callable[[], bool]) -> Iterator[bytes]:
    """The whole of the filing's state in lines, with a rest after each moment of work; the filing
    is done when they are. Raises _Abandoned when `until` says so."""
    made = itertools.chain(filing.steps(), lines(filing.state, filing))
    return (line for line in _resting(made, rest_s, until) if line is not None)


def _resting(steps: Iterable[_T], rest_s: float, until: Callable[[], bool]) -> Iterator[_T]:
    began = time.monotonic()
    for step in steps:
        yield step
        if time.monotonic() - began > _WORK_S:
            if until():
                raise _Abandoned
            if rest_s:
                time.sleep(rest_s)
            began = time.monotonic()


@attrs.define
class Snapshots:
    """When snapshots are made; the journal's stats say how that goes."""

    journal: Journal
    state: Callable[[], State]
    file: Callable[[Filing], Awaitable[None]]
    crowded: Callable[[], bool]
    archive: Callable[[], Path | None]
    full: Callable[[], bool]
    say: Callable[[str], None]
    _segment: int = 0
    _failing: bool = False
    _loose: bool = False
    _made_full: int = 0
    _stopping: bool = False
    _wait_s: float = RETRY_S

    def __attrs_post_init__(self) -> None:
        # What the last start had to read counts, however many segments it was in.
        self._segment = self.journal.segment - self.journal.recovered.segments + 1

    async def run(self) -> None:
        """Until cancelled: look every few seconds, and make one that is due."""
        # What the start took goes back, and what it read in drawers needs no memory.
        await self.file(Filing(self.state()))
        while True:
            if self.crowded():
                await self._file()
            await trio.sleep(LOOK_S)
            if self._due():
                await self._make(_REST_S)
                if self._failing:
                    await trio.sleep(self._wait_s)
                    self._wait_s = min(2 * self._wait_s, RETRY_MOST_S)

    def stop(self) -> None:
        """Have one that is being made end soon; nothing is lost by that."""
        self._stopping = True

    async def at_stop(self) -> None:
        """The last one, when the next start is notably faster with it."""
        if self.journal.poisoned is None and self._many(DECISIONS_AT_STOP):
            self._stopping = False
            deadline = time.monotonic() + AT_STOP_S
            await self._make(0, until=lambda: time.monotonic() > deadline)

    async def _file(self) -> None:
        """What takes memory that nobody needs, by the same thread in the same way."""
        filing = Filing(self.state())

        def work() -> None:
            for _ in _resting(filing.steps(), _REST_S, lambda: self._stopping):
                pass

        try:
            await scarce.in_thread(work)
        except _Abandoned:
            return
        except OSError as error:
            self._unfiled(str(error))
            return
        self._loose = False
        await self.file(filing)

    def _behind(self) -> int:
        """How many decisions and marks the next start would have to read."""
        return self.journal.durable_position - self.journal.stats().snapshot

    def _due(self) -> bool:
        grown = self.journal.segment - self._segment >= SEGMENTS
        return self._many(DECISIONS) or ((grown or self._crowded()) and self._behind() > 0)

    def _crowded(self) -> bool:
        """Whether another one may make room: two let go of every segment before them."""
        self._made_full = self._made_full if self.full() else 0
        return self.full() and self._made_full < KEPT

    def _many(self, least: int) -> bool:
        return self._behind() >= max(least, len(self.state().operations) // 2)

    async def _make(self, rest_s: float, until: Callable[[], bool] = lambda: False) -> None:
        journal = self.journal
        # In one turn of the loop: the state is the fold of what is pinned, and no more.
        pin, segment, state = journal.pin(), journal.segment, self.state()
        filing = Filing(state)
        content = content_of(filing, rest_s=rest_s, until=lambda: self._stopping or until())
        try:
            keep = 0 if self.full() else PAST
            await journal.take(pin, content, self.archive(), keep=keep)
        except _Abandoned:
            return
        except JournalPoisoned:
            return  # the daemon says so, and ends
        except (OSError, JournalError) as error:
            self._failed(str(error))
        else:
            if self._failing:
                self.say("snapshots of the journal are made again")
            self._failing, self._wait_s, self._segment = False, RETRY_S, segment
            self._made_full += 1
        # What it took to pack them is not lost when nothing could be written.
        await self.file(filing)

    def _unfiled(self, why: str) -> None:
        if not self._loose:
            self.say(f"warning: finished operations stay in memory: {why}; it is tried again")
        self._loose = True

    def _failed(self, why: str) -> None:
        if not self._failing:
            self.say(f"warning: a snapshot of the journal failed: {why}; it is tried again")
        self._failing = True
