"""Results whose blob is lost: unavailable once and for all."""

from __future__ import annotations

from supervisor.core.changed import changed
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve.put import call_of, effect_of, put_call, put_effect
from supervisor.core.record import CallResultLost, EffectResultLost, Result
from supervisor.core.state import Operation, State


def call_lost(state: State, operation: Operation, record: CallResultLost) -> State:
    call = call_of(operation, record.call_id)
    return put_call(state, operation, changed(call, result=_lost(call.result, record)))


def effect_lost(state: State, operation: Operation, record: EffectResultLost) -> State:
    effect = effect_of(operation, record.effect_id).moved()
    return put_effect(state, operation, changed(effect, result=_lost(effect.result, record)))


def _lost(result: Result | None, record: CallResultLost | EffectResultLost) -> Result:
    if result is None or result.blob is None:
        raise IllegalTransition(f"its result is in no blob: {record}")
    return Result(unavailable=record.reason)
