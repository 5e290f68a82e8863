"""What is kept, and what goes: evicted and abandoned operations, tombstones, sessions, and the
lines in which operations wait for it."""

from __future__ import annotations

from supervisor.core.changed import changed
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import open as open_
from supervisor.core.evolve.put import put, put_session, without_loose, without_one
from supervisor.core.packing import card_in
from supervisor.core.record import (
    Ending,
    OperationAbandoned,
    OperationEvicted,
    SessionEnded,
    TombstoneExpired,
    TombstoneRenewed,
)
from supervisor.core.session_state import Tombstone
from supervisor.core.standing import Waits, waits_for
from supervisor.core.state import Operation, State


def lined_up(state: State, operation: Operation) -> State:
    """The operation at the end of its line, if it belongs to one: a record was about it."""
    one, waits = operation.operation_id, waits_for(operation)
    finished, interrupted = state.loose_finished.left(one), state.interrupted.left(one)
    if waits is Waits.EVICTION:
        finished = finished.joined(one)
    elif waits is Waits.ABANDONMENT:
        interrupted = interrupted.joined(one)
    return changed(state, loose_finished=finished, interrupted=interrupted)


def abandoned(state: State, operation: Operation, record: OperationAbandoned) -> State:
    if operation.operation_id not in state.interrupted:
        raise IllegalTransition(f"does not wait for that: {record}")
    reason = f"nobody asked for it in {record.days} days"
    operation = changed(operation, cancel_requested=True, cancel_reason=reason)
    return open_.end_open(put(state, operation), operation, record.at, Ending.CANCELLED)


def evicted(state: State, record: OperationEvicted) -> State:
    """Everything about the operation goes, except what answers its message."""
    one = record.operation_id
    held = state.operations.as_held(one)
    if held is None or one not in state.finished:
        raise IllegalTransition(f"does not wait for that: {record}")
    card = card_in(held)
    state = open_.evicted(state, card)
    session = state.sessions.get(card.session_id)
    if session is not None:
        state = put_session(state, changed(session, kept=session.kept - 1))
    blobs = state.blobs
    for digest in card.blobs:
        blobs = without_one(blobs, digest)
    tombstone = Tombstone(
        operation_id=one,
        session_id=card.session_id,
        request_id=card.request_id,
        request_digest=card.request_digest,
        uid=card.uid,
        at=record.at,
    )
    if isinstance(held, Operation):
        state = without_loose(state, [held], state.operations.filed)
    else:
        state = changed(state, operations=state.operations.delete(one))
    return changed(
        state,
        blobs=blobs,
        tombstones=state.tombstones.with_one(tombstone),
    )


def expired(state: State, record: TombstoneExpired) -> State:
    oldest = _oldest(state, record)
    if oldest.session_id in state.sessions:
        raise IllegalTransition(f"its session has not ended: {record}")
    return changed(state, tombstones=state.tombstones.without_oldest())


def renewed(state: State, record: TombstoneRenewed) -> State:
    """To the end of the line, as if it were made now."""
    oldest = _oldest(state, record)
    if oldest.session_id not in state.sessions:
        raise IllegalTransition(f"no session holds it: {record}")
    again = changed(oldest, at=record.at)
    return changed(state, tombstones=state.tombstones.without_oldest().with_one(again))


def _oldest(state: State, record: TombstoneExpired | TombstoneRenewed) -> Tombstone:
    oldest = next(iter(state.tombstones), None)
    if oldest is None or oldest.operation_id != record.operation_id:
        raise IllegalTransition(f"is not the oldest tombstone: {record}")
    return oldest


def session_ended(state: State, record: SessionEnded) -> State:
    """Its tombstones answer nobody from here on; they go by their age."""
    session = state.sessions.get(record.session_id)
    if session is None or session.kept:
        raise IllegalTransition(f"is not there, or has operations: {record}")
    forgotten = state.forgotten
    for message in [one for one in forgotten if one[0] == record.session_id]:
        forgotten = forgotten.delete(message)
    return changed(state, sessions=state.sessions.delete(record.session_id), forgotten=forgotten)
