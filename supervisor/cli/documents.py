"""Reading documents that another version may have written: what is not there is simply empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

Document = Mapping[str, Any]


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def part(document: Document, name: str) -> Document:
    """A member that is an object; an empty one when it is missing or something else."""
    value = document.get(name)
    return cast("Document", value) if isinstance(value, Mapping) else {}


def objects(document: Document, name: str) -> Sequence[Document]:
    """A member that is a list of objects; what is not an object is left out."""
    value = document.get(name)
    return [cast("Document", one) for one in _list(value) if isinstance(one, Mapping)]


def texts(document: Document, name: str) -> list[str]:
    """A member that is a list of plain values, as text."""
    value = document.get(name)
    return [str(one) for one in _list(value)]


def number(document: Document, name: str) -> int:
    """A member that is an integer; 0 when it is missing or something else."""
    value = document.get(name)
    return value if isinstance(value, int) else 0
