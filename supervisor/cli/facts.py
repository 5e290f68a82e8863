"""A journal's records as events: the API's shape, made of what is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.api.wire import time_text
from supervisor.cli.talk import Document


def fact(position: int, record: Mapping[str, Any]) -> Document:
    """One record as the daemon's event stream tells it."""
    rest = {name: value for name, value in record.items() if name not in {"k", "at"}}
    about = rest.pop("operation_id", None)
    head = {"position": position, "at": time_text(record.get("at")), "type": record.get("k", "?")}
    return {**head, "operation_id": about, **rest}
