"""Effects as their handler tells them: announced, answered, confirmed, disputed."""

from __future__ import annotations

from supervisor.core.changed import changed
from supervisor.core.contract import Contract
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve.attempt import move
from supervisor.core.evolve.put import call_of, effect_of, put_call, put_effect
from supervisor.core.ids import AttemptKey
from supervisor.core.record import (
    ConfirmationDisputed,
    EffectAnnounced,
    EffectAnswered,
    EffectConfirmed,
    Settler,
)
from supervisor.core.state import UNSETTLED, Call, Effect, Operation, Said, State, Try


def announced(state: State, operation: Operation, record: EffectAnnounced) -> State:
    state, call = _take_ordinal(state, operation, record)
    operation = state.operations[operation.operation_id]
    lineage = operation.lineages.get(call.root, ())
    made = Try(record.call_id, record.attempt)
    if record.ordinal < len(lineage):
        known = _known(operation, call, record).moved()
        return put_effect(state, operation, changed(known, tries=(*known.tries, made)))
    if record.ordinal != len(lineage) or record.effect_id in state.effects:
        raise IllegalTransition(f"expected a new effect at ordinal {len(lineage)}: {record}")
    effect = Effect(
        effect_id=record.effect_id,
        ordinal=record.ordinal,
        declared=record.declared,
        request=record.request,
        request_digest=record.request_digest,
        handler_digest=record.handler_digest,
        first_at=record.at,
        first_mono=record.mono,
        boot_id=state.boot_id,
        tries=(made,),
        revision=1,
    )
    lineages = operation.lineages.set(call.root, (*lineage, record.effect_id))
    state = put_effect(state, changed(operation, lineages=lineages), effect)
    effects = state.loose_effects.set(record.effect_id, operation.operation_id)
    return changed(state, loose_effects=effects)


def answered(state: State, operation: Operation, record: EffectAnswered) -> State:
    state, call = _take_ordinal(state, operation, record)
    operation = state.operations[operation.operation_id]
    return put_effect(state, operation, _known(operation, call, record).moved())


def _take_ordinal(
    state: State, operation: Operation, record: EffectAnnounced | EffectAnswered
) -> tuple[State, Call]:
    """The attempt's next ordinal is used up; ordinals are contiguous from 0."""
    call = move(call_of(operation, record.call_id), record.attempt, type(record))
    if record.ordinal != call.attempts[record.attempt].announced:
        raise IllegalTransition(f"leaves a gap: {record}")
    call = move(call, record.attempt, type(record), announced=record.ordinal + 1)
    return put_call(state, operation, call), call


def _known(
    operation: Operation,
    call: Call,
    record: EffectAnnounced | EffectAnswered | EffectConfirmed | ConfirmationDisputed,
) -> Effect:
    """The effect at this ordinal of the lineage; it is never found by anything else."""
    lineage = operation.lineages.get(call.root, ())
    if not 0 <= record.ordinal < len(lineage) or lineage[record.ordinal] != record.effect_id:
        raise IllegalTransition(f"is another effect's ordinal: {record}")
    return effect_of(operation, record.effect_id)


def confirmed(state: State, operation: Operation, record: EffectConfirmed) -> State:
    effect = _known(operation, call_of(operation, record.call_id), record).moved()
    key = AttemptKey(record.call_id, record.attempt)
    one = next((t for t in effect.tries if t.key == key), None)
    if one is None:
        raise IllegalTransition(f"had no leave: {record}")
    if one.outcome in UNSETTLED:
        effect = _settled(effect, one, record)
    elif not (one.outcome is Said.APPLIED and record.applied and effect.result_lost):
        raise IllegalTransition(f"nothing to confirm: {record}")
    return put_effect(state, operation, effect.with_result(record.applied, record.result))


def _settled(effect: Effect, one: Try, record: EffectConfirmed) -> Effect:
    before = effect.tries[: effect.tries.index(one)]
    effect = effect.settle(
        lambda t: t is one,
        outcome=Said.APPLIED if record.applied else Said.NOT_APPLIED,
        settled_by=record.settled_by,
        reason=record.reason,
    )
    answers_for_key = record.settled_by is Settler.HANDLER and not record.applied
    if not (answers_for_key and effect.declared.contract is Contract.IDEMPOTENCY_KEY):
        return effect
    # The provider answered for this key, and so for the tries that used it before.
    return effect.settle(
        lambda t: t in before and t.outcome in UNSETTLED,
        outcome=Said.NOT_APPLIED,
        settled_by=Settler.CONTRACT,
    )


def disputed(state: State, operation: Operation, record: ConfirmationDisputed) -> State:
    known = _known(operation, call_of(operation, record.call_id), record).moved()
    return put_effect(state, operation, changed(known, disputes=known.disputes + 1))
