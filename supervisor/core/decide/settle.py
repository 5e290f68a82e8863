"""Decisions that settle an effect from outside: the provider's word, an operator's."""

from __future__ import annotations

from supervisor.core.contract import Evidence
from supervisor.core.errors import Refusal
from supervisor.core.ids import EffectId
from supervisor.core.lineage import (
    NS_PER_MS,
    evidence,
    open_tries_dead,
    reconciler_alive,
    relaunched,
    resolve_command,
)
from supervisor.core.record import (
    EffectResolved,
    ReconcilerDeathProven,
    ReconcilerEnded,
    ReconcilerStarted,
)
from supervisor.core.standing import TERMINAL, operation_state
from supervisor.core.state import UNSETTLED, Effect, Operation, Reconciling, Said, State
from supervisor.core.step import (
    Decision,
    ReconcileAsked,
    ReconcilerAnswered,
    ReconcilerProvenDead,
    ReconcilerReady,
    ResolveAsked,
    RunReconciler,
    refuse,
)


def _find(state: State, effect_id: EffectId) -> tuple[Operation, Effect]:
    operation = state.operations[state.effects[effect_id]]
    return operation, operation.effects[effect_id]


def reconcile_asked(state: State, event: ReconcileAsked) -> Decision:
    operation, effect = _find(state, event.effect_id)
    refusal = _reconcile_refusal(operation, effect)
    if refusal is not None:
        return Decision(refusal=refusal)
    reconciler = effect.declared.reconciler
    assert reconciler is not None
    run = RunReconciler(effect.effect_id, reconciler, effect.revision)
    return Decision((), (run,), operation_id=operation.operation_id)


def _reconcile_refusal(operation: Operation, effect: Effect) -> Refusal | None:
    one = effect.effect_id
    alive = reconciler_alive(effect)
    if alive is not None:
        return alive
    if evidence(effect) in {Evidence.APPLIED, Evidence.NOT_APPLIED}:
        detail = f"{one} is {effect.outcome.value} already"
        return Refusal("NotResumable", detail, fix="Nothing is left to ask.", effect_id=one)
    finished = _finished(operation, effect)
    if finished is not None:
        return finished
    if effect.declared.reconciler is None:
        return Refusal(
            "ReconciliationRequired",
            f"{one} declares no reconciler",
            fix=resolve_command(effect, "--outcome applied|not_applied"),
            effect_id=one,
        )
    if relaunched(operation, effect) or not open_tries_dead(operation, effect):
        return Refusal("PreviousAttemptAlive", f"a try of {one} may still act", effect_id=one)
    return None


def _finished(operation: Operation, effect: Effect) -> Refusal | None:
    """Of a finished operation only a missing result is still taken: its state never flips."""
    standing = operation_state(operation)
    if standing not in TERMINAL or effect.result_lost:
        return None
    detail = f"{operation.operation_id} is {standing.value}, and {effect.effect_id} changes nothing"
    return Refusal(
        "NotResumable", detail, fix="Nothing is left to settle.", effect_id=effect.effect_id
    )


def reconciler_ready(state: State, event: ReconcilerReady) -> Decision:
    """Asked again: between the request and the sandbox somebody may have settled it."""
    operation, effect = _find(state, event.effect_id)
    refusal = _reconcile_refusal(operation, effect)
    if refusal is not None:
        return Decision(refusal=refusal)
    record = ReconcilerStarted(
        event.now.wall,
        operation.operation_id,
        effect.effect_id,
        effect.revision,
        event.by,
        event.identity,
        event.now.mono,
    )
    return Decision((record,), operation_id=operation.operation_id)


def reconciler_answered(state: State, event: ReconcilerAnswered) -> Decision:
    """An answer settles only the revision it was asked about."""
    operation, effect = _find(state, event.effect_id)
    running = effect.reconciling
    if running is None or running.survivor:
        return refuse("NotFound", f"no reconciler of {event.effect_id} is running")
    doubt = _doubt(operation, effect, event)
    record = ReconcilerEnded(
        at=event.now.wall,
        operation_id=operation.operation_id,
        effect_id=effect.effect_id,
        applied=event.applied,
        settles=doubt is None,
        result=event.result,
        detail=event.detail if doubt is None else doubt,
    )
    return Decision((record,), outcome=True, operation_id=operation.operation_id)


def reconciler_proven_dead(state: State, event: ReconcilerProvenDead) -> Decision:
    operation, effect = _find(state, event.effect_id)
    running = effect.reconciling
    if running is None:
        return Decision(operation_id=operation.operation_id, repeated=True)
    if not running.survivor:
        return Decision(refusal=reconciler_alive(effect))
    record = ReconcilerDeathProven(
        event.now.wall,
        operation.operation_id,
        effect.effect_id,
        event.proof,
        event.by,
        event.reason,
    )
    return Decision((record,), outcome=True, operation_id=operation.operation_id)


def _doubt(operation: Operation, effect: Effect, event: ReconcilerAnswered) -> str | None:
    """Why this answer is evidence only."""
    running = effect.reconciling
    assert running is not None
    if event.applied is None:
        return event.detail or "the reconciler could not tell"
    if running.revision != effect.revision:
        return f"the effect moved from revision {running.revision} to {effect.revision} meanwhile"
    if effect.outcome is Said.APPLIED:
        return None if event.applied else "the provider says not applied, the journal applied"
    if event.applied:
        return None
    if not open_tries_dead(operation, effect):
        return "not applied counts only when every try is proven dead"
    reconciler = effect.declared.reconciler
    assert reconciler is not None
    if _waited_ns(operation, effect, running) < reconciler.settle_ms * NS_PER_MS:
        wait = f"settle_ms ({reconciler.settle_ms})"
        return f"asked less than {wait} after the last try ended: ask again"
    return None


def _waited_ns(operation: Operation, effect: Effect, running: Reconciling) -> int:
    """How long every try had been proven dead when the provider was asked: by the wall
    clock, and within one boot by the monotonic one too, so that no jump shortens it."""
    waited: list[int] = []
    for one in effect.tries:
        attempt = operation.calls[one.call_id].attempts[one.attempt]
        waited.append(running.at - (attempt.ended_at or running.at))
        if attempt.ended_boot == running.identity.boot_id:
            waited.append(running.mono - attempt.ended_mono)
    return min(waited)


def resolve_asked(state: State, event: ResolveAsked) -> Decision:
    operation, effect = _find(state, event.effect_id)
    if _said_already(effect, event):
        return Decision(operation_id=operation.operation_id, repeated=True)
    refusal = _resolve_refusal(operation, effect, event)
    if refusal is not None:
        return Decision(refusal=refusal)
    record = EffectResolved(
        event.now.wall,
        operation.operation_id,
        effect.effect_id,
        event.applied,
        event.evidence,
        event.by,
        event.result,
    )
    return Decision((record,), outcome=True, operation_id=operation.operation_id)


def _said_already(effect: Effect, event: ResolveAsked) -> bool:
    if effect.outcome in UNSETTLED or (effect.outcome is Said.APPLIED) is not event.applied:
        return False
    return event.result is None or effect.result == event.result


def _resolve_refusal(operation: Operation, effect: Effect, event: ResolveAsked) -> Refusal | None:
    one = effect.effect_id
    if event.if_revision is not None and event.if_revision != effect.revision:
        detail = f"{one} is at revision {effect.revision}, not {event.if_revision}"
        fix = f"Look again: effectctl effects show {one}"
        return Refusal("DurableResumeConflict", detail, fix=fix, effect_id=one)
    if effect.outcome not in UNSETTLED:
        return _settled_refusal(effect, event)
    finished = _finished(operation, effect)
    if finished is not None:
        return finished
    if not event.applied and not open_tries_dead(operation, effect):
        detail = f"not_applied needs every try of {one} to be proven dead"
        return Refusal("PreviousAttemptAlive", detail, effect_id=one)
    return None


def _settled_refusal(effect: Effect, event: ResolveAsked) -> Refusal | None:
    """A settled outcome never flips; a missing result may be supplied, once."""
    one = effect.effect_id
    if event.applied and effect.result_lost:
        return None
    detail = f"{one} is {effect.outcome.value} already, and an outcome never flips"
    return Refusal("RequestConflict", detail, fix="Nothing is left to settle.", effect_id=one)
