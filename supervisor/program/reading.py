"""A document to a Program: every fault with its pointer, none after the first left out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from frozen import frozen
from supervisor.program import expression, template
from supervisor.program.document import (
    SCHEMA,
    Approve,
    Bind,
    CallTool,
    End,
    Node,
    Parallel,
    Program,
)
from supervisor.program.template import RAW, pointer

NODE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
NODES_MAX = 256
BRANCHES_MAX = 64
BY = re.compile(r"(group|user):[A-Za-z0-9_.@-]{1,64}|(uid|gid):[0-9]{1,10}")
EXPIRES_MAX_MS = 366 * 86_400_000
TIMEOUT_MAX_MS = 2**31
Names = tuple[str, ...]
# Documents whose programs are at hand: more than move at a time, and a bound on their memory.
KNOWN_MAX = 256
_known: dict[tuple[int, Names], tuple[Any, Program]] = {}
_WORDS = ("bind", "call_tool", "parallel", "approve", "give", "stop")
_INSIDE = ("bind", "call_tool")


@frozen
class Fault:
    pointer: str
    detail: str


def parse(value: Any, inputs: Names = ()) -> Program | tuple[Fault, ...]:
    """The program that this JSON value is, or everything that is wrong with it. `inputs` are the
    names of its raw inputs."""
    reader = _Reader(inputs)
    nodes = reader.document(value)
    return tuple(reader.faults) or Program(nodes)


def program_of(document: Any, inputs: Names = ()) -> Program:
    """The program of a document that was accepted once, and is one therefore.

    Read once for each document, not for each frame. It is known by which object it is, since
    nothing changes one; so the object is kept as well, and its id names no other.
    """
    key = (id(document), inputs)
    _, program = _known.pop(key, (None, None))
    if program is None:
        found = parse(document, inputs)
        assert isinstance(found, Program), found
        program = found
    if len(_known) >= KNOWN_MAX:
        del _known[next(iter(_known))]
    _known[key] = (document, program)  # the one that was asked for last stands last
    return program


class _Reader:
    def __init__(self, inputs: Names) -> None:
        self.faults: list[Fault] = []
        self._inputs = inputs
        self._count = 0

    # --- members ----------------------------------------------------------------------

    def _fault(self, at: str, detail: str) -> None:
        self.faults.append(Fault(at, detail))

    def _object(
        self, value: Any, at: str, needs: Sequence[str], may: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """The object's known members; each missing and each unknown one is a fault."""
        if not isinstance(value, dict):
            self._fault(at, "an object is expected here")
            return {}
        members = cast("dict[str, Any]", value)
        for name in needs:
            if name not in members:
                self._fault(at + pointer(name), f"{name!r} is missing")
        known = (*needs, *may)
        for name in members:
            if name not in known:
                self._fault(at + pointer(name), f"{name!r} is not known here{nearest(name, known)}")
        return {name: members[name] for name in known if name in members}

    def _take(
        self, members: Mapping[str, Any], name: str, at: str, good: Callable[[Any], bool], say: str
    ) -> Any:
        """A member of this shape; None where it is missing or another."""
        if name not in members:
            return None
        value = members[name]
        if not good(value):
            self._fault(at + pointer(name), f"{name!r} must be {say}")
            return None
        return value

    # --- nodes ------------------------------------------------------------------------

    def document(self, value: Any) -> tuple[Node, ...]:
        members = self._object(value, "", ("schema_version", "nodes"))
        self._take(members, "schema_version", "", lambda v: v == SCHEMA, repr(SCHEMA))
        nodes = self._take(members, "nodes", "", _is_list, "a list of 1 to 256 nodes")
        if nodes is None:
            return ()
        known = {"input", RAW} if self._inputs else {"input"}
        found = self._sequence(nodes, "/nodes", known, _WORDS)
        self._ends(nodes)
        if self._count > NODES_MAX:
            self._fault("/nodes", f"{self._count} nodes are more than {NODES_MAX}")
        return found

    def _ends(self, nodes: list[Any]) -> None:
        """The last node ends the program, and no other does."""
        for number, node in enumerate(nodes):
            ends = isinstance(node, dict) and ("give" in node or "stop" in node)
            last = number == len(nodes) - 1
            if ends and not last:
                self._fault(f"/nodes/{number}", "nothing can follow a node that ends the program")
            if last and not ends:
                self._fault(f"/nodes/{number}", "the last node must be a `give` or a `stop`")

    def _sequence(
        self, nodes: list[Any], at: str, known: set[str], words: Sequence[str]
    ) -> tuple[Any, ...]:
        found: list[Node] = []
        for number, value in enumerate(nodes):
            node = self._node(value, f"{at}/{number}", known, words)
            if node is not None:
                found.append(node)
                known.add(node.id)
        return tuple(found)

    def _node(self, value: Any, at: str, known: set[str], words: Sequence[str]) -> Node | None:
        self._count += 1
        word = self._word(value, at, words)
        if word is None:
            return None
        members = self._object(value, at, ("id", word))
        name = self._take(members, "id", at, _is_id, "a letter or _, then up to 63 of A-Za-z0-9_-")
        if name in known:
            self._fault(f"{at}/id", f"{name!r} is the name of something before it")
        return getattr(self, f"_{word}")(name or "", members.get(word), f"{at}/{word}", known)  # type: ignore[no-any-return]  # one reader a word

    def _word(self, value: Any, at: str, words: Sequence[str]) -> str | None:
        """Which kind of node it is; what may stand elsewhere says where."""
        if not isinstance(value, dict):
            self._fault(at, "an object is expected here")
            return None
        members = cast("dict[str, Any]", value)
        given = [name for name in members if name != "id"]
        fits = [name for name in given if name in words]
        if len(fits) == 1:
            return fits[0]
        if len(fits) > 1:
            self._fault(at, f"a node is one thing, and this is {' and '.join(fits)}")
        elif any(name in _WORDS for name in given):
            outside = next(name for name in given if name in _WORDS)
            self._fault(at + pointer(outside), f"{outside!r} cannot stand inside 'parallel'")
        else:
            unknown = given[0] if given else ""
            said = f"{unknown!r} is no kind of node" if unknown else "it says nothing to do"
            self._fault(at + pointer(*given[:1]), said + nearest(unknown, words))
        return None

    def _bind(self, name: str, value: Any, at: str, known: set[str]) -> Node:
        if not isinstance(value, str):
            self._fault(at, "'bind' must be a JMESPath expression")
            return Bind(name, "")
        self._expression(value, at, known)
        return Bind(name, value)

    def _call_tool(self, name: str, value: Any, at: str, known: set[str]) -> Node:
        members = self._object(value, at, ("handler", "input"), ("timeout_ms",))
        handler = self._take(members, "handler", at, _is_name, "a handler's name")
        timeout_ms = self._take(
            members, "timeout_ms", at, _whole(TIMEOUT_MAX_MS), "a number of ms above 0"
        )
        given = members.get("input")
        self._template(given, f"{at}/input", known, called=True)
        return CallTool(name, handler or "", given, timeout_ms)

    def _approve(self, name: str, value: Any, at: str, _: set[str]) -> Node:
        members = self._object(value, at, ("by", "expires_ms", "prompt"), ("choices",))
        by = self._take(
            members, "by", at, _texts(BY), "a list of 'group:NAME', 'user:NAME', 'gid:N', 'uid:N'"
        )
        expires = self._take(
            members, "expires_ms", at, _whole(EXPIRES_MAX_MS), "ms, at most 366 days"
        )
        prompt = self._take(members, "prompt", at, _is_prompt, "text of 1 to 4096 characters")
        choices = self._take(
            {"choices": ["approve", "reject"], **members},
            "choices",
            at,
            lambda v: _texts(NODE_ID)(v) and len(set(v)) == len(v) > 1,
            "a list of at least 2 different words",
        )
        return Approve(name, tuple(by or ()), expires or 1, prompt or "", tuple(choices or ()))

    def _parallel(self, name: str, value: Any, at: str, known: set[str]) -> Node:
        members = self._object(value, at, ("branches",), ("on_failure",))
        how = self._take(
            {"on_failure": "fail_fast", **members},
            "on_failure",
            at,
            lambda v: v in {"fail_fast", "collect"},
            "'fail_fast' or 'collect'",
        )
        branches: dict[str, Any] | None = self._take(
            members, "branches", at, _is_branches, f"an object of 1 to {BRANCHES_MAX} branches"
        )
        found: dict[str, tuple[Any, ...]] = {}
        for branch, nodes in (branches or {}).items():
            where = f"{at}/branches{pointer(branch)}"
            if not _is_id(branch):
                self._fault(where, "a branch is named by a letter or _, then up to 63 characters")
            if not _is_list(nodes):
                self._fault(where, "a branch is a list of nodes")
                continue
            found[branch] = self._sequence(nodes, where, {*known}, _INSIDE)
        return Parallel(name, how != "collect", found)

    def _give(self, name: str, value: Any, at: str, known: set[str]) -> Node:
        self._template(value, at, known)
        return End(name, True, value)

    def _stop(self, name: str, value: Any, at: str, known: set[str]) -> Node:
        members = self._object(value, at, ("reason",))
        self._template(members.get("reason"), f"{at}/reason", known)
        return End(name, False, members.get("reason"))

    # --- expressions ------------------------------------------------------------------

    def _template(self, value: Any, at: str, known: set[str], *, called: bool = False) -> None:
        for where, text in template.expressions(value, at):
            if not isinstance(text, str):
                self._fault(where, "'$' stands alone in its object and names an expression")
            else:
                self._expression(text, where, known, called=called)

    def _expression(self, text: str, at: str, known: set[str], *, called: bool = False) -> None:
        try:
            asked = expression.check(text)
        except expression.Faulty as faulty:
            self._fault(at, f"not a JMESPath expression that can be used: {faulty}")
            return
        for name in sorted(asked - known):
            said = f"nothing before it is called {name!r}{nearest(name, sorted(known))}"
            self._fault(at, "the message has no 'inputs'" if name == RAW else said)
        if RAW in asked and self._inputs:
            self._raw(text, asked, at, called=called)

    def _raw(self, text: str, asked: frozenset[str], at: str, *, called: bool) -> None:
        """Raw inputs go into a call alone, and nothing that is written down is made of them."""
        if not called:
            self._fault(
                at, f"only the input of a call may ask for {RAW!r}: they are never journaled"
            )
        if beside := sorted(asked - {RAW}):
            self._fault(at, f"an expression that asks for {RAW!r} cannot ask for {beside[0]!r} too")
        for name in sorted(expression.members(text, RAW) - set(self._inputs)):
            self._fault(at, f"{RAW!r} has no {name!r}{nearest(name, self._inputs)}")


def nearest(name: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; known: {', '.join(known)}"


def _is_list(value: Any) -> bool:
    items = cast("Sequence[Any]", value) if isinstance(value, list) else ()
    return 1 <= len(items) <= NODES_MAX


def _is_branches(value: Any) -> bool:
    return isinstance(value, dict) and 1 <= len(cast("dict[str, Any]", value)) <= BRANCHES_MAX


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and NODE_ID.fullmatch(value) is not None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 64


def _is_prompt(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 4_096


def _whole(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 1 <= value <= most


def _texts(shape: re.Pattern[str]) -> Callable[[Any], bool]:
    """A list of 1 to 64 texts of that shape."""

    def good(value: Any) -> bool:
        items = cast("Sequence[Any]", value) if isinstance(value, list) else ()
        fits = (isinstance(one, str) and shape.fullmatch(one) is not None for one in items)
        return 1 <= len(items) <= 64 and all(fits)  # as the text says

    return good
