"""Decisions about an operation as a whole: cancel, resume, extend."""

from __future__ import annotations

import attrs

from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, OperationId, call_of_node
from supervisor.core.lineage import Plan
from supervisor.core.projection import resume_barred, resume_plans
from supervisor.core.record import (
    ArtifactsAccepted,
    BudgetExtended,
    CallAccepted,
    CallQueued,
    CallRestored,
    CancelRequested,
    DaemonStarted,
    DispatchRefusedBudgetExceeded,
    Record,
    ResumeAccepted,
)
from supervisor.core.standing import TERMINAL, operation_state
from supervisor.core.state import Operation, State
from supervisor.core.step import (
    ArtifactsAsked,
    CancelAsked,
    Decision,
    EndAttempt,
    ExtendAsked,
    Launch,
    Restarted,
    ResumeAsked,
    refuse,
)


def restarted(_state: State, event: Restarted) -> Decision:
    started = DaemonStarted(
        at=event.now.wall,
        epoch=event.epoch,
        boot_id=event.now.boot_id,
        version=event.version,
        alive=tuple(sorted(event.alive)),
        mono=event.now.mono,
        asking=tuple(sorted(event.asking)),
        rollback=event.rollback,
    )
    return Decision((started,), outcome=True)


def cancel_asked(state: State, event: CancelAsked) -> Decision:
    operation = state.operations[event.operation_id]
    if operation.cancel_requested or operation_state(operation) in TERMINAL:
        return Decision(operation_id=event.operation_id, repeated=True)
    record = CancelRequested(
        at=event.now.wall,
        operation_id=event.operation_id,
        by=event.by,
        reason=event.reason,
    )
    ends = tuple(
        EndAttempt(call.call_id, call.live.number)
        for call in operation.moving_calls()
        if call.live is not None
    )
    return Decision((record,), ends, outcome=True, operation_id=event.operation_id)


# --- resume -------------------------------------------------------------------------------


def resume_asked(state: State, event: ResumeAsked) -> Decision:
    """Checkpoint, then state, then effects, then budget; authority is the shell's to ask."""
    operation = state.operations[event.operation_id]
    known = operation.resumes.get(event.resume_request_id)
    if known == (event.revision, event.digest):
        return Decision(operation_id=event.operation_id, repeated=True)
    conflict = _checkpoint_conflict(operation, event, known)
    if conflict is not None:
        return Decision(refusal=conflict)
    barred = resume_barred(operation)
    if barred is not None:
        return Decision(refusal=barred)
    plans = resume_plans(operation, event.now)
    refusal = next((one for one in plans if isinstance(one, Refusal)), None)
    if refusal is not None:
        return Decision(refusal=refusal)
    return _resume(operation, [one for one in plans if isinstance(one, Plan)], event)


def _checkpoint_conflict(
    operation: Operation, event: ResumeAsked, known: tuple[int, str] | None
) -> Refusal | None:
    if known is not None:
        return Refusal(
            "DurableResumeConflict",
            f"resume_request_id {event.resume_request_id!r} was used on revision {known[0]}",
        )
    used = next((i for i, (r, _) in operation.resumes.items() if r == event.revision), None)
    if used is not None:
        return Refusal(
            "DurableResumeConflict", f"revision {event.revision} was resumed by {used!r}"
        )
    if event.revision != operation.revision or event.digest != checkpoint_digest(operation):
        return Refusal(
            "DurableResumeConflict",
            f"checkpoint is revision {operation.revision}, not {event.revision}, "
            "or its digest differs",
        )
    return None


def _resume(operation: Operation, plans: list[Plan], event: ResumeAsked) -> Decision:
    """Every call that is stuck goes on; each must fit into the budget on its own."""
    base = (event.now.wall, operation.operation_id)
    records: list[Record] = [
        ResumeAccepted(*base, event.resume_request_id, event.revision, event.digest, event.by)
    ]
    launches: list[Launch] = []
    for planned in plans:
        call = planned.call
        if planned.relaunch is None:
            records.append(CallRestored(*base, call.call_id))
            continue
        if not operation.budget.admits(call.timeout_ms, event.margin_ms):
            refusal = operation.budget.refusal(call.timeout_ms, call.call_id)
            refused = budget_refused(base, call.call_id, refusal)
            return Decision((refused,), refusal=refusal, operation_id=operation.operation_id)
        moved = _moved(operation, planned, event)
        records.append(moved)
        launches.append(Launch(moved.call_id))
    return Decision(tuple(records), tuple(launches), operation_id=operation.operation_id)


def _moved(operation: Operation, planned: Plan, event: ResumeAsked) -> CallAccepted | CallQueued:
    """The call's next attempt, or the new call that retries it."""
    call, base = planned.call, (event.now.wall, operation.operation_id)
    assert planned.relaunch is not None
    if not planned.new_call:
        return CallQueued(*base, call.call_id, planned.relaunch)
    one = event.new_call_id
    if call.node:
        one = call_of_node(operation.operation_id, call.node, call.call_id)
    return CallAccepted(
        *base,
        one,
        call.terms,
        call.input,
        call.timeout_ms,
        event.by,
        call.call_id,
        node=call.node,
    )


def budget_refused(
    base: tuple[int, OperationId], call_id: CallId, refusal: Refusal
) -> DispatchRefusedBudgetExceeded:
    extra = refusal.extra
    return DispatchRefusedBudgetExceeded(
        *base,
        call_id,
        active_elapsed_ms=extra["active_elapsed_ms"],
        reservation_ms=extra["reservation_ms"],
        remaining_ms=extra["remaining_ms"],
        limit_value=extra["limit_value"],
    )


def extend_asked(state: State, event: ExtendAsked) -> Decision:
    operation = state.operations[event.operation_id]
    ended = _ended(operation)
    if ended is not None:
        return Decision(refusal=ended)
    limit = operation.budget.max_run_ms
    if event.max_run_ms == limit:
        return Decision(operation_id=operation.operation_id, repeated=True)
    if event.max_run_ms < limit:
        return refuse(
            "InvalidInput",
            f"max_run_ms can only be raised: it is {limit}",
            pointer="/max_run_ms",
        )
    record = BudgetExtended(
        event.now.wall, operation.operation_id, event.max_run_ms, event.reason, event.by
    )
    return Decision((record,), outcome=True, operation_id=operation.operation_id)


def _ended(operation: Operation) -> Refusal | None:
    """Whatever is changed about how it goes on is for nothing."""
    standing = operation_state(operation)
    if standing in TERMINAL or operation.cancel_requested:
        return resume_barred(operation)
    return None


def artifacts_asked(state: State, event: ArtifactsAsked) -> Decision:
    operation = state.operations[event.operation_id]
    ended = _ended(operation)
    if ended is not None:
        return Decision(refusal=ended)
    new = {
        handler: digest
        for handler, digest in event.digests.items()
        if digest not in operation.accepted_digests.get(handler, frozenset())
        and any(
            c.terms.handler == handler and c.terms.digest != digest
            for c in operation.ordered_calls()
        )
    }
    records = tuple(
        ArtifactsAccepted(
            event.now.wall, operation.operation_id, handler, digest, event.reason, event.by
        )
        for handler, digest in sorted(new.items())
    )
    return attrs.evolve(
        Decision(records, operation_id=operation.operation_id), repeated=not records
    )
