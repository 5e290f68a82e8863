"""A new epoch: whatever moved is interrupted, and nothing moves by itself any more."""

from __future__ import annotations

import attrs
from immutables import Map

from supervisor.core.evolve.attempt import interrupt
from supervisor.core.evolve.put import put_call, put_effect
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId
from supervisor.core.record import DaemonStarted
from supervisor.core.state import State


def daemon_started(state: State, record: DaemonStarted) -> State:
    alive = frozenset(AttemptKey(call_id, attempt) for call_id, attempt in record.alive)
    for call_id, operation_id in state.moving.items():
        state = _stop(state, operation_id, call_id, record, alive)
    for effect_id, operation_id in state.reconciling.items():
        state = _forget_reconciler(state, operation_id, effect_id)
    return attrs.evolve(
        state, epoch=record.epoch, boot_id=record.boot_id, reconciling=Map[EffectId, OperationId]()
    )


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


def _forget_reconciler(state: State, operation_id: OperationId, effect_id: EffectId) -> State:
    # A reconciler only asks, and one that a restart finds is ended before this record.
    operation = state.operations[operation_id]
    effect = attrs.evolve(operation.effects[effect_id], reconciling=None)
    return put_effect(state, operation, effect)
