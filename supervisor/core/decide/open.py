"""Decisions about open operations: continuations, and the calls in them."""

from __future__ import annotations

from typing import assert_never

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.continuing import closed, not_by_itself, not_open, overtaken
from supervisor.core.decide.operation import budget_refused
from supervisor.core.errors import Refusal
from supervisor.core.lineage import Plan, plan, resolve_command
from supervisor.core.matching import Class, Match, match
from supervisor.core.open_state import Continuation
from supervisor.core.record import (
    Answer,
    CallAccepted,
    CallQueued,
    CallRestored,
    ContinuationEnded,
    ContinuationOpened,
    Ending,
    Record,
    RepeatAnswered,
    Trigger,
)
from supervisor.core.standing import call_result
from supervisor.core.state import Call, Operation, State
from supervisor.core.step import (
    CallAsked,
    ContinueAsked,
    Decision,
    EndAsked,
    EndAttempt,
    Launch,
    refuse,
)

# A frame costs the same however many there are. What is told of the whole operation (its recovery
# projection and checkpoint, its note, its part of a snapshot) is made in one go and names them all.
CALLS_MOST = 1_000


# --- continuations ------------------------------------------------------------------------


def continue_asked(state: State, event: ContinueAsked) -> Decision:
    """The next continuation; each has one successor, whoever asks first."""
    operation = state.operations[event.operation_id]
    known = _successor(operation, event.after)
    if known is not None and (known.request_id, known.trigger) == (event.request_id, event.trigger):
        return Decision(operation_id=event.operation_id, repeated=True)
    refusal = (
        closed(operation)
        or _taken(operation, event, known)
        or _not_the_last(operation, event.after)
        or overtaken(operation)
        or (not_by_itself(operation, event.now) if event.trigger is Trigger.AUTO else None)
    )
    if refusal is not None:
        return Decision(refusal=refusal)
    base, n = (event.now.wall, event.operation_id), len(operation.continuations)
    opened = ContinuationOpened(*base, n, event.trigger, event.by, event.after, event.request_id)
    records: tuple[Record, ...] = (opened,)
    if operation.continuation is not None:
        ended = ContinuationEnded(*base, n - 1, Ending.CONTINUED, event.by, event.now.mono)
        records = (ended, opened)
    return Decision(records, operation_id=event.operation_id)


def _successor(operation: Operation, after: int) -> Continuation | None:
    following = operation.continuations[after + 1 : after + 2]
    return following[0] if following else None


def _taken(
    operation: Operation, event: ContinueAsked, known: Continuation | None
) -> Refusal | None:
    if known is None:
        known = next(
            (one for one in operation.continuations if one.request_id == event.request_id), None
        )
    if known is None:
        return None
    detail = (
        f"continuation {known.n} of {operation.operation_id} follows {known.n - 1}: opened by "
        f"request {known.request_id!r} ({known.trigger.value})"
    )
    return Refusal("DurableResumeConflict", detail, fix="Look at the operation: somebody goes on.")


def _not_the_last(operation: Operation, after: int) -> Refusal | None:
    last = len(operation.continuations) - 1
    if after == last:
        return None
    detail = f"{operation.operation_id} has no continuation {after}; the last one is {last}"
    return Refusal("ContinuationRefused", detail, fix=f'Ask with "after": {last}.')


def end_asked(state: State, event: EndAsked) -> Decision:
    """End what is open. `stop` ends its running calls too."""
    operation = state.operations[event.operation_id]
    if event.n < len(operation.continuations):
        known = operation.continuations[event.n]
        if known.reason is event.reason:
            return Decision(operation_id=event.operation_id, repeated=True)
    refusal = closed(operation) or not_open(operation, event.n)
    if refusal is not None:
        return Decision(refusal=refusal)
    record = ContinuationEnded(
        event.now.wall, event.operation_id, event.n, event.reason, event.by, event.now.mono
    )
    ends = tuple(
        EndAttempt(call.call_id, call.live.number)
        for call in operation.moving_calls()
        if call.live is not None and event.reason is Ending.STOP
    )
    return Decision((record,), ends, outcome=True, operation_id=event.operation_id)


# --- calls --------------------------------------------------------------------------------


def call_asked(state: State, event: CallAsked) -> Decision:
    """A new call; or, of a write that was asked before, what that one allows."""
    operation = state.operations[event.operation_id]
    known = operation.requests.get(event.request_id)
    if known is not None and known.request_digest == event.request_digest:
        return Decision(operation_id=event.operation_id, repeated=True)
    if known is not None:
        detail = f"request_id {event.request_id!r} belongs to {known.call_id}, with another body"
        return refuse("RequestConflict", detail)
    refusal = closed(operation) or not_open(operation, event.continuation) or _full(operation)
    if refusal is not None:
        return Decision(refusal=refusal)
    if event.terms.read_only:
        return _fresh(operation, event)
    if operation.lost:
        return Decision(refusal=_lost(operation))
    found = match(operation, _n(operation), event.terms.handler, canonical_digest(event.input))
    match found:
        case Match(call, Class.UNSETTLED):
            return _go_on(operation, call, event)
        case Match(call, Class.OPEN):
            return _answered(operation, event, call, Answer.JOINED)
        case Match(call, _):
            return _replay(operation, call, event)
        case None:
            return _fresh(operation, event)
        case _:
            assert_never(found)


def _n(operation: Operation) -> int:
    assert operation.continuation is not None
    return operation.continuation.n


def _full(operation: Operation) -> Refusal | None:
    if len(operation.call_order) < CALLS_MOST:
        return None
    detail = f"{operation.operation_id} has {CALLS_MOST} calls, the most of one operation"
    return Refusal("LimitExceeded", detail, fix="Go on with a new message.")


def _lost(operation: Operation) -> Refusal:
    """The very write that is asked for may stand in the records that are lost."""
    first, last = operation.lost
    detail = f"the journal's records at positions {first}..{last} are lost, and with them calls"
    fix = "Look at the providers; ask in a new message for what is really missing."
    return Refusal("EffectOutcomeUnknown", detail, fix=fix)


def _fresh(operation: Operation, event: CallAsked) -> Decision:
    record = CallAccepted(
        at=event.now.wall,
        operation_id=event.operation_id,
        call_id=event.call_id,
        terms=event.terms,
        input=event.input,
        timeout_ms=event.timeout_ms,
        by=event.by,
        continuation=_n(operation),
        request_id=event.request_id,
        request_digest=event.request_digest,
        input_digest=canonical_digest(event.input),
    )
    return Decision((record,), (Launch(event.call_id),), operation_id=event.operation_id)


def _go_on(operation: Operation, call: Call, event: CallAsked) -> Decision:
    """An unsettled write: what its contracts allow, as a resume would."""
    planned = plan(operation, call, event.now)
    if isinstance(planned, Refusal):
        return Decision(refusal=planned)
    base = (event.now.wall, event.operation_id)
    if planned.relaunch is None:
        restored = CallRestored(*base, call.call_id)
        return _answered(operation, event, call, Answer.RESTORED, restored)
    if not operation.budget.admits(call.timeout_ms, event.margin_ms):
        refusal = operation.budget.refusal(call.timeout_ms, call.call_id)
        record = budget_refused(base, call.call_id, refusal)
        return Decision((record,), refusal=refusal, operation_id=event.operation_id)
    return _relaunch(operation, planned, event)


def _relaunch(operation: Operation, planned: Plan, event: CallAsked) -> Decision:
    call, base = planned.call, (event.now.wall, event.operation_id)
    if not planned.new_call:
        assert planned.relaunch is not None
        queued = CallQueued(*base, call.call_id, planned.relaunch)
        return _answered(operation, event, call, Answer.RELAUNCHED, queued)
    retry = CallAccepted(
        *base,
        event.call_id,
        call.terms,
        call.input,
        call.timeout_ms,
        event.by,
        retry_of=call.call_id,
        continuation=_n(operation),
        input_digest=call.input_digest,
    )
    return _answered(operation, event, retry, Answer.RELAUNCHED, retry)


def _replay(operation: Operation, call: Call, event: CallAsked) -> Decision:
    """A completed write: its recorded result, and nothing is run."""
    result = call_result(operation, call)
    if result is not None and result.available:
        return _answered(operation, event, call, Answer.REPLAYED)
    lost = next((one for one in operation.lineage(call) if one.result_lost), None)
    detail = f"{call.call_id} did this already, and its result is not available"
    return refuse(
        "EffectResultUnavailable",
        detail,
        fix=resolve_command(lost, "--outcome applied --result JSON") if lost is not None else "",
        call_id=call.call_id,
        effect_id=lost.effect_id if lost is not None else None,
    )


def _answered(
    operation: Operation,
    event: CallAsked,
    call: Call | CallAccepted,
    answer: Answer,
    *moved: CallAccepted | CallQueued | CallRestored,
) -> Decision:
    """The request is bound to this call, in one frame with whatever moves the call."""
    record = RepeatAnswered(
        event.now.wall,
        event.operation_id,
        call.call_id,
        _n(operation),
        event.request_id,
        event.request_digest,
        answer,
        event.by,
    )
    launches = (Launch(call.call_id),) if answer is Answer.RELAUNCHED else ()
    return Decision((*moved, record), launches, operation_id=event.operation_id)
