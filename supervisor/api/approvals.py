"""Approvals: what is asked about them, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frozen import frozen
from supervisor.api.command import Command, Page, page_of
from supervisor.api.fields import Fields, Query
from supervisor.api.wire import time_text
from supervisor.core.program_state import Approval
from supervisor.core.state import Operation


@frozen
class ListApprovals(Command):
    page: Page


@frozen
class AnswerApproval(Command):
    operation_id: str
    node: str
    choice: str
    comment: str


def listed(_: Sequence[str], query: Query, __: Fields) -> Command:
    return ListApprovals(page_of(query))


def answer(path: Sequence[str], _: Query, fields: Fields) -> Command:
    comment = fields.text("comment", default="", most=4_096)
    return AnswerApproval(path[0], path[1], fields.text("choice", most=64), comment)


def approval_view(operation: Operation, approval: Approval) -> dict[str, Any]:
    by = approval.answered_by
    return {
        "operation_id": operation.operation_id,
        "occurrence": approval.node,
        "prompt": approval.prompt,
        "choices": list(approval.choices),
        "by": list(approval.by),
        "uid": operation.by.uid,
        "state": _state(operation, approval),
        "choice": approval.choice,
        "comment": approval.comment,
        "answered_by": by.uid if by is not None else None,
        "answered_at": time_text(approval.answered_at),
        "asked_at": time_text(approval.at),
        "expires_at": time_text(approval.expires_at),
    }


def _state(operation: Operation, approval: Approval) -> str:
    if approval.choice is not None:
        return "answered"
    if approval.expired:
        return "expired"
    return "cancelled" if operation.cancel_requested else "pending"
