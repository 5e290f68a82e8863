"""The only ways that the fold changes state; each keeps the indexes in step."""

from __future__ import annotations

from collections.abc import Iterable

from immutables import Map

from supervisor.core.changed import changed
from supervisor.core.counting import with_call, with_effect
from supervisor.core.errors import IllegalTransition
from supervisor.core.filed import Filed
from supervisor.core.ids import CallId, EffectId
from supervisor.core.operations import Operations
from supervisor.core.packing import card_in
from supervisor.core.record import Result
from supervisor.core.session_state import Session
from supervisor.core.state import Call, Effect, Operation, Said, State


def put(state: State, operation: Operation) -> State:
    if operation.operation_id not in state.operations.loose:
        state = _loosened(state, operation)
    return changed(state, operations=state.operations.set(operation.operation_id, operation))


def _loosened(state: State, operation: Operation) -> State:
    """One that is new, or was filed, and is found among the loose ones from here on."""
    one, filed = operation.operation_id, state.operations.filed
    numbers = state.loose_numbers.set(operation.serial, one)
    held = filed.get(one)
    if held is None:
        return changed(state, loose_numbers=numbers)
    card, place = card_in(held), filed.place_of(one)
    return changed(
        state,
        operations=Operations(state.operations.loose, filed.without(one)),
        loose_messages=state.loose_messages.set((card.session_id, card.request_id), one),
        loose_calls=state.loose_calls.update(dict.fromkeys(card.calls, one)),
        loose_effects=state.loose_effects.update(dict.fromkeys(card.effects, one)),
        loose_numbers=numbers,
        loose_finished=state.loose_finished.returned(one, place),
    )


def without_loose(state: State, kept: Iterable[Operation], filed: Filed) -> State:
    """The same state, when these are filed instead of loose."""
    operations, numbers = state.operations.loose.mutate(), state.loose_numbers.mutate()
    messages, line = state.loose_messages.mutate(), state.loose_finished
    calls, effects = state.loose_calls.mutate(), state.loose_effects.mutate()
    for one in kept:
        del operations[one.operation_id], numbers[one.serial]
        del messages[one.session_id, one.request_id]
        line = line.left(one.operation_id)
        for call_id in one.calls:
            del calls[call_id]
        for effect_id in one.effects:
            del effects[effect_id]
    return changed(
        state,
        operations=Operations(operations.finish(), filed),
        loose_messages=messages.finish(),
        loose_calls=calls.finish(),
        loose_effects=effects.finish(),
        loose_numbers=numbers.finish(),
        loose_finished=line,
    )


def put_session(state: State, session: Session) -> State:
    return changed(state, sessions=state.sessions.set(session.session_id, session))


def no_approval(state: State, operation: Operation) -> State:
    """Whatever approval it waited for: nobody is asked any more."""
    if operation.operation_id not in state.approvals:
        return state
    return changed(state, approvals=state.approvals.delete(operation.operation_id))


def put_call(state: State, operation: Operation, call: Call) -> State:
    """Store the call; `moving` holds those that move, and `blobs` counts what names each blob."""
    moving = state.moving
    if call.moves:
        moving = moving.set(call.call_id, operation.operation_id)
    elif call.call_id in moving:
        moving = moving.delete(call.call_id)
    before = operation.calls.get(call.call_id)
    blobs = recounted(state.blobs, before.result if before is not None else None, call.result)
    calls, tally = operation.calls.set(call.call_id, call), with_call(operation.tally, before, call)
    operation = changed(operation, calls=calls, tally=tally)
    return changed(put(state, operation), moving=moving, blobs=blobs)


def put_effect(state: State, operation: Operation, effect: Effect) -> State:
    """Store the effect; `leaves` counts the tries that have leave and no confirmation."""
    before = operation.effects.get(effect.effect_id)
    delta = _leaves(effect) - (_leaves(before) if before is not None else 0)
    blobs = recounted(state.blobs, before.result if before is not None else None, effect.result)
    effects = operation.effects.set(effect.effect_id, effect)
    tally = with_effect(operation.tally, before, effect)
    operation = changed(operation, effects=effects, tally=tally)
    return changed(put(state, operation), leaves=state.leaves + delta, blobs=blobs)


def recounted(blobs: Map[str, int], before: Result | None, after: Result | None) -> Map[str, int]:
    """How many results each blob is named by, when one result became another."""
    if before is after:
        return blobs
    if before is not None and before.blob is not None:
        blobs = without_one(blobs, before.blob.digest)
    if after is not None and after.blob is not None:
        blobs = blobs.set(after.blob.digest, blobs.get(after.blob.digest, 0) + 1)
    return blobs


def without_one(blobs: Map[str, int], digest: str) -> Map[str, int]:
    left = blobs[digest] - 1
    return blobs.set(digest, left) if left else blobs.delete(digest)


def _leaves(effect: Effect) -> int:
    return sum(one.outcome is Said.ANNOUNCED for one in effect.tries)


def call_of(operation: Operation, call_id: CallId) -> Call:
    call = operation.calls.get(call_id)
    if call is None:
        raise IllegalTransition(f"{call_id} is not a call of {operation.operation_id}")
    return call


def effect_of(operation: Operation, effect_id: EffectId) -> Effect:
    effect = operation.effects.get(effect_id)
    if effect is None:
        raise IllegalTransition(f"{effect_id} was never announced")
    return effect
