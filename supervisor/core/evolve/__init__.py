"""State after a record. Pure, total over the kinds, and loud about what cannot follow.

`fold` takes a whole frame, because a decision is durable whole or not at all; the
operations that it names count one revision for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from supervisor.core.cataloguing import catalogued
from supervisor.core.changed import changed
from supervisor.core.drawer import Packed
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import (
    attempt,
    call,
    effect,
    epoch,
    operation,
    program,
    put,
    results,
    retention,
    settle,
)
from supervisor.core.evolve import open as open_
from supervisor.core.evolve.attempt import TRANSITIONS
from supervisor.core.evolve.retention import lined_up
from supervisor.core.ids import OperationId
from supervisor.core.packing import card_in
from supervisor.core.record import (
    AnnouncementRefused,
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalRequested,
    ArtifactsAccepted,
    AttemptEnded,
    AttemptInterrupted,
    AttemptReserved,
    AttemptStarted,
    BudgetExtended,
    CallAccepted,
    CallQueued,
    CallRefused,
    CallRestored,
    CallResultLost,
    CancelRequested,
    ConfirmationDisputed,
    ContinuationEnded,
    ContinuationOpened,
    DaemonStarted,
    DeathProven,
    DispatchRefusedBudgetExceeded,
    EffectAnnounced,
    EffectAnswered,
    EffectConfirmed,
    EffectResolved,
    EffectResultLost,
    JournalRepaired,
    NodeBound,
    OperationAbandoned,
    OperationAccepted,
    OperationEvicted,
    OperationRecord,
    ProgramAccepted,
    ProgramEnded,
    ReconcilerDeathProven,
    ReconcilerEnded,
    ReconcilerStarted,
    Record,
    RepeatAnswered,
    ResumeAccepted,
    SessionCreated,
    SessionEnded,
    TombstoneExpired,
    TombstoneRenewed,
)
from supervisor.core.standing import TERMINAL, operation_state
from supervisor.core.state import Operation, State

_FOLDS: dict[type[Record], Callable[[State, Operation, Any], State]] = {
    ProgramAccepted: program.accepted,
    NodeBound: program.node_bound,
    ApprovalRequested: program.approval_requested,
    ApprovalAnswered: program.approval_answered,
    ApprovalExpired: program.approval_expired,
    ProgramEnded: program.ended,
    CallAccepted: call.accepted,
    CallRefused: call.refused,
    DispatchRefusedBudgetExceeded: call.budget_refused,
    CallQueued: call.queued,
    CallRestored: call.restored,
    AttemptReserved: attempt.reserved,
    AttemptStarted: attempt.started,
    AttemptEnded: attempt.ended,
    AttemptInterrupted: attempt.interrupted,
    DeathProven: attempt.death_proven,
    AnnouncementRefused: attempt.announcement_refused,
    EffectAnnounced: effect.announced,
    EffectAnswered: effect.answered,
    EffectConfirmed: effect.confirmed,
    ConfirmationDisputed: effect.disputed,
    ReconcilerStarted: settle.reconciler_started,
    ReconcilerEnded: settle.reconciler_ended,
    ReconcilerDeathProven: settle.reconciler_death_proven,
    EffectResolved: settle.resolved,
    CallResultLost: results.call_lost,
    EffectResultLost: results.effect_lost,
    CancelRequested: operation.cancel_requested,
    ResumeAccepted: operation.resume_accepted,
    ContinuationOpened: open_.continuation_opened,
    ContinuationEnded: open_.continuation_ended,
    RepeatAnswered: open_.repeat_answered,
    BudgetExtended: operation.budget_extended,
    ArtifactsAccepted: operation.artifacts_accepted,
    OperationAbandoned: retention.abandoned,
}


def fold(state: State, position: int, records: Iterable[Record]) -> State:
    """State after one frame; raises IllegalTransition when it cannot follow."""
    touched: set[OperationId] = set()
    before = state.operations
    at = 0
    for record in records:
        touched |= _names(state, record)
        at = record.at
        state = evolve(state, record)
    catalogue = state.catalogue
    for operation_id in touched:
        state = _count(state, operation_id, position, at)
        was = before.as_held(operation_id)
        known = card_in(was) if isinstance(was, Packed) else was
        catalogue = catalogued(catalogue, known, state.operations.get(operation_id))
    latest = max(state.latest, at)
    return changed(state, position=position, latest=latest, catalogue=catalogue)


def evolve(state: State, record: Record) -> State:
    """State after one record, which is part of a frame: `fold` counts the revision."""
    match record:
        case DaemonStarted():
            return epoch.daemon_started(state, record)
        case JournalRepaired():
            return epoch.journal_repaired(state, record)
        case SessionCreated():
            return operation.session_created(state, record)
        case SessionEnded():
            return retention.session_ended(state, record)
        case OperationAccepted():
            return operation.accepted(state, record)
        case OperationEvicted():
            return retention.evicted(state, record)
        case TombstoneExpired():
            return retention.expired(state, record)
        case TombstoneRenewed():
            return retention.renewed(state, record)
        case OperationRecord():
            known = state.operations.get(record.operation_id)
            if known is None:
                raise IllegalTransition(f"before its operation was accepted: {record}")
            return _FOLDS[type(record)](state, known, record)
        case _:
            raise IllegalTransition(f"no fold for {record}")


def _names(state: State, record: Record) -> set[OperationId]:
    """The operations that this record is about; a new epoch is about all that moved."""
    if isinstance(record, OperationRecord):
        return {record.operation_id}
    if isinstance(record, JournalRepaired):
        return {one.operation_id for one in state.operations.loose.values() if not one.finished}
    if not isinstance(record, DaemonStarted):
        return set()
    return {*state.moving.values(), *state.reconciling.values(), *state.continued}


def _count(state: State, operation_id: OperationId, position: int, at: int) -> State:
    """One more revision; an operation that is finished now leaves the session's count."""
    known = state.operations.get(operation_id)
    if known is None:  # this frame evicted it
        return state
    finished = known.finished or operation_state(known) in TERMINAL
    unfinished = state.unfinished
    if finished and not known.finished:
        left = unfinished[known.session_id] - 1
        unfinished = (
            unfinished.set(known.session_id, left) if left else unfinished.delete(known.session_id)
        )
    known = changed(
        known, revision=known.revision + 1, position=position, updated_at=at, finished=finished
    )
    return lined_up(changed(put.put(state, known), unfinished=unfinished), known)


__all__ = ["TRANSITIONS", "evolve", "fold"]
