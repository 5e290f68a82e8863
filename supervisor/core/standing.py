"""Where a call and an operation stand: the state tables, first line that holds."""

from __future__ import annotations

import enum

from supervisor.core.ids import CallId
from supervisor.core.lineage import unresolved
from supervisor.core.program_state import ProgramState
from supervisor.core.record import Ended, Ending, Kind, Outcome, Result, Settler
from supervisor.core.state import Call, Effect, Operation, Phase, Said


class CallState(enum.Enum):
    ACCEPTED = "accepted"
    RUNNING = "running"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


class OperationState(enum.Enum):
    ACCEPTED = "accepted"
    RUNNING = "running"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"


TERMINAL = frozenset(
    {
        OperationState.CANCELLED,
        OperationState.STOPPED,
        OperationState.SUCCEEDED,
        OperationState.FAILED,
    }
)
_OUTSIDE = frozenset({Settler.OPERATOR, Settler.RECONCILER})
# Nothing runs or queues: the present answer stays until somebody asks for something.
FINAL = TERMINAL | {OperationState.UNKNOWN, OperationState.INTERRUPTED, OperationState.WAITING}


def effects_applied(operation: Operation, call: Call) -> int:
    return sum(e.outcome is Said.APPLIED for e in operation.lineage(call))


def effects_unknown(operation: Operation, call: Call) -> int:
    return sum(unresolved(e) for e in operation.lineage(call))


def call_state(operation: Operation, call: Call) -> CallState:
    """A retried call shows its successor's state."""
    call = operation.newest(call)
    if call.live is not None:
        return CallState.RUNNING
    if operation.lost or effects_unknown(operation, call):
        return CallState.UNKNOWN
    if call.succeeded:
        return CallState.SUCCEEDED
    if call.queued is not None:
        return CallState.RUNNING if call.attempts else CallState.ACCEPTED
    return _call_at_rest(operation, call)


def _call_at_rest(operation: Operation, call: Call) -> CallState:
    ended = _ended_as(operation, call)
    # What failed or was refused before the cancel stays that: a state never flips.
    if operation.cancel_requested and ended is CallState.INTERRUPTED:
        return CallState.CANCELLED
    return ended


def _ended_as(operation: Operation, call: Call) -> CallState:
    last = call.last
    if last is None:
        return CallState.REFUSED if call.refused else CallState.INTERRUPTED
    if last.phase is Phase.INTERRUPTED:
        return CallState.INTERRUPTED
    # Cut off by a stop of the daemon, or held back by a check: not the handler's failure.
    if last.outcome in {Outcome.CANCELLED, Outcome.NOT_STARTED} and last.code is not None:
        return CallState.INTERRUPTED
    if settled_from_outside(operation, call):
        return CallState.INTERRUPTED
    return CallState.CANCELLED if last.outcome is Outcome.CANCELLED else CallState.FAILED


def settled_from_outside(operation: Operation, call: Call) -> bool:
    """Somebody else found out that it was applied: a resume can hand that back."""
    return any(
        e.outcome is Said.APPLIED and e.settled_by in _OUTSIDE for e in operation.lineage(call)
    )


def found_undone(operation: Operation, call: Call) -> bool:
    """Its handler said nothing of its effects and ended well, and somebody found out since that
    they were not applied: what it gives tells of a change that was not made."""
    effects = operation.lineage(call)
    undone = any(e.outcome is Said.NOT_APPLIED and e.settled_by in _OUTSIDE for e in effects)
    return undone and not effects_applied(operation, call)


def operation_state(operation: Operation) -> OperationState:
    tally = operation.tally
    moving = (operation.calls[one] for one in tally.moving)
    if any(c.live is not None or _waits_again(operation, c) for c in moving):
        return OperationState.RUNNING
    # Whoever cancels it when records of it are lost has looked after what they may have held.
    if tally.unresolved or (operation.lost and not operation.cancel_requested):
        return OperationState.UNKNOWN
    if operation.cancel_requested:
        return OperationState.CANCELLED
    if operation.program is not None:
        # What moves still, waits for its first try.
        return OperationState.ACCEPTED if tally.moving else _program_at_rest(operation.program)
    ended = _ended_of_kind(operation)
    if ended is not None:
        return ended
    if operation.interrupted or tally.attempts:
        return OperationState.INTERRUPTED
    return OperationState.ACCEPTED


def _ended_of_kind(operation: Operation) -> OperationState | None:
    match operation.kind:
        case Kind.DISPATCH:
            return _dispatch_ended(operation)
        case Kind.OPEN if operation.continuation is not None:
            return OperationState.RUNNING
        # The newest one: `done` with something in doubt may be followed by another.
        case Kind.OPEN if operation.continuations[-1].reason is Ending.DONE:
            return OperationState.SUCCEEDED
        case _:
            return None


class Waits(enum.Enum):
    """What time alone will do to an operation."""

    EVICTION = "eviction"
    ABANDONMENT = "abandonment"


def waits_for(operation: Operation) -> Waits | None:
    """Finished and nothing of it left in doubt; or interrupted, or with an open continuation
    in which nothing runs, and nothing unresolved.

    An answer that a reconciler may still give, or a process that is not proven dead, holds
    an operation; an unknown `none` effect does not.
    """
    tally = operation.tally
    if tally.reconciling:
        return None
    if operation.finished:
        return Waits.EVICTION if not tally.alive else None
    standing = operation_state(operation)
    # An open continuation alone moves nothing.
    idle = standing is OperationState.RUNNING and not tally.moving
    return Waits.ABANDONMENT if idle or standing is OperationState.INTERRUPTED else None


def _waits_again(operation: Operation, call: Call) -> bool:
    """Of a queued call: not as the first try of what was just accepted."""
    first = call.call_id == operation.call_order[0]
    return operation.interrupted or bool(call.attempts) or not first or operation.kind is Kind.OPEN


_PROGRAM_ENDED = {
    Ended.GAVE: OperationState.SUCCEEDED,
    Ended.STOPPED: OperationState.STOPPED,
    Ended.FAILED: OperationState.FAILED,
}


def _program_at_rest(program: ProgramState) -> OperationState:
    """Nothing of it runs or queues, so it has ended, waits for a person, or is stuck."""
    if program.end is not None:
        return _PROGRAM_ENDED[program.end.ended]
    if program.pending is not None:
        return OperationState.WAITING
    # Another version's may be resumed by that one yet.
    stuck = program.known and program.not_resumable
    return OperationState.FAILED if stuck else OperationState.INTERRUPTED


def _dispatch_ended(operation: Operation) -> OperationState | None:
    first = operation.calls[operation.call_order[0]]
    newest = operation.newest(first)
    match call_state(operation, first):
        case CallState.SUCCEEDED:
            return OperationState.SUCCEEDED
        case CallState.FAILED if not effects_applied(operation, newest):
            return OperationState.FAILED
        case CallState.REFUSED if newest.retry_of is None:
            return OperationState.FAILED
        case _:
            return None


def giving_effect(operation: Operation, call: Call) -> Effect | None:
    """The effect whose result is the call's: its handler's sole one, if that was applied."""
    effects = operation.lineage(call)
    if call.terms.sole_effect is None or len(effects) != 1:
        return None
    return effects[0] if effects[0].outcome is Said.APPLIED else None


def call_result(operation: Operation, call: Call) -> Result | None:
    """The result of the effect that gives the call's, else what the handler itself gave."""
    call = operation.newest(call)
    if not call.succeeded:
        return None
    giving = giving_effect(operation, call)
    found = giving.result if giving is not None else call.result
    if found is None or found_undone(operation, call):
        return Result(unavailable="missing")
    return found


def node_value(operation: Operation, call_id: CallId) -> Result | None:
    """What the call of a program's node came to; None while it has no value."""
    call = operation.calls[call_id]
    if call_state(operation, call) is not CallState.SUCCEEDED:
        return None
    result = call_result(operation, call)
    return result if result is not None and result.available else None


def node_lost(operation: Operation, call_id: CallId) -> str | None:
    """Why the call of a node succeeded and its value is gone for good; None if it is not.

    An effect's result can still be supplied, and no other.
    """
    call = operation.newest(operation.calls[call_id])
    if call_state(operation, call) is not CallState.SUCCEEDED:
        return None
    if giving_effect(operation, call) is not None:
        return None
    result = call_result(operation, call)
    return result.unavailable if result is not None else None


def node_waits(operation: Operation, call_id: CallId) -> bool:
    """Whether the call of a node is at rest without a value: only a resume moves it."""
    newest = operation.newest(operation.calls[call_id])
    if newest.moves:
        return False
    return node_value(operation, call_id) is None


def operation_result(operation: Operation) -> Result | None:
    """A program's `give`, a dispatch's call result."""
    if operation.program is not None:
        end = operation.program.end
        return Result(end.value) if end is not None and end.ended is Ended.GAVE else None
    if operation.kind is not Kind.DISPATCH or not operation.call_order:
        return None
    return call_result(operation, operation.calls[operation.call_order[0]])
