"""JMESPath over JSON, bounded: which names it asks for, what it comes to, what that may cost."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import jmespath
import rfc8785
from jmespath import functions, visitor
from jmespath.exceptions import JMESPathError

if TYPE_CHECKING:
    from typing_extensions import override
else:  # typing.override is 3.12's

    def override(method: object) -> object:
        return method


EXPRESSION_MAX = 4_096
# Values that an evaluation may look at or make: a fifth of a second at the most.
COST_MAX = 1_000_000
DEPTH_MAX = 64
_TEXT_UNIT = 64
# The names of what is called: `&expression` is looked at where its elements are.
_ROOTED = {
    "subexpression": 1,
    "index_expression": 1,
    "pipe": 1,
    "projection": 1,
    "value_projection": 1,
    "filter_projection": 1,
}


class Faulty(Exception):  # noqa: N818  # says what it is of the expression, not of us
    """An expression that cannot be read, or cannot be evaluated; str() says why.

    `limit` says that it is right, and too much.
    """

    def __init__(self, detail: str, *, limit: bool = False) -> None:
        super().__init__(detail)
        self.limit = limit


class Meter:
    """What evaluations may still cost together."""

    def __init__(self, most: int = COST_MAX) -> None:
        self.left = most

    def pay(self, value: Any) -> None:
        """Count a value with everything in it; raises Faulty when it is too much."""
        self.left -= 1
        waiting = [(value, 0)]
        while waiting:
            one, depth = waiting.pop()
            if isinstance(one, str):
                self.left -= len(one) // _TEXT_UNIT
            elif isinstance(one, list | dict):
                found = cast("Mapping[str, Any] | Sequence[Any]", one)
                inside = found.values() if isinstance(found, Mapping) else found
                self.left -= len(found)
                if depth >= DEPTH_MAX:
                    raise Faulty(f"its value is nested more than {DEPTH_MAX} deep", limit=True)
                if self.left >= 0:
                    waiting.extend((inner, depth + 1) for inner in inside)
            if self.left < 0:
                raise Faulty("it looks at, or makes, too many values", limit=True)


class _Metered(visitor.TreeInterpreter):
    """The library's interpreter; every value on the way is paid for before it goes further."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    @override
    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        value: Any = super().visit(node, *args, **kwargs)
        self._meter.pay(value)
        return value


@functools.lru_cache(maxsize=1_024)
def _compiled(text: str) -> Any:
    if len(text) > EXPRESSION_MAX:
        raise Faulty(f"an expression has at most {EXPRESSION_MAX} characters")
    try:
        tree: Any = jmespath.compile(text).parsed
    except (JMESPathError, ValueError) as error:
        raise Faulty(f"{str(error).splitlines()[0]}") from None
    except RecursionError:
        raise Faulty("it is nested too deeply") from None
    if _depth(tree) > DEPTH_MAX:
        raise Faulty(f"it is nested more than {DEPTH_MAX} deep")
    _check_functions(tree)
    return tree


def _depth(tree: Any) -> int:
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for one in level for child in _children(one)]
    return depth


def _children(tree: Any) -> list[Any]:
    return [one for one in tree.get("children", ()) if isinstance(one, dict)]


def _check_functions(tree: Any) -> None:
    table: Mapping[str, Any] = functions.Functions.FUNCTION_TABLE
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if one["type"] == "function_expression" and one["value"] not in table:
            raise Faulty(f"there is no function {one['value']}()")
        waiting.extend(_children(one))


def check(text: str) -> frozenset[str]:
    """The names that the expression asks its whole scope for; raises Faulty."""
    return frozenset(_roots(_compiled(text)))


def _roots(tree: Any) -> Iterator[str]:
    kind, children = tree["type"], _children(tree)
    if kind == "field":
        yield tree["value"]
    elif kind != "expref":
        # What stands behind a dot, a bracket or a pipe is asked of what stands before it.
        for child in children[: _ROOTED.get(kind, len(children))]:
            yield from _roots(child)


def members(text: str, name: str) -> frozenset[str]:
    """The members of `name` that the expression asks it for outright, as `name.member`."""
    found: set[str] = set()
    waiting = [_compiled(text)]
    while waiting:
        one = waiting.pop()
        children = _children(one)
        waiting.extend(children)
        head = (children[0]["type"], children[0].get("value")) if children else None
        if one["type"] == "subexpression" and head == ("field", name):
            found |= set(_roots(children[1]))
    return frozenset(found)


def evaluate(text: str, scope: Mapping[str, Any], meter: Meter) -> Any:
    """The expression's value over `scope`, which I-JSON carries; raises Faulty."""
    tree = _compiled(text)
    try:
        value: Any = _Metered(meter).visit(tree, scope)
        rfc8785.dumps(value)
    except Faulty:
        raise
    except RecursionError:
        raise Faulty("its value is nested too deeply") from None
    except (JMESPathError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        # What the library raises of values that do not fit a function, and what JSON cannot say.
        raise Faulty(str(error).splitlines()[0] if str(error) else repr(error)) from None
    return value
