"""Where two JSON values differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast


def difference(first: Any, second: Any, pointer: str = "") -> str | None:
    """The JSON pointer of the first place where they differ; None when they are equal.

    1, true and 1.0 are different: the canonical bytes of a request decide.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        return _of_objects(cast("dict[str, Any]", first), cast("dict[str, Any]", second), pointer)
    if isinstance(first, list) and isinstance(second, list):
        return _of_lists(
            list(cast("Sequence[Any]", first)), list(cast("Sequence[Any]", second)), pointer
        )
    one, other = cast("object", first), cast("object", second)
    return None if type(one) is type(other) and one == other else pointer or "/"


def _of_objects(first: dict[str, Any], second: dict[str, Any], pointer: str) -> str | None:
    for key in sorted({*first, *second}):
        below = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
        if (key in first) != (key in second):
            return below
        found = difference(first[key], second[key], below)
        if found is not None:
            return found
    return None


def _of_lists(first: list[Any], second: list[Any], pointer: str) -> str | None:
    for i, (one, other) in enumerate(zip(first, second, strict=False)):
        found = difference(one, other, f"{pointer}/{i}")
        if found is not None:
            return found
    shorter = min(len(first), len(second))
    return None if len(first) == len(second) else f"{pointer}/{shorter}"
