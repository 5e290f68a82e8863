"""What a program is made of. A node's path names it: its id, or `group.branch.id`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

SCHEMA = "effectd-program-v1"
REJECT = "reject"


@attrs.frozen
class Bind:
    """A value made of earlier ones."""

    id: str
    expression: str


@attrs.frozen
class CallTool:
    """One call. `input` is a template; `timeout_ms` is at most the manifest's."""

    id: str
    handler: str
    input: Any
    timeout_ms: int | None = None


@attrs.frozen
class Approve:
    """A human decision, by one of `by`, within `expires_ms`; the choice `reject` stops."""

    id: str
    by: tuple[str, ...]
    expires_ms: int
    prompt: str
    choices: tuple[str, ...]


@attrs.frozen
class Parallel:
    """Branches that run beside one another."""

    id: str
    fail_fast: bool
    branches: Mapping[str, tuple[Bind | CallTool, ...]]


@attrs.frozen
class End:
    """`give` hands out the template's value; `stop` ends with a reason."""

    id: str
    gives: bool
    value: Any


Node = Bind | CallTool | Approve | Parallel | End


@attrs.frozen
class Program:
    nodes: tuple[Node, ...]

    def calls(self) -> Iterator[tuple[str, CallTool]]:
        """Every call with its path, in the order of the document."""
        for node in self.nodes:
            if isinstance(node, CallTool):
                yield node.id, node
            elif isinstance(node, Parallel):
                for name, branch in node.branches.items():
                    yield from (
                        (f"{node.id}.{name}.{one.id}", one)
                        for one in branch
                        if isinstance(one, CallTool)
                    )
