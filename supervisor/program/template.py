"""JSON in which `{"$": EXPRESSION}` stands for a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from supervisor.program.expression import Faulty, Meter, evaluate

MARK = "$"


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


def filled(value: Any, scope: Mapping[str, Any], meter: Meter) -> Any:
    """The template's value over `scope`; raises Faulty."""
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if MARK in found:
            try:
                return evaluate(found[MARK], scope, meter)
            except Faulty as faulty:
                raise Faulty(f"{found[MARK]}: {faulty}", limit=faulty.limit) from None
        return {key: filled(inner, scope, meter) for key, inner in found.items()}
    if isinstance(value, list):
        return [filled(inner, scope, meter) for inner in cast("Sequence[Any]", value)]
    return value
