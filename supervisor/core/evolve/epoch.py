"""A new epoch: whatever moved is interrupted, and nothing moves by itself any more.

A repair: what was unfinished may have gone on in records that are lost.
"""

from __future__ import annotations

import attrs

from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import open as open_
from supervisor.core.evolve.attempt import interrupt
from supervisor.core.evolve.put import no_approval, put, put_call, put_effect
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId
from supervisor.core.record import DaemonStarted, JournalRepaired
from supervisor.core.state import Effect, Operation, Said, State


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
    state = open_.restarted(state, record)
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


def journal_repaired(state: State, record: JournalRepaired) -> State:
    """Whatever was unfinished may have announced, done and settled more than is known.

    A try known not to be applied may have been made again; it is unknown from here on.
    """
    if record.last < record.first:
        raise IllegalTransition(f"nothing was lost: {record}")
    for operation in state.operations.loose.values():
        if not operation.finished:
            state = _doubt(state, operation, (record.first, record.last))
    forgotten = state.forgotten
    for message in record.requests:
        forgotten = forgotten.set(message, record.first)
    return attrs.evolve(state, forgotten=forgotten)


def _doubt(state: State, operation: Operation, lost: tuple[int, ...]) -> State:
    # Who cancelled it before knew nothing of what is lost, and has to say so again.
    operation = attrs.evolve(operation, lost=lost, cancel_requested=False, cancel_reason="")
    # A person may have answered, and the program gone on, in what is lost.
    state = no_approval(put(state, operation), operation)
    for effect in operation.effects.values():
        state = put_effect(state, state.operations[operation.operation_id], _doubted(effect, lost))
    return state


def _doubted(effect: Effect, lost: tuple[int, ...]) -> Effect:
    reason = f"the records at positions {lost[0]}..{lost[1]} are lost"
    known = effect.settle(
        lambda one: one.outcome is Said.NOT_APPLIED,
        outcome=Said.UNKNOWN,
        settled_by=None,
        reason=reason,
    )
    return known.moved()
