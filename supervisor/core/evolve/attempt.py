"""The life of an attempt: one table, and what each record leaves behind."""

from __future__ import annotations

from typing import Any

from supervisor.core.changed import changed
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve.put import call_of, put_call, put_effect
from supervisor.core.ids import AttemptKey, OperationId
from supervisor.core.record import (
    AnnouncementRefused,
    AttemptEnded,
    AttemptInterrupted,
    AttemptReserved,
    AttemptStarted,
    DaemonStarted,
    DeathProven,
    EffectAnnounced,
    EffectAnswered,
    Outcome,
    Record,
    Settler,
)
from supervisor.core.state import Attempt, Call, Operation, Phase, Said, State

# Everything that moves an attempt. A record with no entry for the phase it meets is a
# bug or an altered journal, and either way we stop.
TRANSITIONS: dict[Phase, dict[type[Record], Phase]] = {
    Phase.RESERVED: {
        AttemptStarted: Phase.STARTED,
        AttemptEnded: Phase.ENDED,
        AttemptInterrupted: Phase.INTERRUPTED,
        DaemonStarted: Phase.INTERRUPTED,
    },
    Phase.STARTED: {
        EffectAnnounced: Phase.STARTED,
        EffectAnswered: Phase.STARTED,
        AnnouncementRefused: Phase.STARTED,
        AttemptEnded: Phase.ENDED,
        AttemptInterrupted: Phase.INTERRUPTED,
        DaemonStarted: Phase.INTERRUPTED,
    },
    Phase.ENDED: {},
    Phase.INTERRUPTED: {DeathProven: Phase.INTERRUPTED},
}


def move(call: Call, number: int, kind: type[Record], **changes: Any) -> Call:
    """The call with its attempt moved as TRANSITIONS says."""
    if not 0 <= number < len(call.attempts):
        raise IllegalTransition(f"{call.call_id} attempt {number} was never reserved")
    attempt = call.attempts[number]
    phase = TRANSITIONS[attempt.phase].get(kind)
    if phase is None:
        raise IllegalTransition(
            f"{kind.__name__} met {call.call_id} attempt {number} {attempt.phase.value}"
        )
    attempt = changed(attempt, phase=phase, **changes)
    attempts = (*call.attempts[:number], attempt, *call.attempts[number + 1 :])
    return changed(call, attempts=attempts)


def reserved(state: State, operation: Operation, record: AttemptReserved) -> State:
    call = call_of(operation, record.call_id)
    if record.attempt != len(call.attempts) or call.queued is None:
        raise IllegalTransition(
            f"{call.call_id} has {len(call.attempts)} attempts and is "
            f"{'not ' if call.queued is None else ''}queued: {record}"
        )
    attempt = Attempt(
        record.attempt, record.reservation_ms, record.relaunch, record.digest, record.at
    )
    call = changed(call, attempts=(*call.attempts, attempt), queued=None)
    budget = operation.budget.reserve(record.reservation_ms)
    return put_call(state, changed(operation, budget=budget), call)


def started(state: State, operation: Operation, record: AttemptStarted) -> State:
    call = move(
        call_of(operation, record.call_id),
        record.attempt,
        AttemptStarted,
        identity=record.identity,
        layers=record.layers,
    )
    return put_call(state, operation, call)


def announcement_refused(state: State, operation: Operation, record: AnnouncementRefused) -> State:
    call = call_of(operation, record.call_id)
    call = move(call, record.attempt, AnnouncementRefused, code=record.code, detail=record.detail)
    return put_call(state, operation, call)


def ended(state: State, operation: Operation, record: AttemptEnded) -> State:
    call = move(
        call_of(operation, record.call_id),
        record.attempt,
        AttemptEnded,
        outcome=record.outcome,
        active_ms=record.active_ms,
        exit=record.exit,
        usage=record.usage,
        leftovers_killed=record.leftovers_killed,
        late=record.late,
        code=record.code,
        detail=record.detail,
        **_died(state, record),
    )
    if record.result is not None:
        call = changed(call, result=record.result)
    reservation_ms = call.attempts[record.attempt].reservation_ms
    budget = operation.budget.settle(reservation_ms, record.active_ms)
    interrupted = operation.interrupted or _cut_off(record)
    operation = changed(operation, budget=budget, interrupted=interrupted)
    state = put_call(state, operation, call)
    key = AttemptKey(record.call_id, record.attempt)
    return _end_tries(state, operation.operation_id, key, Said.UNKNOWN, None)


def _cut_off(record: AttemptEnded) -> bool:
    """A stop of the daemon, or a check that said no, leaves the operation to be resumed."""
    return record.code is not None and record.outcome in {Outcome.CANCELLED, Outcome.NOT_STARTED}


def _died(
    state: State, record: AttemptEnded | AttemptInterrupted | DaemonStarted | DeathProven
) -> dict[str, Any]:
    """Its tree is proven dead at this moment, on both clocks."""
    boot_id = record.boot_id if isinstance(record, DaemonStarted) else state.boot_id
    return {
        "dead": True,
        "ended_at": record.at,
        "ended_mono": record.mono,
        "ended_boot": boot_id,
    }


def interrupted(state: State, operation: Operation, record: AttemptInterrupted) -> State:
    call = call_of(operation, record.call_id)
    if call.live is None or call.live.number != record.attempt:
        raise IllegalTransition(f"is not the live attempt: {record}")
    return interrupt(state, operation, call, record, dead=record.dead)


def interrupt(
    state: State,
    operation: Operation,
    call: Call,
    record: DaemonStarted | AttemptInterrupted,
    *,
    dead: bool,
) -> State:
    """Nobody saw the attempt end: its leaves are unknown, its reservation stays charged."""
    live = call.live
    assert live is not None
    key = AttemptKey(call.call_id, live.number)
    # Without a durable start no code of the handler can have run.
    never_ran = live.phase is Phase.RESERVED
    outcome = Said.NOT_APPLIED if never_ran else Said.UNKNOWN
    settled_by = Settler.SUPERVISOR if never_ran else None
    death = _died(state, record) if dead else {}
    call = move(call, live.number, type(record), **death)
    state = put_call(state, changed(operation, interrupted=True), call)
    state = _end_tries(state, operation.operation_id, key, outcome, settled_by)
    if not dead:
        state = changed(state, undead=state.undead.set(key, operation.operation_id))
    return state


def _end_tries(
    state: State,
    operation_id: OperationId,
    key: AttemptKey,
    outcome: Said,
    settled_by: Settler | None,
) -> State:
    """Leaves that no confirmation answered, when the attempt is over."""
    operation = state.operations[operation_id]
    for effect in operation.lineage(operation.calls[key.call_id]):
        unanswered = effect.settle(
            lambda one: one.key == key and one.outcome is Said.ANNOUNCED,
            outcome=outcome,
            settled_by=settled_by,
        )
        if unanswered != effect:
            state = put_effect(state, state.operations[operation_id], unanswered)
    return state


def death_proven(state: State, operation: Operation, record: DeathProven) -> State:
    key = AttemptKey(record.call_id, record.attempt)
    if key not in state.undead:
        raise IllegalTransition(f"was not in doubt: {record}")
    call = call_of(operation, record.call_id)
    call = move(call, record.attempt, DeathProven, **_died(state, record))
    return changed(put_call(state, operation, call), undead=state.undead.delete(key))
