"""The facts of a program: what was asked, what came of its nodes, how it ended.

`node` is a node's path. What a call came to is in its call's own records.
"""

from __future__ import annotations

from typing import Any

from frozen import frozen
from supervisor.core.record.base import OperationRecord
from supervisor.core.record.values import By, Ended, Terms


@frozen
class ProgramAccepted(OperationRecord):
    """`terms` are those of every handler that it can reach; `not_resumable` says why not.
    `inputs` are the names of its raw inputs, whose values are in no record;
    `version` is that of program checkpoints."""

    document: Any
    input: Any
    terms: tuple[Terms, ...]
    not_resumable: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    version: int = 1


@frozen
class NodeBound(OperationRecord):
    """An expression was evaluated, for good."""

    node: str
    value: Any


@frozen
class ApprovalRequested(OperationRecord):
    """A person is asked; `expires_at` is wall time in ns, `by` who may answer."""

    node: str
    by: tuple[str, ...]
    prompt: str
    choices: tuple[str, ...]
    expires_at: int


@frozen
class ApprovalAnswered(OperationRecord):
    node: str
    choice: str
    comment: str
    by: By


@frozen
class ApprovalExpired(OperationRecord):
    node: str


@frozen
class ProgramEnded(OperationRecord):
    """`value` is what it gives, or the reason it stopped; `code` says why it could not go on."""

    node: str
    ended: Ended
    value: Any = None
    code: str | None = None
    detail: str = ""
