"""Sessions and operations: accepted, and what was asked about them since."""

from __future__ import annotations

import attrs

from supervisor.core.budget import Budget
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import open as open_
from supervisor.core.evolve.put import no_approval, put, put_call, put_session
from supervisor.core.record import (
    ArtifactsAccepted,
    BudgetExtended,
    CancelRequested,
    Ending,
    OperationAccepted,
    ResumeAccepted,
    SessionCreated,
)
from supervisor.core.session_state import Session
from supervisor.core.state import Operation, State


def session_created(state: State, record: SessionCreated) -> State:
    if record.session_id in state.sessions:
        raise IllegalTransition(f"created twice: {record}")
    session = Session(record.session_id, record.request_id, record.by, record.at, record.labels)
    return put_session(state, session)


def accepted(state: State, record: OperationAccepted) -> State:
    message = (record.session_id, record.request_id)
    known = record.operation_id in state.operations or message in state.messages
    if known or state.tombstones.of(message) is not None:
        raise IllegalTransition(f"accepted twice: {record}")
    operation = Operation(
        operation_id=record.operation_id,
        serial=state.accepted,
        kind=record.kind,
        session_id=record.session_id,
        request_id=record.request_id,
        request_digest=record.request_digest,
        by=record.by,
        # Whoever was accepted later is not older: a clock may have been read before it waited.
        at=max(record.at, state.latest),
        budget=Budget(record.max_run_ms),
        epoch=state.epoch,
        labels=record.labels,
    )
    unfinished = state.unfinished.get(record.session_id, 0) + 1
    session = state.sessions.get(record.session_id)
    if session is not None:
        state = put_session(
            state,
            attrs.evolve(
                session, message_at=max(session.message_at, record.at), kept=session.kept + 1
            ),
        )
    state = attrs.evolve(
        put(state, operation),
        accepted=state.accepted + 1,
        loose_messages=state.loose_messages.set(message, record.operation_id),
        unfinished=state.unfinished.set(record.session_id, unfinished),
    )
    return open_.accepted(state, record)


def cancel_requested(state: State, operation: Operation, record: CancelRequested) -> State:
    """Nothing that waits is started any more; what runs is ended by the shell."""
    operation = attrs.evolve(operation, cancel_requested=True, cancel_reason=record.reason)
    state = no_approval(put(state, operation), operation)
    state = open_.end_open(state, operation, record.at, Ending.CANCELLED)
    for call in operation.moving_calls():
        if call.queued is not None:
            known = state.operations[operation.operation_id]
            state = put_call(state, known, attrs.evolve(call, queued=None))
    return state


def resume_accepted(state: State, operation: Operation, record: ResumeAccepted) -> State:
    if record.resume_request_id in operation.resumes:
        raise IllegalTransition(f"accepted twice: {record}")
    resumes = operation.resumes.set(record.resume_request_id, (record.revision, record.digest))
    return put(state, attrs.evolve(operation, resumes=resumes, authority=record.by))


def budget_extended(state: State, operation: Operation, record: BudgetExtended) -> State:
    budget = operation.budget.extend(record.max_run_ms)
    return put(state, attrs.evolve(operation, budget=budget))


def artifacts_accepted(state: State, operation: Operation, record: ArtifactsAccepted) -> State:
    known = operation.accepted_digests.get(record.handler, frozenset())
    accepted_ = operation.accepted_digests.set(record.handler, known | {record.digest})
    return put(state, attrs.evolve(operation, accepted_digests=accepted_))
