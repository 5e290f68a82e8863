"""Decisions about attempts: may it start, and what its end means."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.core.decide.operation import budget_refused
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey, EffectId, OperationId
from supervisor.core.lineage import Plan, plan, supplies
from supervisor.core.record import (
    AttemptEnded,
    AttemptInterrupted,
    AttemptReserved,
    AttemptStarted,
    CallRefused,
    CallRestored,
    DeathProven,
    DeclaredEffect,
    EffectAnnounced,
    EffectConfirmed,
    Outcome,
    Record,
    Relaunch,
    Result,
    Settler,
)
from supervisor.core.state import Attempt, Call, Effect, Operation, Said, State
from supervisor.core.step import (
    Decision,
    Exited,
    Lost,
    OpenGate,
    ProvenDead,
    Ready,
    Withheld,
    refuse,
)


def withheld(state: State, event: Withheld) -> Decision:
    """A queued call that cannot start leaves the queue, with the reason recorded."""
    operation = state.operation_of(event.call_id)
    call = operation.calls[event.call_id]
    if call.queued is None:
        return Decision(refusal=event.refusal)
    base = (event.now.wall, operation.operation_id)
    return _not_admitted(base, call, event.refusal)


def admission(operation: Operation, call: Call, digest: str, margin_ms: int) -> Refusal | None:
    """Say why this queued call may not start now; None lets it."""
    if call.queued is None:
        ended = operation.cancel_requested or call.stopped
        code = "OperationCancelled" if ended else "DurableResumeConflict"
        return Refusal(code, f"{call.call_id} is not queued any more", call_id=call.call_id)
    changed = artifact_refusal(operation, call, digest)
    if changed is not None:
        return changed
    if not operation.budget.admits(call.timeout_ms, margin_ms):
        return operation.budget.refusal(call.timeout_ms, call.call_id)
    return None


def artifact_refusal(operation: Operation, call: Call, digest: str) -> Refusal | None:
    """What continues must be what began, unless an admin accepted the new digest."""
    known = {call.terms.digest} | operation.accepted_digests.get(call.terms.handler, frozenset())
    if digest in known:
        return None
    return Refusal(
        "HandlerArtifactChanged",
        f"handler {call.terms.handler!r} has digest {digest[:12]}, "
        f"the call began with {call.terms.digest[:12]}",
        fix=f"effectctl operations accept-artifacts {operation.operation_id} --reason TEXT",
        call_id=call.call_id,
    )


def ready(state: State, event: Ready) -> Decision:
    """Reserve, start and announce in one frame: the sandbox waits at its gate meanwhile."""
    operation = state.operation_of(event.call_id)
    call = operation.calls[event.call_id]
    # It was let into the queue a while ago: a key may have expired, an operator may have
    # settled an effect, a reconciler may be asking. So its lineage is judged again.
    planned = plan(operation, call, event.now)
    if call.queued is not None and isinstance(planned, Plan) and planned.relaunch is None:
        return _settled_meanwhile((event.now.wall, operation.operation_id), call)
    refusal = admission(operation, call, event.digest, event.margin_ms)
    if refusal is None and isinstance(planned, Refusal):
        refusal = planned
    if refusal is not None and call.queued is not None and _fits_later(operation, call, event):
        return Decision(refusal=refusal, waits=True)
    if refusal is not None:
        return _not_admitted((event.now.wall, operation.operation_id), call, refusal)
    assert isinstance(planned, Plan)
    assert planned.relaunch is not None
    return _start(operation, call, planned.relaunch, event)


def _fits_later(operation: Operation, call: Call, event: Ready) -> bool:
    """Only what its siblings reserve is in the way, and they will be seen to end."""
    lives = (one.live for one in operation.moving_calls())
    running_ms = sum(one.reservation_ms for one in lives if one is not None)
    if not running_ms or operation.budget.admits(call.timeout_ms, event.margin_ms):
        return False
    charged = operation.budget.settle(running_ms, 0)
    return charged.admits(call.timeout_ms, event.margin_ms)


def _start(operation: Operation, call: Call, relaunch: Relaunch, event: Ready) -> Decision:
    base = (event.now.wall, operation.operation_id, call.call_id, len(call.attempts))
    records: list[Record] = [
        AttemptReserved(*base, call.timeout_ms, relaunch, event.digest),
        AttemptStarted(*base, event.identity, event.layers),
    ]
    whole = call.terms.whole_call
    effect_id: EffectId | None = None
    if whole is not None:
        effect_id = _whole_call_id(operation, call, event.effect_id)
        records.append(_announce_whole(operation, call, whole, effect_id, event))
    gate = OpenGate(call.call_id, len(call.attempts), call.timeout_ms, relaunch, effect_id)
    return Decision(tuple(records), (gate,), operation_id=operation.operation_id)


def _not_admitted(base: tuple[int, OperationId], call: Call, refusal: Refusal) -> Decision:
    if call.queued is None:
        return Decision(refusal=refusal)
    records: list[Record] = []
    if refusal.code == "RunTimeBudgetExceeded":
        records.append(budget_refused(base, call.call_id, refusal))
    records.append(CallRefused(*base, call.call_id, refusal.code, refusal.detail))
    return Decision(tuple(records), refusal=refusal, outcome=True, operation_id=base[1])


def _settled_meanwhile(base: tuple[int, OperationId], call: Call) -> Decision:
    """Everything is known now, so nothing is started: the sandbox is let go."""
    detail = f"{call.call_id} was settled while it waited; its result was handed back"
    refusal = Refusal("DurableResumeConflict", detail, call_id=call.call_id)
    record = CallRestored(*base, call.call_id)
    return Decision((record,), refusal=refusal, outcome=True, operation_id=base[1])


def _whole_call_id(operation: Operation, call: Call, fresh: EffectId) -> EffectId:
    """The lineage keeps its effect_id; it is the provider's idempotency key."""
    known = operation.lineages.get(call.root, ())
    return known[0] if known else fresh


def _announce_whole(
    operation: Operation, call: Call, whole: DeclaredEffect, effect_id: EffectId, event: Ready
) -> EffectAnnounced:
    known = operation.effects.get(effect_id)
    return EffectAnnounced(
        at=event.now.wall,
        operation_id=operation.operation_id,
        call_id=call.call_id,
        attempt=len(call.attempts),
        ordinal=0,
        effect_id=effect_id,
        declared=known.declared if known is not None else whole,
        request=None,
        request_digest="",
        handler_digest=event.digest,
        mono=event.now.mono,
    )


# --- the end ------------------------------------------------------------------------------


def exited(state: State, event: Exited) -> Decision:
    """Settle the attempt: effects by evidence, the budget by what was seen."""
    operation = state.operation_of(event.call_id)
    call = operation.calls[event.call_id]
    attempt = call.attempts[event.attempt]
    if not attempt.live:
        return refuse("NotFound", f"{event.call_id} attempt {event.attempt} has ended")
    outcome, code, detail = _judged(operation, call, attempt, event)
    settled = _settled_by_end(operation, call, event)
    late = outcome is Outcome.TIMED_OUT and _would_have_succeeded(operation, call, attempt, event)
    ended = AttemptEnded(
        at=event.now.wall,
        operation_id=operation.operation_id,
        call_id=call.call_id,
        attempt=event.attempt,
        outcome=outcome,
        active_ms=0 if outcome is Outcome.NOT_STARTED else event.active_ms,
        exit=event.exit,
        usage=event.usage,
        leftovers_killed=event.leftovers_killed,
        late=late,
        result=event.value if late or outcome is Outcome.SUCCEEDED else None,
        code=code,
        detail=detail,
        proof=event.proof,
        mono=event.now.mono,
    )
    return Decision((*settled, ended), outcome=True, operation_id=operation.operation_id)


def _would_have_succeeded(
    operation: Operation, call: Call, attempt: Attempt, event: Exited
) -> bool:
    """Exit 0, and nothing was refused or left out on the way; only the deadline came first."""
    exit_zero = event.exit is not None and event.exit.code == 0
    return exit_zero and attempt.code is None and _missing(operation, call, attempt) is None


def _missing(operation: Operation, call: Call, attempt: Attempt) -> str | None:
    known = len(operation.lineages.get(call.root, ()))
    if attempt.announced >= known:
        return None
    return f"ordinal {attempt.announced} of {known} known was not announced again"


def _judged(
    operation: Operation, call: Call, attempt: Attempt, event: Exited
) -> tuple[Outcome, str | None, str]:
    """The outcome as seen, except that leaving out a known ordinal is no success."""
    code = event.code or attempt.code
    detail = event.detail or attempt.detail
    if event.outcome is not Outcome.SUCCEEDED:
        return event.outcome, code, detail
    missing = _missing(operation, call, attempt)
    if missing is not None:
        return Outcome.FAILED, "EffectCorrelationMismatch", missing
    if code is not None:
        return Outcome.FAILED, code, detail
    return Outcome.SUCCEEDED, None, ""


def _settled_by_end(operation: Operation, call: Call, event: Exited) -> Sequence[Record]:
    """What the end itself proves about a whole-call effect."""
    whole = call.terms.whole_call
    lineage = operation.lineages.get(call.root, ())
    if whole is None or not lineage:
        return ()
    effect = operation.effects[lineage[0]]
    key = AttemptKey(call.call_id, event.attempt)
    one = next((t for t in effect.tries if t.key == key), None)
    proof = _proof(effect, event)
    if one is None or proof is None:
        return ()
    applied, settled_by, reason = proof
    wanted = applied and supplies(effect, one, event.value)
    if one.outcome is not Said.ANNOUNCED and not wanted:
        return ()
    result = (event.value or Result(unavailable="missing")) if applied else None
    record = EffectConfirmed(
        at=event.now.wall,
        operation_id=operation.operation_id,
        call_id=key.call_id,
        attempt=key.attempt,
        ordinal=0,
        effect_id=effect.effect_id,
        applied=applied,
        settled_by=settled_by,
        result=result,
        reason=reason,
    )
    return (record,)


def _proof(effect: Effect, event: Exited) -> tuple[bool, Settler, str] | None:
    if event.outcome is Outcome.NOT_STARTED:
        return False, Settler.SUPERVISOR, "the handler never ran"
    code = event.exit.code if event.exit is not None else None
    if code == 0:
        return True, Settler.HANDLER, "exit 0"
    if code is not None and code in effect.declared.not_applied_exits:
        return False, Settler.HANDLER, f"exit {code}"
    return None


def lost(state: State, event: Lost) -> Decision:
    """Its launcher or init died before its end was seen: the reservation stays charged."""
    operation = state.operation_of(event.call_id)
    attempt = operation.calls[event.call_id].attempts[event.attempt]
    if not attempt.live:
        return refuse("NotFound", f"{event.call_id} attempt {event.attempt} has ended")
    record = AttemptInterrupted(
        event.now.wall,
        operation.operation_id,
        event.call_id,
        event.attempt,
        event.reason,
        event.dead,
        event.now.mono,
    )
    return Decision((record,), outcome=True, operation_id=operation.operation_id)


def proven_dead(state: State, event: ProvenDead) -> Decision:
    operation = state.operation_of(event.call_id)
    call = operation.calls[event.call_id]
    attempt = call.attempts[event.attempt]
    if attempt.live:
        return refuse(
            "PreviousAttemptAlive",
            f"attempt {event.attempt} of {event.call_id} is running",
            fix=f"effectctl operations cancel {operation.operation_id}",
        )
    if attempt.dead:
        return Decision(operation_id=operation.operation_id, repeated=True)
    record = DeathProven(
        event.now.wall,
        operation.operation_id,
        event.call_id,
        event.attempt,
        event.proof,
        event.by,
        event.reason,
        event.now.mono,
    )
    return Decision((record,), outcome=True, operation_id=operation.operation_id)
