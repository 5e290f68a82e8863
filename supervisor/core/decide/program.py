"""Decisions about programs: accepted, approved, expired. What comes next is `onward`'s."""

from __future__ import annotations

from supervisor.core.decide.message import begin
from supervisor.core.ids import OperationId
from supervisor.core.program_state import VERSION, Approval
from supervisor.core.projection import approval_barred
from supervisor.core.record import (
    ApprovalAnswered,
    ApprovalExpired,
    Ended,
    Kind,
    ProgramAccepted,
    ProgramEnded,
    Record,
)
from supervisor.core.state import State
from supervisor.core.step import Decision, refuse
from supervisor.core.step_programs import ApprovalAsked, ApprovalsTimePassed, ProgramSubmitted
from supervisor.program.document import REJECT


def submitted(state: State, event: ProgramSubmitted) -> Decision:
    begun = begin(state, event, Kind.PROGRAM)
    if isinstance(begun, Decision):
        return begun
    accepted = ProgramAccepted(
        event.now.wall,
        event.operation_id,
        event.document,
        event.input,
        event.terms,
        event.not_resumable,
        event.inputs,
        VERSION,
    )
    return Decision((*begun, accepted), operation_id=event.operation_id)


def approval_asked(state: State, event: ApprovalAsked) -> Decision:
    """One answer, in time, by whoever the shell found entitled."""
    operation = state.operations[event.operation_id]
    program = operation.program
    approval = program.approvals.get(event.node) if program is not None else None
    if approval is None:
        return refuse("NotFound", f"{event.operation_id} asks for no approval {event.node!r}")
    if not approval.pending:
        return _answered(approval, event)
    barred = approval_barred(operation, approval, event.now)
    if barred is not None and barred.code == "DecisionExpired":
        records = _expired(event.now.wall, event.operation_id, approval)
        return Decision(records, refusal=barred, outcome=True, operation_id=event.operation_id)
    if barred is not None:
        return Decision(refusal=barred)
    if event.choice not in approval.choices:
        detail = f"{event.choice!r} is no choice of {event.node!r}: {', '.join(approval.choices)}"
        return refuse("InvalidInput", detail, pointer="/choice")
    base = (event.now.wall, event.operation_id, event.node)
    records = (ApprovalAnswered(*base, event.choice, event.comment, event.by),)
    if event.choice == REJECT:
        records += (ProgramEnded(*base, Ended.STOPPED, f"{event.node} was rejected"),)
    return Decision(records, operation_id=event.operation_id)


def _answered(approval: Approval, event: ApprovalAsked) -> Decision:
    """The same answer by the same user again is what it was; there is no other."""
    if approval.expired:
        return refuse("DecisionExpired", f"approval {event.node!r} was not given in time")
    by = approval.answered_by
    assert by is not None
    given = (by.uid, approval.choice, approval.comment)
    if given == (event.by.uid, event.choice, event.comment):
        return Decision(operation_id=event.operation_id, repeated=True)
    detail = f"uid {by.uid} answered {approval.choice!r} already, and the first answer counts"
    return refuse("RequestConflict", detail, fix="effectctl operations show " + event.operation_id)


def _expired(wall: int, operation_id: OperationId, approval: Approval) -> tuple[Record, ...]:
    detail = f"approval {approval.node!r} was not given in time"
    return (
        ApprovalExpired(wall, operation_id, approval.node),
        ProgramEnded(
            wall, operation_id, approval.node, Ended.STOPPED, detail, "DecisionExpired", detail
        ),
    )


def approvals_time_passed(state: State, event: ApprovalsTimePassed) -> Decision:
    """One that nobody answered in time, a frame each; `repeated` says that none is left."""
    for operation_id, node in sorted(state.approvals.items()):
        program = state.operations[operation_id].program
        assert program is not None
        approval = program.approvals[node]
        if event.now.wall >= approval.expires_at:
            records = _expired(event.now.wall, operation_id, approval)
            return Decision(records, outcome=True, operation_id=operation_id)
    return Decision(repeated=True)
