"""What goes when something new comes, or with time: the oldest that nothing holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

from supervisor.core.ids import OperationId, SessionId
from supervisor.core.record import (
    OperationAbandoned,
    OperationEvicted,
    Record,
    SessionEnded,
    TombstoneExpired,
    TombstoneRenewed,
)
from supervisor.core.state import State
from supervisor.core.step import Decision, TimePassed

DAY_NS = 86_400 * 1_000_000_000
# One frame takes no more than this: who has more to do comes again.
MOST = 64


def time_passed(state: State, event: TimePassed) -> Decision:
    """Housekeeping, a frame at a time: `repeated` says that nothing is left to do."""
    wall = event.now.wall
    records: tuple[Record, ...] = tuple(
        OperationEvicted(wall, one) for one in _to_evict(state, event)
    )
    records = records or tuple(_of_tombstones(state, event))
    records = records or tuple(SessionEnded(wall, one) for one in _to_end(state, event))
    # One in a frame: each is its owner's business alone.
    records = records or tuple(
        OperationAbandoned(wall, one, event.abandon_days) for one in _to_abandon(state, event)
    )
    return Decision(records, repeated=not records)


def _to_evict(state: State, event: TimePassed) -> list[OperationId]:
    over = max(len(state.operations) - event.operations_kept, 0)
    before = event.now.wall - event.finished_days * DAY_NS
    return [
        one
        for n, one in enumerate(islice(state.finished, MOST))
        if n < over or state.operations.updated_at(one) <= before
    ]


def _of_tombstones(state: State, event: TimePassed) -> Iterator[Record]:
    """Those that are old enough go, the oldest first; one whose session has not ended stays as
    long again."""
    before = event.now.wall - event.tombstone_days * DAY_NS
    oldest = islice(state.tombstones, MOST)
    # A clock that was set back made a later one older: it waits for those before it.
    for one in takewhile(lambda known: known.at <= before, oldest):
        stays = one.session_id in state.sessions
        yield (TombstoneRenewed if stays else TombstoneExpired)(event.now.wall, one.operation_id)


def _to_end(state: State, event: TimePassed) -> list[SessionId]:
    """The sessions without a message for long, and with nothing kept."""
    before = event.now.wall - event.tombstone_days * DAY_NS
    over = (one for one in state.sessions.values() if not one.kept and one.used_at <= before)
    return sorted(one.session_id for one in over)[:MOST]


def _to_abandon(state: State, event: TimePassed) -> list[OperationId]:
    before = event.now.wall - event.abandon_days * DAY_NS
    oldest = islice(state.interrupted, 1)
    return [one for one in oldest if state.operations.updated_at(one) <= before]
