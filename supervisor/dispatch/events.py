"""Facts that are durable, in order, as far back as memory is given for them.

Most who ask follow what happens: they get the newest. Older ones are compressed in pages, each as
it stands in the journal.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from weakref import WeakValueDictionary

import attrs
import trio

from frozen import frozen
from supervisor.core.ids import OperationId
from supervisor.core.record import OperationRecord, Record, SessionCreated
from supervisor.core.state import State
from supervisor.journal.records import decode

KEPT_FRAMES = 20_000
PAGE_FRAMES = 256
# So many are not in pages at the most, and what comes between two looks.
LOOSE_FRAMES = 1_024
_LEVEL = 1
_EVERYBODY = b"-"


@frozen
class Event:
    """One durable frame. `owner` is the uid whose operation or session it is about; None is
    everybody's.

    A frame that accepts one operation may evict another user's: it is the first one's.
    """

    position: int
    owner: int | None
    payload: bytes
    # What the payload says, for as long as it is new.
    known: tuple[Record, ...] | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        return decode(self.payload) if self.known is None else self.known


@attrs.frozen(eq=False)
class Page:
    """Events that follow one another."""

    count: int
    last: int
    content: bytes

    def after(self, position: int) -> Iterator[Event]:
        """Its events that are newer."""
        for line in zlib.decompress(self.content).split(b"\n"):
            at, owner, payload = line.split(b" ", 2)
            if int(at) > position:
                yield Event(int(at), None if owner == _EVERYBODY else int(owner), payload)


def page_of(events: Sequence[Event]) -> Page:
    """A page of these, one at least."""
    content = zlib.compress(b"\n".join(map(_line, events)), _LEVEL)
    return Page(len(events), events[-1].position, content)


def _line(event: Event) -> bytes:
    """No payload has a newline in it."""
    owner = _EVERYBODY if event.owner is None else b"%d" % event.owner
    return b"%d %b %b" % (event.position, owner, event.payload)


class Events:
    """The newest frames, each published once, when it is durable."""

    def __init__(self, kept: int = KEPT_FRAMES) -> None:
        self._kept = kept
        self._pages: deque[Page] = deque()
        self._paged = 0
        self._loose: deque[Event] = deque()
        self._queued: deque[Event] = deque()
        self._changed = trio.lowlevel.ParkingLot()
        # Only those that somebody holds: whoever asks may find that nothing is to come.
        self._waiting = WeakValueDictionary[OperationId, trio.Event]()
        self.gone = 0
        """The position of the last frame that is not kept any more; 0 while all are."""

    def queue(
        self, position: int, payload: bytes, records: tuple[Record, ...], state: State
    ) -> None:
        """A frame that was appended; it is published when its position is durable."""
        # What orjson made has 8 KiB of room behind it for as long as it is there.
        fitting = bytes(memoryview(payload))
        self._queued.append(Event(position, _owner(records, state), fitting, records))

    def replayed(
        self, position: int, payload: bytes, records: tuple[Record, ...], state: State
    ) -> None:
        """A frame that a restart read: durable already, and nobody waits yet."""
        self._keep(Event(position, _owner(records, state), payload))

    def begin_behind(self, position: int) -> None:
        """Nothing is known of what happened up to there."""
        self._pages.clear()
        self._loose.clear()
        self._paged, self.gone = 0, position

    def _keep(self, event: Event) -> None:
        self._loose.append(event)
        if len(self._loose) + self._paged > self._kept:
            self._let_go()

    def _let_go(self) -> None:
        """The oldest, a page of them where they are in one."""
        if not self._pages:
            self.gone = self._loose.popleft().position
            return
        page = self._pages.popleft()
        self._paged -= page.count
        self.gone = page.last

    def publish(self, durable: int) -> None:
        """Everything up to `durable` may be seen now."""
        published = False
        while self._queued and self._queued[0].position <= durable:
            event = self._queued.popleft()
            self._keep(event)
            published = True
            for operation_id in _operations(event.records):
                waiting = self._waiting.pop(operation_id, None)
                if waiting is not None:
                    waiting.set()
        if published:
            self._changed.unpark_all()

    @property
    def crowded(self) -> bool:
        """Whether many are in no page."""
        return len(self._loose) >= LOOSE_FRAMES

    def full_pages(self) -> list[tuple[Event, ...]]:
        """What should be made pages of: for `page_of`, in any thread."""
        loose = iter([*self._loose])
        return [
            tuple(islice(loose, PAGE_FRAMES)) for _ in range(len(self._loose) // PAGE_FRAMES - 1)
        ]

    def put_in(self, pages: Iterable[Page]) -> None:
        """Pages of the oldest events that are in none, in the place of these."""
        for page in pages:
            if page.last <= self.gone:  # meanwhile
                continue
            while self._loose and self._loose[0].position <= page.last:
                self._loose.popleft()
            self._pages.append(page)
            self._paged += page.count

    @property
    def earliest(self) -> int:
        """The position of the oldest frame that is kept, or that the next one may have."""
        if self._pages:
            return next(self._pages[0].after(self.gone)).position
        return self._loose[0].position if self._loose else self.gone + 1

    @property
    def latest(self) -> int:
        """The position of the newest frame that was published; 0 before any."""
        if self._loose:
            return self._loose[-1].position
        return self._pages[-1].last if self._pages else self.gone

    def after(self, position: int) -> list[Iterable[Event]]:
        """Frames newer than `position`, oldest first, without copying what is older: in parts, each
        of which takes a moment. What comes later is in none."""
        loose: list[Event] = []
        for event in reversed(self._loose):
            if event.position <= position:
                break
            loose.append(event)
        pages: list[Iterable[Event]] = []
        for page in reversed(self._pages):
            if page.last <= position:
                break
            pages.append(page.after(position))
        return [*reversed(pages), loose[::-1]]

    async def changed(self) -> None:
        """Wait for the next publication."""
        await self._changed.park()

    def change_of(self, operation_id: OperationId) -> trio.Event:
        """An event that is set when the operation's next frame is durable: all get the same, and
        none is left when nobody holds it."""
        return self._waiting.setdefault(operation_id, trio.Event())


def _operations(records: Iterable[Record]) -> set[OperationId]:
    return {r.operation_id for r in records if isinstance(r, OperationRecord)}


def _owner(records: Sequence[Record], state: State) -> int | None:
    if len(records) == 1 and isinstance(records[0], SessionCreated):
        return records[0].by.uid
    for operation_id in _operations(records):
        known = state.operations.get(operation_id)
        if known is not None:
            return known.by.uid
    return None
