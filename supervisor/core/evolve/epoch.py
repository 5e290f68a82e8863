"""A new epoch: whatever moved is interrupted, and nothing moves by itself any more."""

from __future__ import annotations

import attrs

from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve.attempt import interrupt
from supervisor.core.evolve.put import put_call, put_effect
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId
from supervisor.core.record import DaemonStarted
from supervisor.core.state import State


def daemon_started(state: State, record: DaemonStarted) -> State:
    alive = frozenset(AttemptKey(call_id, attempt) for call_id, attempt in record.alive)
    for call_id, operation_id in state.moving.items():
        state = _stop(state, operation_id, call_id, record, alive)
    unknown = set(record.asking) - set(state.reconciling)
    if unknown:
        raise IllegalTransition(f"no reconciler of {sorted(unknown)} was running: {record}")
    for effect_id, operation_id in state.reconciling.items():
        survivor = effect_id in record.asking
        state = _leave_reconciler(state, operation_id, effect_id, survivor=survivor)
    return attrs.evolve(state, epoch=record.epoch, boot_id=record.boot_id)


def _stop(
    state: State,
    operation_id: OperationId,
    call_id: CallId,
    record: DaemonStarted,
    alive: frozenset[AttemptKey],
) -> State:
    operation = state.operations[operation_id]
    call = operation.calls[call_id]
    if call.live is not None:
        dead = AttemptKey(call_id, call.live.number) not in alive
        return interrupt(state, operation, call, record, dead=dead)
    operation = attrs.evolve(operation, interrupted=True)
    return put_call(state, operation, attrs.evolve(call, queued=None))


def _leave_reconciler(
    state: State, operation_id: OperationId, effect_id: EffectId, *, survivor: bool
) -> State:
    """Nobody hears its answer any more. Dead, it is forgotten: it only asked. Not proven
    dead, it stays in the way of whatever its lineage would do next."""
    operation = state.operations[operation_id]
    effect = operation.effects[effect_id]
    assert effect.reconciling is not None
    left = attrs.evolve(effect.reconciling, survivor=True) if survivor else None
    state = put_effect(state, operation, attrs.evolve(effect, reconciling=left))
    if survivor:
        return state
    return attrs.evolve(state, reconciling=state.reconciling.delete(effect_id))
