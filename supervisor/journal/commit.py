"""The two threads behind a journal: one commits batches, one keeps spares ready.

Everything shared is guarded by one lock, held for microseconds. Positions are given when
a frame is queued, under that lock, because memory is the fold of everything queued.
Only the commit thread writes, one batch at a time: the next one is written after the
sync of the last one returned. A failed write or sync ends it for good: after an error
the page cache shows data that the disk does not have, so neither a retry nor a look at
the file could tell the truth.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from supervisor.journal.codec import OVERHEAD, mark
from supervisor.journal.errors import JournalFull, JournalPoisoned
from supervisor.journal.file import Os
from supervisor.journal.room import Room, frame_cost
from supervisor.journal.segments import Point, Spare, Writer, make_spare

BATCH_FRAMES = 256
BATCH_BYTES = 256 << 10
IDLE_MS = 50
SPARE_RETRY_MS = 1000
SPARES_MAX = 64
_IDLE, _SHUTDOWN = mark("idle"), mark("shutdown")


class Counts(NamedTuple):
    """What the commit thread did since it was started; sync times in microseconds."""

    syncs: int = 0
    frames: int = 0
    bytes: int = 0
    last_sync_us: int = 0


class Committer:
    """The queue, its two threads, and what both sides may see of them."""

    def __init__(
        self,
        os_: Os,
        directory: int,
        writer: Writer,
        spares: list[Spare],
        *,
        segment_bytes: int,
        align: int,
        attested: bool,
    ) -> None:
        self._os = os_
        self._directory = directory
        self._writer = writer
        self._segment_bytes = segment_bytes
        self._spares = deque(spares)
        self._spare_number = max([writer.point.number, *(int(s.name[:8]) for s in spares)])
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._wake = threading.Lock()  # a binary semaphore: released to wake the thread
        self._wake.acquire()
        self._sleeping = False
        self._closing = False
        self._spare_wanted = threading.Event()
        self._spare_wanted.set()
        self._stopped = threading.Event()
        self._keep = 0
        self._wanted = 0
        self._since_ns = 0
        self._marked = attested
        self._ended = False
        self._notify: Callable[[], None] = _ignore
        self._threads: list[threading.Thread] = []
        self.room = Room(segment_bytes, max(align, writer.align))
        self.room.reset(writer.rest, (spare.size for spare in spares), ())
        self.position = writer.point.position
        self.durable = self.position
        self.decided = (0, "")
        self.queued_bytes = 0
        self.counts = Counts()
        self.pinned: Point | None = None
        self._pin = -1
        self.poison: BaseException | None = None
        self.degraded: str | None = None

    # The loop's side.

    def put(self, payload: bytes, keep: int, *, outcome: bool) -> int:
        """Queue one frame; its position. Raises JournalFull or JournalPoisoned, unchanged."""
        cost = frame_cost(len(payload), self.room.align)
        reserve = outcome and len(payload) <= self.room.outcome_limit
        with self._lock:
            if self.poison is not None or self._closing:
                raise self.poisoned()
            after = self.room.after(cost)
            self._want_spares(keep + cost)
            if after < (0 if reserve else keep):
                raise JournalFull(cost, keep, self.room.guaranteed, self.degraded)
            self.room.take(cost)
            self._keep = keep
            self._queue.append(payload)
            self.queued_bytes += len(payload)
            self.position += 1
            self._wake_up()
            return self.position

    def note(self, payload: bytes) -> int:
        """Queue one of the journal's own, as new work; its position. Raises as `put`."""
        return self.put(payload, self._keep, outcome=False)

    def pin(self) -> int:
        """Have a batch end where everything queued up to now does; that position. When it
        is durable, `pinned` is its point. A later pin takes an earlier one's place."""
        with self._lock:
            self._pin, self.pinned = self.position, None
            self._meet_pin()
            return self.position

    def _meet_pin(self) -> None:
        """Locked. Positions are given under the lock: what is durable is not being written."""
        if self._pin == self._writer.point.position == self.durable:
            self._pin, self.pinned = -1, self._writer.here

    def admits(self, size: int, keep: int) -> bool:
        """Whether `put` would take such a frame that is no outcome."""
        cost = frame_cost(size, self.room.align)
        with self._lock:
            self._want_spares(keep + cost)
            return self.poison is None and self.room.after(cost) >= keep

    @property
    def segment(self) -> int:
        return self._writer.point.number

    @property
    def ready_spares(self) -> int:
        return len(self._spares)

    @property
    def in_flight_us(self) -> int:
        """How long the write that is going on has taken up to now; 0 when there is none."""
        since = self._since_ns
        return (time.monotonic_ns() - since) // 1000 if since else 0

    def poisoned(self) -> JournalPoisoned:
        """A new one for each who hears it: a raised exception carries its own traceback."""
        cause = self.poison or RuntimeError("the journal is closed")
        return JournalPoisoned(self._writer.point.name, cause, self.durable)

    def start(self, notify: Callable[[], None]) -> None:
        """`notify` is called from the threads whenever something to look at has changed."""
        self._notify = notify
        for target, name in ((self._run, "journal-commit"), (self._run_spares, "journal-spare")):
            # Daemonic: a disk that hangs for ever must not keep the process from ending.
            thread = threading.Thread(target=target, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Ask both threads to finish what is queued, mark the shutdown, and end."""
        with self._lock:
            self._closing = True
            self._wake_up()
        self._stopped.set()
        self._spare_wanted.set()

    def join(self) -> None:
        """Wait for both. What was queued although nothing was started is written here."""
        for thread in self._threads:
            thread.join()
        if not self._threads and self._queue:
            self._run()
        self._writer.close()

    def _wake_up(self) -> None:
        if self._sleeping:
            self._sleeping = False
            self._wake.release()

    def _want_spares(self, keep: int) -> None:
        self._wanted = keep
        if self.room.missing(keep) > 0:
            self._spare_wanted.set()

    # The commit thread.

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever it was, the writer is done for
            with self._lock:
                self.poison = error
                self._queue.clear()
                self.queued_bytes = 0
            self._stopped.set()
        self._notify()

    def _next_batch(self) -> list[bytes]:
        """Wait for frames; an idle or the shutdown mark when there are none; [] at the end."""
        while True:
            with self._lock:
                if self._queue:
                    return self._take()
                if self._closing:
                    return self._mark(_SHUTDOWN)
                self._sleeping = True
            if self._wake.acquire(timeout=-1 if self._marked else IDLE_MS / 1000):
                continue
            with self._lock:
                if not self._sleeping:  # woken between the timeout and here
                    self._wake.acquire()
                    continue
                self._sleeping = False
                if batch := self._mark(_IDLE):
                    return batch

    def _take(self) -> list[bytes]:
        """As many frames as go into one batch; all of them planned anew from what is real."""
        if len(self._queue) <= BATCH_FRAMES:
            self._plan()
        rest = self._rest_for(len(self._queue[0]) + OVERHEAD)
        batch: list[bytes] = []
        size, most = 0, BATCH_FRAMES
        if self._pin > self.durable:
            most = min(most, self._pin - self.durable)
        while self._queue and len(batch) < most:
            size += len(self._queue[0]) + OVERHEAD
            if size > rest or (batch and (size > BATCH_BYTES or _is_own(self._queue[0]))):
                break
            batch.append(self._queue.popleft())
            if _is_own(batch[-1]):
                break
        self.queued_bytes -= sum(map(len, batch))
        self._marked = False
        return batch

    def _rest_for(self, bound: int) -> int:
        """The room of the segment that a frame of at most `bound` bytes goes into."""
        if bound <= self._writer.rest:
            return self._writer.rest
        return self.room.capacity(self._spares[0].size)

    def _plan(self) -> None:
        costs = (frame_cost(len(payload), self.room.align) for payload in self._queue)
        self.room.reset(self._writer.rest, (spare.size for spare in self._spares), costs)

    def _mark(self, payload: bytes) -> list[bytes]:
        """A mark, placed in the plan; [] when it would use room that is kept, or is not due."""
        due, self._marked = not self._ended, True
        self._ended = self._closing
        self._plan()
        cost = frame_cost(len(payload), self.room.align)
        if not due or self.room.after(cost) < self._keep:
            return []
        self.room.take(cost)
        self.position += 1
        return [payload]

    def _commit(self, batch: list[bytes]) -> None:
        started = self._since_ns = time.monotonic_ns()
        if sum(map(len, batch)) + OVERHEAD * len(batch) > self._writer.rest:
            self._writer.rotate(self._spares[0])
            with self._lock:
                self._spares.popleft()
                self._want_spares(self._wanted)
        size = self._writer.commit(batch)
        self.durable = self._writer.point.position
        if self._pin >= 0:
            with self._lock:
                self._meet_pin()
        if not _is_own(batch[-1]):  # what is the journal's own is a batch of its own
            self.decided = (self.durable, self._writer.point.digest)
        took_us = (time.monotonic_ns() - started) // 1000
        self._since_ns = 0
        was = self.counts
        self.counts = Counts(was.syncs + 1, was.frames + len(batch), was.bytes + size, took_us)
        self._notify()

    # The spare thread.

    def _run_spares(self) -> None:
        while not self._stopped.is_set():
            self._spare_wanted.wait()
            self._spare_wanted.clear()
            while self._spare_missing():
                try:
                    self._make_spare()
                except OSError as error:
                    self.degraded = f"cannot make the next segment: {error.strerror or error}"
                    self._notify()
                    if self._stopped.wait(SPARE_RETRY_MS / 1000):
                        return

    def _spare_missing(self) -> bool:
        """Whether to make one more; also where being degraded ends, or is owed to the limit."""
        with self._lock:
            missing = self.room.missing(self._wanted) > 0 and not self._stopped.is_set()
            most = len(self._spares) >= SPARES_MAX
        degraded = (
            f"no more than {SPARES_MAX} spare segments are made" if missing and most else None
        )
        if degraded != self.degraded and (most or not missing):
            self.degraded = degraded
            self._notify()
        return missing and not most

    def _make_spare(self) -> None:
        number = self._spare_number + 1
        spare = make_spare(self._os, self._directory, number, self._segment_bytes)
        with self._lock:
            self._spare_number = number
            self._spares.append(spare)
            self.room.add(spare.size)
        self._notify()


def _is_own(payload: bytes) -> bool:
    return not payload.startswith(b"[")


def _ignore() -> None:
    """Nobody listens before `start`."""
