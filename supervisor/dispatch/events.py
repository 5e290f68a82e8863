"""Facts that are durable, in order, as far back as memory is given for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import trio

from frozen import frozen
from supervisor.core.ids import OperationId
from supervisor.core.record import OperationRecord, Record, SessionCreated
from supervisor.core.state import State

KEPT_FRAMES = 20_000


@frozen
class Event:
    """One durable frame. `owner` is the uid whose operation or session it is about; None is
    everybody's.

    A frame that accepts one operation may evict another user's: it is the first one's.
    """

    position: int
    records: tuple[Record, ...]
    owner: int | None


class Events:
    """The newest frames, each published once, when it is durable."""

    def __init__(self, kept: int = KEPT_FRAMES) -> None:
        self._frames: deque[Event] = deque(maxlen=kept)
        self._queued: deque[Event] = deque()
        self._changed = trio.lowlevel.ParkingLot()
        self._waiting: dict[OperationId, trio.Event] = {}
        self.gone = 0
        """The position of the last frame that is not kept any more; 0 while all are."""

    def queue(self, position: int, records: tuple[Record, ...], state: State) -> None:
        """A frame that was appended; it is published when its position is durable."""
        self._queued.append(Event(position, records, _owner(records, state)))

    def replayed(self, position: int, records: tuple[Record, ...], state: State) -> None:
        """A frame that a restart read: durable already, and nobody waits yet."""
        self._keep(Event(position, records, _owner(records, state)))

    def begin_behind(self, position: int) -> None:
        """Nothing is known of what happened up to there."""
        self._frames.clear()
        self.gone = position

    def _keep(self, event: Event) -> None:
        if len(self._frames) == self._frames.maxlen:
            self.gone = self._frames[0].position
        self._frames.append(event)

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
    def earliest(self) -> int:
        """The position of the oldest frame that is kept, or that the next one may have."""
        return self._frames[0].position if self._frames else self.gone + 1

    def after(self, position: int) -> Iterator[Event]:
        """Frames newer than `position`, oldest first, without copying what is older."""
        newer: list[Event] = []
        for event in reversed(self._frames):
            if event.position <= position:
                break
            newer.append(event)
        return reversed(newer)

    async def changed(self) -> None:
        """Wait for the next publication."""
        await self._changed.park()

    def change_of(self, operation_id: OperationId) -> trio.Event:
        """An event that is set when the operation's next frame is durable."""
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
