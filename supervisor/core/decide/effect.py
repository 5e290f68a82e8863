"""Decisions about effects while their handler lives: leave, answers, confirmations."""

from __future__ import annotations

from supervisor.core.contract import Contract, Verdict
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey
from supervisor.core.lineage import effect_verdict, supplies
from supervisor.core.record import (
    AnnouncementRefused,
    ConfirmationDisputed,
    DeclaredEffect,
    EffectAnnounced,
    EffectAnswered,
    EffectConfirmed,
)
from supervisor.core.state import UNSETTLED, Call, Effect, Operation, Said, State, Try
from supervisor.core.step import (
    Announced,
    AnswerApplied,
    Confirmed,
    Decision,
    GiveLeave,
    RefuseAnnouncement,
    SayRecorded,
    refuse,
)


def announced(state: State, event: Announced) -> Decision:
    """Leave, the recorded answer, or a refusal; always in the lineage's order."""
    operation = state.operation_of(event.call_id)
    call = operation.calls[event.call_id]
    attempt = call.attempts[event.attempt]
    if not attempt.live:
        return refuse("NotFound", f"{event.call_id} attempt {event.attempt} has ended")
    ordinal = attempt.announced
    lineage = operation.lineages.get(call.root, ())
    known = operation.effects[lineage[ordinal]] if ordinal < len(lineage) else None
    refusal = _refusal(operation, call, event, ordinal, known)
    if refusal is not None:
        return _refused(operation, event, refusal)
    if known is None:
        declared = call.terms.declared(event.name)
        assert declared is not None
        return _leave(operation, event, ordinal, declared, None)
    if known.outcome is Said.APPLIED and not _repeats(known):
        return _answer(operation, event, known)
    return _leave(operation, event, ordinal, known.declared, known)


def _repeats(known: Effect) -> bool:
    """An applied `none` effect whose result is gone is simply made again."""
    lost = known.result is None or not known.result.available
    return known.declared.contract is Contract.NONE and lost


def _refusal(
    operation: Operation, call: Call, event: Announced, ordinal: int, known: Effect | None
) -> Refusal | None:
    where = f"{event.call_id} attempt {event.attempt} ordinal {ordinal}"
    if event.closed is not None:
        return Refusal(event.closed, f"{where}: no leave is given any more")
    if operation.cancel_requested or call.stopped:
        what = "its continuation" if call.stopped else "the operation"
        return Refusal("OperationCancelled", f"{where}: {what} was ended")
    if ordinal >= call.terms.effects_max:
        return Refusal("LimitExceeded", f"{where}: effects_max is {call.terms.effects_max}")
    if known is not None:
        return _known_refusal(call, event, known, where)
    declared = call.terms.declared(event.name)
    if declared is None or declared.whole_call:
        return Refusal("UndeclaredEffect", f"{where}: {event.name!r} is not declared")
    if not declared.many and _announced_before(operation, call, event.name):
        return Refusal("UndeclaredEffect", f"{where}: {event.name!r} is not declared `many = true`")
    return None


def _announced_before(operation: Operation, call: Call, name: str) -> bool:
    return any(effect.declared.name == name for effect in operation.lineage(call))


def _known_refusal(call: Call, event: Announced, known: Effect, where: str) -> Refusal | None:
    """Correlation is exact, and what the table refuses gets no leave."""
    if known.declared.name != event.name:
        detail = f"{where}: announced {event.name!r}, was {known.declared.name!r}"
        return Refusal("EffectCorrelationMismatch", detail, effect_id=known.effect_id)
    declared = call.terms.declared(event.name)
    if declared is None or declared.contract is not known.declared.contract:
        detail = f"{where}: the contract was {known.declared.contract.value}"
        return Refusal("EffectCorrelationMismatch", detail, effect_id=known.effect_id)
    compared = known.declared.contract is not Contract.NONE
    if compared and known.request_digest != event.request_digest:
        detail = f"{where}: the request of {event.name!r} is another one"
        return Refusal("EffectCorrelationMismatch", detail, effect_id=known.effect_id)
    verdict = effect_verdict(known, call, event.now)
    if verdict.refuses and verdict is not Verdict.MISMATCH:
        return Refusal(verdict.value, f"{where}: {known.effect_id}", effect_id=known.effect_id)
    return None


def _refused(operation: Operation, event: Announced, refusal: Refusal) -> Decision:
    record = AnnouncementRefused(
        event.now.wall,
        operation.operation_id,
        event.call_id,
        event.attempt,
        event.name,
        refusal.code,
        refusal.detail,
    )
    ends = refusal.code == "LimitExceeded"
    return Decision((record,), (RefuseAnnouncement(refusal, ends),), refusal=refusal, outcome=True)


def _leave(
    operation: Operation,
    event: Announced,
    ordinal: int,
    declared: DeclaredEffect,
    known: Effect | None,
) -> Decision:
    call = operation.calls[event.call_id]
    effect_id = known.effect_id if known is not None else event.effect_id
    record = EffectAnnounced(
        at=event.now.wall,
        operation_id=operation.operation_id,
        call_id=event.call_id,
        attempt=event.attempt,
        ordinal=ordinal,
        effect_id=effect_id,
        declared=declared,
        request=event.request,
        request_digest=event.request_digest,
        handler_digest=call.attempts[event.attempt].digest,
        mono=event.now.mono,
    )
    return Decision((record,), (GiveLeave(ordinal, effect_id),))


def _answer(operation: Operation, event: Announced, known: Effect) -> Decision:
    assert known.result is not None
    record = EffectAnswered(
        event.now.wall,
        operation.operation_id,
        event.call_id,
        event.attempt,
        known.ordinal,
        known.effect_id,
    )
    return Decision((record,), (AnswerApplied(known.ordinal, known.result),), outcome=True)


# --- confirmations ------------------------------------------------------------------------


def confirmed(state: State, event: Confirmed) -> Decision:
    """The first answer counts; an equal one changes nothing, another is kept as evidence."""
    operation = state.operation_of(event.call_id)
    call = operation.calls[event.call_id]
    found = _try_of(operation, call, event)
    if found is None:
        detail = f"{event.call_id} attempt {event.attempt} has no leave at ordinal {event.ordinal}"
        return refuse("EffectCorrelationMismatch", detail)
    effect, one = found
    same = (one.outcome is Said.APPLIED) is event.applied
    if one.outcome not in UNSETTLED and same and _nothing_new(effect, event):
        return Decision((), (SayRecorded(event.ordinal),))
    # Once its end was read to the last byte and settled, what comes is evidence only.
    alive = not call.attempts[event.attempt].dead
    wanted = event.applied and supplies(effect, one, event.result)
    if alive and (one.outcome in UNSETTLED or wanted):
        return _confirm(operation, event, effect)
    return _dispute(operation, event, effect, one)


def _nothing_new(effect: Effect, event: Confirmed) -> bool:
    return not event.applied or event.result is None or effect.result == event.result


def _try_of(operation: Operation, call: Call, event: Confirmed) -> tuple[Effect, Try] | None:
    lineage = operation.lineages.get(call.root, ())
    if not 0 <= event.ordinal < len(lineage):
        return None
    effect = operation.effects[lineage[event.ordinal]]
    key = AttemptKey(event.call_id, event.attempt)
    one = next((t for t in effect.tries if t.key == key), None)
    return (effect, one) if one is not None else None


def _confirm(operation: Operation, event: Confirmed, effect: Effect) -> Decision:
    record = EffectConfirmed(
        at=event.now.wall,
        operation_id=operation.operation_id,
        call_id=event.call_id,
        attempt=event.attempt,
        ordinal=event.ordinal,
        effect_id=effect.effect_id,
        applied=event.applied,
        settled_by=event.settled_by,
        result=event.result if event.applied else None,
        reason=event.reason,
    )
    return Decision((record,), (SayRecorded(event.ordinal),), outcome=True)


def _dispute(operation: Operation, event: Confirmed, effect: Effect, one: Try) -> Decision:
    record = ConfirmationDisputed(
        event.now.wall,
        operation.operation_id,
        event.call_id,
        event.attempt,
        event.ordinal,
        effect.effect_id,
        event.applied,
        event.reason,
    )
    detail = f"{effect.effect_id} is recorded as {one.outcome.value}"
    refusal = Refusal("EffectCorrelationMismatch", detail, effect_id=effect.effect_id)
    return Decision((record,), (RefuseAnnouncement(refusal),), refusal=refusal, outcome=True)
