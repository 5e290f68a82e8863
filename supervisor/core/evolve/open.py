"""Open operations: their continuations, and the requests that their calls answered."""

from __future__ import annotations

import attrs

from supervisor.core.card import Card
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve.put import call_of, put, put_call
from supervisor.core.open_state import Asked, Continuation
from supervisor.core.record import (
    Answer,
    CallAccepted,
    ContinuationEnded,
    ContinuationOpened,
    DaemonStarted,
    Ending,
    Kind,
    OperationAccepted,
    RepeatAnswered,
)
from supervisor.core.state import Call, Effect, Operation, State


def accepted(state: State, record: OperationAccepted) -> State:
    """A newer open operation of its session: the one before is not continued any more."""
    if record.kind is not Kind.OPEN:
        return state
    one, before = record.operation_id, state.newest_open.get(record.session_id)
    if before is not None:
        state = put(state, attrs.evolve(state.operations[before], followed_by=one))
        state = put(state, attrs.evolve(state.operations[one], follows=before))
    return attrs.evolve(state, newest_open=state.newest_open.set(record.session_id, one))


def evicted(state: State, card: Card) -> State:
    """Nothing is the newest of its session any more, when this one was."""
    if state.newest_open.get(card.session_id) != card.operation_id:
        return state
    return attrs.evolve(state, newest_open=state.newest_open.delete(card.session_id))


def continuation_opened(state: State, operation: Operation, record: ContinuationOpened) -> State:
    n = len(operation.continuations)
    follows = record.after == (n - 1 if n else None)
    if operation.kind is not Kind.OPEN or operation.continuation or record.n != n or not follows:
        raise IllegalTransition(f"does not follow what is there: {record}")
    opened = Continuation(n, record.trigger, record.by, record.at, record.request_id)
    operation = attrs.evolve(
        operation, continuations=(*operation.continuations, opened), authority=record.by
    )
    state = put(state, operation)
    return attrs.evolve(state, continued=state.continued.set(operation.operation_id, n))


def continuation_ended(state: State, operation: Operation, record: ContinuationEnded) -> State:
    open_ = operation.continuation
    if open_ is None or open_.n != record.n:
        raise IllegalTransition(f"is not open: {record}")
    state = end_open(state, operation, record.at, record.reason, record.mono, state.boot_id)
    if record.reason is Ending.STOP:
        for call in operation.moving_calls():
            known = state.operations[operation.operation_id]
            state = put_call(state, known, attrs.evolve(call, queued=None, stopped=True))
    return state


def end_open(
    state: State, operation: Operation, at: int, reason: Ending, mono: int = 0, boot_id: str = ""
) -> State:
    """The open continuation, if there is one, is ended; the operation waits to be continued."""
    open_ = operation.continuation
    if open_ is None:
        return state
    ended = attrs.evolve(open_, reason=reason, ended_at=at, ended_mono=mono, ended_boot=boot_id)
    continuations = (*operation.continuations[:-1], ended)
    state = put(state, attrs.evolve(operation, continuations=continuations, interrupted=True))
    return attrs.evolve(state, continued=state.continued.delete(operation.operation_id))


def restarted(state: State, record: DaemonStarted) -> State:
    """A restart ends what was open, and opens nothing."""
    for operation_id in state.continued:
        state = end_open(state, state.operations[operation_id], record.at, Ending.RESTART)
    return state


# --- calls --------------------------------------------------------------------------------


def call_accepted(operation: Operation, call: Call, record: CallAccepted) -> Operation:
    """What an open operation remembers of a call: its request, and that it is a write."""
    if record.continuation is None:
        return operation
    _in_open(operation, record.continuation)
    operation = attrs.evolve(operation, authority=record.by)
    if record.request_id:
        asked = Asked(call.call_id, record.request_digest, record.continuation, Answer.FRESH)
        operation = _asked(operation, record.request_id, asked)
    if call.terms.read_only or call.retry_of is not None:
        return operation
    same = operation.writes.get(record.input_digest, ())
    writes = operation.writes.set(record.input_digest, (*same, call.call_id))
    return attrs.evolve(operation, writes=writes)


def repeat_answered(state: State, operation: Operation, record: RepeatAnswered) -> State:
    call = call_of(operation, record.call_id)
    _in_open(operation, record.continuation)
    asked = Asked(call.call_id, record.request_digest, record.continuation, record.answer)
    operation = _asked(operation, record.request_id, asked)
    operation = attrs.evolve(operation, authority=record.by)
    root = attrs.evolve(operation.calls[call.root], answered_in=record.continuation)
    return put_call(state, operation, root)


def _in_open(operation: Operation, n: int) -> None:
    open_ = operation.continuation
    if open_ is None or open_.n != n:
        raise IllegalTransition(f"continuation {n} of {operation.operation_id} is not open")


def settled(state: State, operation: Operation, effect: Effect) -> State:
    """What was found out from outside is news: whoever asks for that write hears it once."""
    root = operation.calls[operation.calls[effect.tries[0].call_id].root]
    if root.answered_in is None:
        return state
    return put_call(state, operation, attrs.evolve(root, answered_in=None))


def _asked(operation: Operation, request_id: str, asked: Asked) -> Operation:
    if request_id in operation.requests:
        raise IllegalTransition(f"request {request_id!r} is answered already")
    return attrs.evolve(operation, requests=operation.requests.set(request_id, asked))
