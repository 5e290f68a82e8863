"""What a program is made of. A node's path names it: its id, or `group.branch.id`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from frozen import frozen

SCHEMA = "effectd-program-v1"
REJECT = "reject"


@frozen
class Bind:
    """A value made of earlier ones."""

    id: str
    expression: str


@frozen
class CallTool:
    """One call. `input` is a template; `timeout_ms` is at most the manifest's."""

    id: str
    handler: str
    input: Any
    timeout_ms: int | None = None


@frozen
class Approve:
    """A human decision, by one of `by`, within `expires_ms`; the choice `reject` stops."""

    id: str
    by: tuple[str, ...]
    expires_ms: int
    prompt: str
    choices: tuple[str, ...]


@frozen
class Parallel:
    """Branches that run beside one another."""

    id: str
    fail_fast: bool
    branches: Mapping[str, tuple[Bind | CallTool, ...]]


@frozen
class End:
    """`give` hands out the template's value; `stop` ends with a reason."""

    id: str
    gives: bool
    value: Any


Node = Bind | CallTool | Approve | Parallel | End


@frozen
class Place:
    """A call, with its node's path and its pointer in the document."""

    path: str
    pointer: str
    node: CallTool


@frozen
class Program:
    nodes: tuple[Node, ...]

    def calls(self) -> Iterator[Place]:
        """Every call, in the order of the document."""
        for number, node in enumerate(self.nodes):
            at = f"/nodes/{number}"
            if isinstance(node, CallTool):
                yield Place(node.id, f"{at}/call_tool", node)
            elif isinstance(node, Parallel):
                for name, branch in node.branches.items():
                    yield from _in_branch(f"{node.id}.{name}", f"{at}/parallel/branches", branch)

    def call_at(self, path: str) -> CallTool:
        """The call of the node with that path; there must be one."""
        return next(one.node for one in self.calls() if one.path == path)


def _in_branch(path: str, at: str, branch: tuple[Bind | CallTool, ...]) -> Iterator[Place]:
    name = path.partition(".")[2]
    for number, one in enumerate(branch):
        if isinstance(one, CallTool):
            yield Place(f"{path}.{one.id}", f"{at}/{name}/{number}/call_tool", one)
