"""Calls: accepted, queued again, refused, restored."""

from __future__ import annotations

from supervisor.core.changed import changed
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import open as open_
from supervisor.core.evolve.put import call_of, put, put_call
from supervisor.core.record import (
    CallAccepted,
    CallQueued,
    CallRefused,
    CallRestored,
    DispatchRefusedBudgetExceeded,
    Relaunch,
)
from supervisor.core.state import Call, Operation, State


def accepted(state: State, operation: Operation, record: CallAccepted) -> State:
    if record.call_id in state.calls:
        raise IllegalTransition(f"accepted twice: {record}")
    root, relaunch = record.call_id, Relaunch.FIRST
    if record.retry_of is not None:
        retried = _retried(operation, record)
        root, relaunch = retried.root, Relaunch.RETRY
        state = put_call(state, operation, changed(retried, retried_by=record.call_id))
        operation = state.operations[operation.operation_id]
    call = Call(
        call_id=record.call_id,
        root=root,
        terms=record.terms,
        input=record.input,
        timeout_ms=record.timeout_ms,
        by=record.by,
        at=record.at,
        retry_of=record.retry_of,
        queued=relaunch,
        continuation=record.continuation,
        input_digest=record.input_digest,
        node=record.node,
    )
    operation = _at_its_node(operation, record)
    operation = changed(operation, call_order=(*operation.call_order, record.call_id))
    operation = open_.call_accepted(operation, call, record)
    state = put_call(state, operation, call)
    return changed(state, loose_calls=state.loose_calls.set(record.call_id, operation.operation_id))


def _at_its_node(operation: Operation, record: CallAccepted) -> Operation:
    if not record.node or record.retry_of is not None:
        return operation
    if operation.program is None or record.node in operation.program.calls:
        raise IllegalTransition(f"its node cannot call: {record}")
    calls = operation.program.calls.set(record.node, record.call_id)
    return changed(operation, program=changed(operation.program, calls=calls))


def _retried(operation: Operation, record: CallAccepted) -> Call:
    assert record.retry_of is not None
    call = call_of(operation, record.retry_of)
    if call.retried_by is not None or call.moves:
        raise IllegalTransition(f"{record.retry_of} cannot be retried: {record}")
    return call


def refused(state: State, operation: Operation, record: CallRefused) -> State:
    call = call_of(operation, record.call_id)
    if call.queued is None:
        raise IllegalTransition(f"was not queued: {record}")
    call = changed(call, refused=record.code, refused_detail=record.detail, queued=None)
    return put_call(state, operation, call)


def queued(state: State, operation: Operation, record: CallQueued) -> State:
    call = call_of(operation, record.call_id)
    if call.live is not None or call.queued is not None or call.retried_by is not None:
        raise IllegalTransition(f"runs, waits or is retried already: {record}")
    call = changed(call, queued=record.relaunch, refused=None, refused_detail="", stopped=False)
    return put_call(state, operation, call)


def restored(state: State, operation: Operation, record: CallRestored) -> State:
    call = call_of(operation, record.call_id)
    if call.live is not None or call.retried_by is not None:
        raise IllegalTransition(f"runs or is retried already: {record}")
    return put_call(state, operation, changed(call, restored=True, queued=None))


def budget_refused(
    state: State, operation: Operation, record: DispatchRefusedBudgetExceeded
) -> State:
    """An event for its readers; the refusal itself is the record beside it."""
    call_of(operation, record.call_id)
    return put(state, operation)
