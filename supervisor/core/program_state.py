"""What the records of a program add up to: values only."""

from __future__ import annotations

from typing import Any

import attrs
from immutables import Map

from frozen import frozen
from supervisor.core.ids import CallId
from supervisor.core.record import By, Ended, Terms

# Of program checkpoints: what the nodes of an accepted program mean, and how it goes on.
VERSION = 1


@frozen
class Approval:
    """A person's decision that a program waits for, or had. Times are wall time in ns."""

    node: str
    by: tuple[str, ...]
    prompt: str
    choices: tuple[str, ...]
    at: int
    expires_at: int
    choice: str | None = None
    comment: str = ""
    answered_by: By | None = None
    answered_at: int | None = None
    expired: bool = False

    @property
    def pending(self) -> bool:
        return self.choice is None and not self.expired


@frozen
class ProgramEnd:
    node: str
    ended: Ended
    value: Any
    code: str | None
    detail: str


@frozen
class ProgramState:
    """A program and what came of its nodes, by their paths."""

    document: Any
    input: Any
    terms: tuple[Terms, ...]
    not_resumable: tuple[str, ...]
    bound: Map[str, Any] = attrs.field(factory=Map[str, Any])
    # The first call of each node's lineage.
    calls: Map[str, CallId] = attrs.field(factory=Map[str, CallId])
    approvals: Map[str, Approval] = attrs.field(factory=Map[str, Approval])
    end: ProgramEnd | None = None
    # The names of its raw inputs, whose values are nowhere in the fold.
    inputs: tuple[str, ...] = ()
    version: int = 1

    @property
    def known(self) -> bool:
        """Whether this version of effectd may move it."""
        return self.version == VERSION

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why it cannot be resumed, each reason; none when it can."""
        if self.known:
            return self.not_resumable
        other = f"it goes by version {self.version} of programs, and this effectd by {VERSION}"
        return (other, *self.not_resumable)

    @property
    def pending(self) -> Approval | None:
        """The approval that it waits for: one at the most."""
        if not self.known:
            return None
        return next((one for one in self.approvals.values() if one.pending), None)
