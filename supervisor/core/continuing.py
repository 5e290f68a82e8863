"""Whether an open operation may be called and continued: one refusal for each reason."""

from __future__ import annotations

from supervisor.core.errors import Refusal
from supervisor.core.lineage import NS_PER_MS
from supervisor.core.moment import Moment
from supervisor.core.open_state import Continuation
from supervisor.core.record import Ending, Kind, Trigger
from supervisor.core.standing import TERMINAL, operation_state
from supervisor.core.state import Operation

AUTO_MOST = 3
AUTO_WITHIN_MS = 600_000


def may_continue(operation: Operation) -> Refusal | None:
    """What stands in the way of a person who continues it now; None: nothing does."""
    return closed(operation) or overtaken(operation)


def closed(operation: Operation) -> Refusal | None:
    """Nothing is called or continued here, now or later."""
    if operation.kind is not Kind.OPEN:
        detail = f"{operation.operation_id} is a {operation.kind.value}, not an open operation"
        return Refusal("ContinuationRefused", detail, fix="Send an open message for this.")
    if operation.cancel_requested:
        return Refusal("OperationCancelled", f"{operation.operation_id} was cancelled")
    standing = operation_state(operation)
    if standing in TERMINAL:
        detail = f"{operation.operation_id} is {standing.value}"
        return Refusal("ContinuationRefused", detail, fix="Send a new message for new work.")
    return None


def overtaken(operation: Operation) -> Refusal | None:
    if operation.followed_by is None:
        return None
    detail = f"{operation.followed_by} is a later open operation of the same session"
    fix = f"Go on there; what was done here is in its note: GET .../{operation.followed_by}/note."
    return Refusal("ContinuationRefused", detail, fix=fix)


def not_by_itself(operation: Operation, now: Moment) -> Refusal | None:
    """Only what was cut off by time alone goes on without a person."""
    last = operation.continuations[-1]
    asked = sum(one.trigger is Trigger.AUTO for one in operation.continuations)
    if last.reason is None:
        detail = f"continuation {last.n} is open"
    elif last.reason is not Ending.TIME_LIMIT:
        detail = f"continuation {last.n} ended with {last.reason.value}, not time_limit"
    elif _ago_ms(last, now) > AUTO_WITHIN_MS:
        detail = f"continuation {last.n} ended more than {AUTO_WITHIN_MS // 60_000} minutes ago"
    elif asked >= AUTO_MOST:
        detail = f"{asked} continuations were opened automatically, the most that may be"
    else:
        return None
    fix = f"A person continues it: effectctl operations continue {operation.operation_id}"
    return Refusal("ContinuationRefused", detail, fix=fix)


def _ago_ms(ended: Continuation, now: Moment) -> int:
    """The larger of both clocks, so that none that was set back makes it look recent."""
    assert ended.ended_at is not None
    ages = [now.wall - ended.ended_at]
    if ended.ended_boot == now.boot_id:
        ages.append(now.mono - ended.ended_mono)
    return max(ages) // NS_PER_MS


def not_open(operation: Operation, n: int | None) -> Refusal | None:
    """`n` is the continuation that is meant, None any that is open."""
    open_ = operation.continuation
    if open_ is not None and n in {None, open_.n}:
        return None
    last = operation.continuations[-1]
    if open_ is not None:
        detail, fix = f"continuation {open_.n} is open, not {n}", "Look at the operation again."
    else:
        assert last.reason is not None
        detail = f"continuation {last.n} has ended ({last.reason.value}), and none is open"
        fix = f"effectctl operations continue {operation.operation_id}"
    return Refusal("ContinuationRefused", detail, fix=fix)


def continue_instead(operation: Operation) -> Refusal:
    """An open operation goes on by its client's next calls, not by a resume."""
    detail = f"{operation.operation_id} is an open operation: its client decides what is called"
    fix = f"effectctl operations continue {operation.operation_id}, then repeat the call"
    return Refusal("NotResumable", detail, fix=fix)
