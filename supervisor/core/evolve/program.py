"""Programs: accepted, their values and approvals, their end."""

from __future__ import annotations

from typing import Any

from supervisor.core.changed import changed
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve.put import no_approval, put
from supervisor.core.program_state import Approval, ProgramEnd, ProgramState
from supervisor.core.record import (
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalRequested,
    Kind,
    NodeBound,
    OperationRecord,
    ProgramAccepted,
    ProgramEnded,
)
from supervisor.core.state import Operation, State


def accepted(state: State, operation: Operation, record: ProgramAccepted) -> State:
    if operation.kind is not Kind.PROGRAM or operation.program is not None:
        raise IllegalTransition(f"is no program, or was accepted twice: {record}")
    program = ProgramState(
        record.document,
        record.input,
        record.terms,
        record.not_resumable,
        inputs=record.inputs,
        version=record.version,
    )
    return put(state, changed(operation, program=program))


def node_bound(state: State, operation: Operation, record: NodeBound) -> State:
    program = _of(operation, record)
    if record.node in program.bound:
        raise IllegalTransition(f"was bound before: {record}")
    return _put(state, operation, program, bound=program.bound.set(record.node, record.value))


def approval_requested(state: State, operation: Operation, record: ApprovalRequested) -> State:
    program = _of(operation, record)
    if program.pending is not None or record.node in program.approvals:
        raise IllegalTransition(f"one waits already, or this one did: {record}")
    approval = Approval(
        record.node, record.by, record.prompt, record.choices, record.at, record.expires_at
    )
    return _put_approval(state, operation, program, approval)


def approval_answered(state: State, operation: Operation, record: ApprovalAnswered) -> State:
    program = _of(operation, record)
    approval = changed(
        _pending(program, record),
        choice=record.choice,
        comment=record.comment,
        answered_by=record.by,
        answered_at=record.at,
    )
    return _put_approval(state, operation, program, approval)


def approval_expired(state: State, operation: Operation, record: ApprovalExpired) -> State:
    program = _of(operation, record)
    approval = changed(_pending(program, record), expired=True)
    return _put_approval(state, operation, program, approval)


def ended(state: State, operation: Operation, record: ProgramEnded) -> State:
    program = _of(operation, record)
    end = ProgramEnd(record.node, record.ended, record.value, record.code, record.detail)
    return _put(state, operation, program, end=end)


def _of(operation: Operation, record: OperationRecord) -> ProgramState:
    """The program, which has not ended."""
    program = operation.program
    if program is None or program.end is not None:
        raise IllegalTransition(f"is no program, or one that has ended: {record}")
    return program


def _pending(program: ProgramState, record: ApprovalAnswered | ApprovalExpired) -> Approval:
    approval = program.approvals.get(record.node)
    if approval is None or not approval.pending:
        raise IllegalTransition(f"does not wait for that: {record}")
    return approval


def _put(state: State, operation: Operation, program: ProgramState, **changes: Any) -> State:
    return put(state, changed(operation, program=changed(program, **changes)))


def _put_approval(
    state: State, operation: Operation, program: ProgramState, approval: Approval
) -> State:
    one = operation.operation_id
    state = _put(
        state, operation, program, approvals=program.approvals.set(approval.node, approval)
    )
    if approval.pending and program.known:
        return changed(state, approvals=state.approvals.set(one, approval.node))
    return no_approval(state, state.operations[one])
