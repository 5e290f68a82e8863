"""Reading what came as JSON without trusting its shape. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, cast

Document = dict[str, Any]


def as_object(value: object) -> Optional[Document]:
    """The value when it is a JSON object."""
    return cast("Document", value) if isinstance(value, dict) else None


def objects(document: Mapping[str, Any], key: str) -> list[Document]:
    """The objects in the array under `key`; empty when there is none."""
    value = document.get(key)
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in map(as_object, found) if item is not None]


def strings(document: Mapping[str, Any], key: str) -> list[str]:
    """The strings in the array under `key`; empty when there is none."""
    value = document.get(key)
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in found if isinstance(item, str)]


def text(document: Mapping[str, Any], key: str) -> str:
    """The string under `key`; empty when there is none."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def count(document: Mapping[str, Any], key: str) -> int:
    """The number under `key`; 0 when there is none."""
    value = document.get(key)
    return value if isinstance(value, int) else 0
