"""What can happen to programs: inputs, as in `step`."""

from __future__ import annotations

from typing import Any

from frozen import frozen
from supervisor.core.ids import OperationId
from supervisor.core.record import By, Terms
from supervisor.core.step import Input, Message


@frozen(kw_only=True)
class ProgramSubmitted(Message):
    """A program that was found valid; `terms` of every handler that it can reach, and the names
    of its raw `inputs`."""

    document: Any
    input: Any
    terms: tuple[Terms, ...]
    not_resumable: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


@frozen
class ApprovalAsked(Input):
    """Somebody who is entitled to answers."""

    operation_id: OperationId
    node: str
    choice: str
    comment: str
    by: By


@frozen
class ApprovalsTimePassed(Input):
    """Was anything not answered in time? Asked again until nothing is left to do."""
