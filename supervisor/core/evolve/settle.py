"""Effects settled from outside: by their reconciler, by an operator."""

from __future__ import annotations

import attrs

from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import open as open_
from supervisor.core.evolve.put import effect_of, put_effect
from supervisor.core.record import (
    EffectResolved,
    ReconcilerDeathProven,
    ReconcilerEnded,
    ReconcilerStarted,
    Settler,
)
from supervisor.core.state import UNSETTLED, Effect, Operation, Reconciling, Said, State


def reconciler_started(state: State, operation: Operation, record: ReconcilerStarted) -> State:
    effect = effect_of(operation, record.effect_id)
    if effect.reconciling is not None:
        raise IllegalTransition(f"one runs already: {record}")
    running = Reconciling(record.revision, record.at, record.mono, record.identity)
    state = put_effect(state, operation, attrs.evolve(effect, reconciling=running))
    reconciling = state.reconciling.set(record.effect_id, operation.operation_id)
    return attrs.evolve(state, reconciling=reconciling)


def reconciler_ended(state: State, operation: Operation, record: ReconcilerEnded) -> State:
    effect = effect_of(operation, record.effect_id)
    if effect.reconciling is None or effect.reconciling.survivor:
        raise IllegalTransition(f"was not running: {record}")
    effect = attrs.evolve(effect, reconciling=None, evidence_note=record.detail)
    if record.settles and record.applied is not None:
        effect = _stated(effect, record.applied, Settler.RECONCILER, record)
        effect = effect.with_result(record.applied, record.result).moved()
        state = _put_settled(state, operation, effect)
    else:
        state = put_effect(state, operation, effect)
    return attrs.evolve(state, reconciling=state.reconciling.delete(record.effect_id))


def reconciler_death_proven(
    state: State, operation: Operation, record: ReconcilerDeathProven
) -> State:
    effect = effect_of(operation, record.effect_id)
    if effect.reconciling is None or not effect.reconciling.survivor:
        raise IllegalTransition(f"was not in doubt: {record}")
    state = put_effect(state, operation, attrs.evolve(effect, reconciling=None))
    return attrs.evolve(state, reconciling=state.reconciling.delete(record.effect_id))


def resolved(state: State, operation: Operation, record: EffectResolved) -> State:
    effect = effect_of(operation, record.effect_id)
    effect = _stated(effect, record.applied, Settler.OPERATOR, record)
    effect = attrs.evolve(effect, evidence_note=record.evidence)
    effect = effect.with_result(record.applied, record.result).moved()
    return _put_settled(state, operation, effect)


def _put_settled(state: State, operation: Operation, effect: Effect) -> State:
    state = put_effect(state, operation, effect)
    return open_.settled(state, state.operations[operation.operation_id], effect)


def _stated(
    effect: Effect, applied: bool, by: Settler, record: ReconcilerEnded | EffectResolved
) -> Effect:
    """*Not applied* speaks of every open try, *applied* of the newest; neither flips."""
    if effect.outcome not in UNSETTLED:
        if (effect.outcome is Said.APPLIED) is not applied:
            raise IllegalTransition(f"an outcome never flips: {record}")
        return effect
    reason = record.evidence if isinstance(record, EffectResolved) else record.detail
    if not applied:
        return effect.settle(
            lambda t: t.outcome in UNSETTLED,
            outcome=Said.NOT_APPLIED,
            settled_by=by,
            reason=reason,
        )
    newest = next(t for t in reversed(effect.tries) if t.outcome in UNSETTLED)
    return effect.settle(lambda t: t is newest, outcome=Said.APPLIED, settled_by=by, reason=reason)
