"""Events as people read them: one line each, ids whole."""

from __future__ import annotations

from typing import Any

from supervisor.cli.documents import Document
from supervisor.cli.look import Look, escape
from supervisor.cli.text import clock, cut, json_text, wrapped

# Types that a person looks for when something went wrong.
LOUD = frozenset(
    {
        "attempt_interrupted",
        "announcement_refused",
        "call_refused",
        "confirmation_disputed",
        "daemon_started",
        "dispatch_refused_budget_exceeded",
    }
)
# Members with a place of their own on the line.
PLACED = frozenset({"position", "at", "type", "operation_id", "call_id", "effect_id"})
# What is long and not for a glance: `operations show` and `-o json` have it.
LONG = frozenset(
    {
        "by",
        "declared",
        "digest",
        "document",
        "handler_digest",
        "identity",
        "input",
        "layers",
        "mono",
        "request",
        "request_digest",
        "session_id",
        "terms",
        "usage",
        "value",
    }
)


def event(document: Document, look: Look) -> str:
    """Position, time, type, then the ids and the members that say something."""
    kind = escape(document.get("type", "?"))
    start = f"{document.get('position', '?'):>6}  {clock(document.get('at'))[:23]:<23}  "
    painted = look.paint(kind, "attention" if kind in LOUD else "strong")
    lines = [start + painted]
    more = members(document, look)
    if more:
        text = wrapped(" ".join(more), look.columns - 8)
        lines += [" " * 8 + look.paint(line, "quiet") for line in text.split("\n")]
    return "\n".join(lines)


def members(document: Document, look: Look, *, without: frozenset[str] = frozenset()) -> list[str]:
    """The ids of an event, then its members that say something, as `name=value`."""
    ids = [str(document[k]) for k in ("operation_id", "call_id", "effect_id") if document.get(k)]
    rest = [
        f"{escape(name)}={_value(value, look)}"
        for name, value in document.items()
        if name not in PLACED | LONG | without and value not in (None, "", [], {}, False)
    ]
    return ids + rest


def _value(value: Any, look: Look) -> str:
    if isinstance(value, str):
        return cut(escape(value), 60, look)
    return cut(json_text(value, pretty=False, ascii_only=look.ascii_only), 60, look)
