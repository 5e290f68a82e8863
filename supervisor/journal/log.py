"""The journal as the loop sees it: append now, hear later that it is durable.

`append` queues and gives the position at once; `durable` waits for the disk. What depends
on a position must not leave the process before `durable` returned for it. Cancelling a
caller never means undo: what was queued stays queued.

A failed write or sync poisons the journal: every waiter at or behind it, and every later
append, gets JournalPoisoned; the process is to be restarted, and the restart reads the
disk. A full disk is no fault: `append` refuses before it queues, except what may use the
reserve, and takes new work again by itself when there is room.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import outcome
import trio

from supervisor.journal import lock, snapshot
from supervisor.journal.ahead import Ahead
from supervisor.journal.anchor import identity_of
from supervisor.journal.bell import Bell
from supervisor.journal.chain import UNKNOWN
from supervisor.journal.codec import Frame
from supervisor.journal.commit import Committer
from supervisor.journal.errors import (
    JournalCorrupt,
    JournalError,
    JournalFull,
    JournalIOError,
    JournalLocked,
    JournalPoisoned,
    JournalTooNew,
)
from supervisor.journal.file import REAL, Os
from supervisor.journal.health import JournalStats, Pin, Recovered
from supervisor.journal.opening import Opened, Watch, open_directory
from supervisor.journal.proven import OnSnapshot
from supervisor.journal.room import frame_cost
from supervisor.journal.segments import Point
from supervisor.journal.snapshot import Place

__all__ = [
    "Frame",
    "Journal",
    "JournalCorrupt",
    "JournalError",
    "JournalFull",
    "JournalIOError",
    "JournalLocked",
    "JournalPoisoned",
    "JournalStats",
    "JournalTooNew",
    "Recovered",
]

QUEUE_BYTES = 4 << 20
SEGMENT_BYTES_MIN = 4096


class Journal:
    """One process's hold on a journal. Loop thread only, but for what runs behind it."""

    def __init__(self, os_: Os, directory: int, opened: Opened, committer: Committer) -> None:
        """Use `open`."""
        tip, tail = opened.walked.tip, opened.walked.tail
        self.recovered = Recovered(
            verdict="torn-tail" if tail.torn else "clean",
            discarded=tail.discarded,
            frames=tip.frames,
            position=tip.position,
            segments=len(opened.walked.segments),
            blemishes=tuple(tip.blemishes),
            took_ms=0,
            started_from=opened.started_from,
            refused=opened.refused,
        )
        self._os = os_
        self._directory = directory
        self._committer = committer
        self._told = tip.position
        self._journal = tip.journal
        self._snapshot = opened.started_from
        self._snapshot_failed: str | None = None
        self._waiters: dict[int, list[trio.lowlevel.Task]] = {}
        self._room_changed = trio.lowlevel.ParkingLot()
        self._on_poison: Callable[[JournalPoisoned], None] | None = None
        self._bell: Bell | None = None

    @classmethod
    def open(
        cls,
        directory: Path,
        on_frame: Callable[[Frame], None],
        on_snapshot: OnSnapshot | None = None,
        *,
        segment_bytes: int = 16 << 20,
        align: int = 512,
        os_: Os = REAL,
        lock_wait_ms: int = 0,
        watch: Callable[[], Watch | None] = lambda: None,
    ) -> Journal:
        """Lock, read, judge, hand every decision to `on_frame`, and make it safe to append.

        With `on_snapshot` the newest whole snapshot's position and content go there first,
        and only what is behind it to `on_frame`. `watch` is called once it is locked, and
        what it gives sees what it asks for and may refuse. `os_` may have the directory locked
        and read ahead.

        Raises JournalLocked; JournalCorrupt after `on_frame` had the proven prefix, with
        nothing changed on disk; JournalTooNew; JournalIOError. Blocks while it reads.
        """
        if align not in (0, 512, 4096) or segment_bytes < max(SEGMENT_BYTES_MIN, 16 * align):
            raise ValueError(f"no such layout: segments of {segment_bytes} aligned to {align}")
        started = time.monotonic_ns()
        try:
            fd = os_.open_directory(directory, create=True)
        except OSError as error:
            raise JournalIOError(f"opening {directory}", error) from error
        try:
            lock.take(os_, fd, directory, wait_ms=lock_wait_ms)
            opened = open_directory(
                os_,
                fd,
                on_frame,
                on_snapshot,
                segment_bytes=segment_bytes,
                align=align,
                watch=watch,
                parse=os_.parse if isinstance(os_, Ahead) else snapshot.parse,
            )
            committer = Committer(
                os_,
                fd,
                opened.writer,
                opened.spares,
                segment_bytes=segment_bytes,
                align=align,
                attested=opened.walked.tip.durable >= opened.walked.tip.last_frame,
            )
            journal = cls(os_, fd, opened, committer)
            with contextlib.suppress(OSError):  # information only, and the disk may be full
                lock.sign(directory)
        except BaseException:
            os_.close(fd)
            raise
        took_ms = (time.monotonic_ns() - started) // 1_000_000
        journal.recovered = attrs.evolve(journal.recovered, took_ms=took_ms)
        return journal

    def start(self, on_poison: Callable[[JournalPoisoned], None] | None = None) -> None:
        """Start the threads, from inside trio. `on_poison` runs on the loop, once."""
        assert self._bell is None, "a journal is started once"
        self._bell = Bell()
        self._on_poison = on_poison
        trio.lowlevel.spawn_system_task(self._bell.listen, self._advance, name="journal")
        self._committer.start(self._bell.ring)

    def append(self, payload: bytes, *, keep: int = 0, outcome: bool = False) -> int:
        """Queue one decision, a JSON array without raw TAB or newline; its position.

        `keep` is what must stay guaranteed behind it, in bytes: the sum of `cost` over
        the outcomes that are still owed. Anything else is refused with JournalFull when
        less would be left, with nothing changed; an `outcome` of at most `outcome_limit`
        bytes is refused only when no prepared byte is left, which is to say when an
        earlier `keep` was too small. Pass `keep` with outcomes as well: idle marks respect
        the newest. Raises JournalPoisoned, and ValueError for no possible payload.
        """
        if len(payload) > self.payload_limit:
            raise ValueError(f"{len(payload)} bytes are over the limit of {self.payload_limit}")
        if payload[:1] != b"[" or payload[-1:] != b"]" or b"\n" in payload or b"\t" in payload:
            raise ValueError("a payload is one JSON array without raw TAB or newline")
        return self._committer.put(payload, keep, outcome=outcome)

    def admits(self, size: int, keep: int) -> bool:
        """Whether a frame with a payload of `size` bytes, no outcome, would be taken now."""
        return size <= self.payload_limit and self._committer.admits(size, keep)

    async def ready(self, size: int = 0, keep: int = 0) -> None:
        """Wait while the queue is long, or the next spare is being made for such a frame.

        Returns as well when only `append` can tell: the disk is full, or poisoned. A
        checkpoint. Memory is bounded when every caller that is no outcome comes by here.
        """
        if size > self.payload_limit:
            raise ValueError(f"{size} bytes are over the limit of {self.payload_limit}")
        await trio.lowlevel.checkpoint()
        committer = self._committer
        while committer.poison is None and committer.degraded is None:
            if committer.queued_bytes < QUEUE_BYTES and committer.admits(size, keep):
                return
            await self._room_changed.park()

    async def durable(self, position: int) -> None:
        """Wait until `position` is on disk. A checkpoint. Raises JournalPoisoned."""
        if not 0 <= position <= self.position:
            raise ValueError(f"position {position} was never given")
        if position <= self._committer.durable:
            await trio.lowlevel.checkpoint()
            return
        if self._committer.poison is not None:
            await trio.lowlevel.checkpoint()
            raise self._committer.poisoned()
        task = trio.lowlevel.current_task()
        waiting = self._waiters.setdefault(position, [])
        waiting.append(task)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            waiting.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def pin(self) -> Pin:
        """What was appended up to now, as a place for a snapshot; a later one ends it."""
        return Pin(self._committer.pin())

    async def take(
        self, pin: Pin, content: Iterable[bytes], archive: Path | None, *, keep: int = 0
    ) -> None:
        """Make a snapshot of the pin, in a thread; then let go of the segments that no start
        needs any more but for the newest `keep`, into `archive` or for good.

        `content` is the fold up to there, in lines; it is made in the thread. Raises OSError
        and JournalError: then what a start needs is still there. Cancelled, it ends when
        the thread does.
        """
        await self.durable(pin.position)
        point = self._committer.pinned
        assert point is not None
        assert point.position == pin.position, "one snapshot is made at a time"
        try:
            await trio.to_thread.run_sync(self._take, point, content, archive, keep)
        except (OSError, JournalError) as error:
            self._snapshot_failed = str(error)
            raise
        self._snapshot_failed = None

    def _take(
        self, point: Point, content: Iterable[bytes], archive: Path | None, keep: int
    ) -> None:
        where = Place(point, self._identity())
        snapshot.make(self._os, self._directory, where, content, self._record)
        self._snapshot = point.position
        place = None if archive is None else self._os.open_directory(archive, create=True)
        try:
            snapshot.let_go(self._os, self._directory, place, keep=keep)
        finally:
            if place is not None:
                self._os.close(place)

    def _record(self, payload: bytes) -> None:
        """In a thread: append one of the journal's own, and wait until it is on disk."""
        trio.from_thread.run(self.durable, self._committer.note(payload))

    def _identity(self) -> str:
        if self._journal == UNKNOWN:  # begun by this process
            first = min(one for one in self._os.listdir(self._directory) if one.endswith(".jnl"))
            self._journal = identity_of(
                lambda most: self._os.read_cached(self._directory, first, most=most)
            )
        return self._journal

    @property
    def position(self) -> int:
        """The last position given, to a mark perhaps: a frame's own is what `append` returned."""
        return self._committer.position

    @property
    def segment(self) -> int:
        """The number of the segment that is written to."""
        return self._committer.segment

    @property
    def durable_position(self) -> int:
        """The last position that is on disk."""
        return self._committer.durable

    @property
    def decided(self) -> tuple[int, str]:
        """The last decision that is on disk and was written here: its position and digest;
        (0, "") before the first."""
        return self._committer.decided

    @property
    def poisoned(self) -> JournalPoisoned | None:
        return None if self._committer.poison is None else self._committer.poisoned()

    @property
    def payload_limit(self) -> int:
        """The largest payload, in bytes."""
        return self._committer.room.payload_limit

    @property
    def outcome_limit(self) -> int:
        """The largest payload that may use the reserve, in bytes."""
        return self._committer.room.outcome_limit

    def cost(self, size: int) -> int:
        """What a frame with a payload of `size` bytes takes at most, in bytes, for `keep`."""
        return frame_cost(size, self._committer.room.align)

    def stats(self) -> JournalStats:
        committer, counts = self._committer, self._committer.counts
        return JournalStats(
            syncs=counts.syncs,
            frames=counts.frames,
            bytes=counts.bytes,
            last_sync_us=counts.last_sync_us,
            in_flight_us=committer.in_flight_us,
            queued_bytes=committer.queued_bytes,
            room=committer.room.guaranteed,
            spares=committer.ready_spares,
            degraded=committer.degraded,
            snapshot=self._snapshot,
            snapshot_failed=self._snapshot_failed,
        )

    async def close(self) -> None:
        """Write what is queued, mark the clean shutdown, end the threads, release the lock.

        Not to be cancelled: it waits for the disk as long as that takes.
        """
        self._committer.stop()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._committer.join)
            self._advance()
        if self._bell is not None:
            self._bell.stop()
        self._os.unlock(self._directory)
        self._os.close(self._directory)

    def _advance(self) -> None:
        """On the loop, once a batch: wake whoever waited for it."""
        durable = self._committer.durable
        if self._waiters:
            for position in range(self._told + 1, durable + 1):
                for task in self._waiters.pop(position, ()):
                    trio.lowlevel.reschedule(task)
        self._told = durable
        if self._room_changed:
            self._room_changed.unpark_all()
        if self._committer.poison is not None:
            self._fail()

    def _fail(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for task in (task for tasks in waiters.values() for task in tasks):
            trio.lowlevel.reschedule(task, outcome.Error(self._committer.poisoned()))
        if self._on_poison is not None:
            on_poison, self._on_poison = self._on_poison, None
            on_poison(self._committer.poisoned())
