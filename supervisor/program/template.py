"""JSON in which `{"$": EXPRESSION}` stands for a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from supervisor.program.expression import Faulty, Meter, check, evaluate

MARK = "$"
# The journal's encoder takes 254 levels, and the record around a value is some of them.
DEPTH_MAX = 200
# What stands for the message's raw inputs, which have their values only where a call is made.
RAW = "inputs"


def pointer(*parts: object) -> str:
    """A JSON pointer of these names and numbers."""
    return "".join("/" + str(one).replace("~", "~0").replace("/", "~1") for one in parts)


def expressions(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Every expression in the template, with its pointer; a mark beside other keys too."""
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if MARK in found:
            yield f"{at}/{MARK}", found[MARK] if len(found) == 1 else None
            return
        for key, inner in found.items():
            yield from expressions(inner, at + pointer(key))
    elif isinstance(value, list):
        for number, inner in enumerate(cast("Sequence[Any]", value)):
            yield from expressions(inner, f"{at}/{number}")


def filled(value: Any, scope: Mapping[str, Any], meter: Meter, *, raw: bool = False) -> Any:
    """The template's value over `scope`; raises Faulty. With `raw`, what asks for raw inputs
    stays as it is."""
    made = _filled(value, scope, meter, raw=raw)
    if too_deep(made):
        raise Faulty(f"its value is nested more than {DEPTH_MAX} deep", limit=True)
    return made


def too_deep(value: Any) -> bool:
    """Whether it is nested more than DEPTH_MAX deep."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("Mapping[str, Any]", value).values()
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def _filled(value: Any, scope: Mapping[str, Any], meter: Meter, *, raw: bool) -> Any:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if MARK in found:
            return found if raw and asks_raw(found[MARK]) else _value(found[MARK], scope, meter)
        return {key: _filled(inner, scope, meter, raw=raw) for key, inner in found.items()}
    if isinstance(value, list):
        return [_filled(inner, scope, meter, raw=raw) for inner in cast("Sequence[Any]", value)]
    return value


def _value(text: str, scope: Mapping[str, Any], meter: Meter) -> Any:
    try:
        return evaluate(text, scope, meter)
    except Faulty as faulty:
        raise Faulty(f"{text}: {faulty}", limit=faulty.limit) from None


def asks_raw(text: str) -> bool:
    return RAW in check(text)


def raw_values(value: Any, inputs: Any, at: str, meter: Meter) -> Iterator[tuple[str, Any]]:
    """Each place of the template that asks for raw inputs, with its value; raises Faulty."""
    for where, text in expressions(value, at):
        if asks_raw(text):
            yield where.removesuffix(f"/{MARK}"), _value(text, {RAW: inputs}, meter)


def completed(value: Any, values: Mapping[str, Any], at: str) -> Any:
    """`value`, which `filled` left with `raw`, with these values at their places.

    Only there: what looks like an expression elsewhere is what somebody said.
    """
    if at in values:
        return values[at]
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {key: completed(one, values, at + pointer(key)) for key, one in found.items()}
    if isinstance(value, list):
        items = cast("Sequence[Any]", value)
        return [completed(one, values, f"{at}/{number}") for number, one in enumerate(items)]
    return value
