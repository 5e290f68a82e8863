"""A journal's state at one of its positions, as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.cli.documents import Document, number, part, texts
from supervisor.cli.look import Look, escape
from supervisor.cli.render_operations import operation, recovery, what
from supervisor.cli.text import Column, clock, plural, span, table

COLUMNS = (
    Column("OPERATION"),
    Column("STATE"),
    Column("WHAT", flexible=True),
    Column("UNKNOWN", right=True),
    Column("LEFT", right=True),
    Column("ALLOWED"),
)
# What is always possible until the end says nothing about what is needed.
_ALWAYS = frozenset({"cancel", "extend"})


def head(position: int, as_of: str | None, newest: str | None) -> str:
    """From where the state is seen."""
    said = f"As of position {position}, {clock(as_of)}"
    return f"{said} (its last record: {clock(newest)})" if newest != as_of and newest else said


def operation_list(items: Sequence[Document], look: Look) -> str:
    """One line an operation, newest first, and what its recovery would allow."""
    if not items:
        return "No operations."
    rows = [
        (
            str(one["operation_id"]),
            look.state(escape(one.get("state", "?"))),
            what(one),
            str(number(one, "effects_unknown") or "-"),
            span(number(part(one, "budget"), "remaining_ms")),
            escape(", ".join(allowed(part(one, "recovery"))) or "-"),
        )
        for one in items
    ]
    return f"{table(COLUMNS, rows, look)}\n\n{plural(len(items), 'operation')}"


def allowed(document: Document) -> list[str]:
    """The actions that would settle or continue it."""
    return [one for one in texts(document, "allowed_actions") if one not in _ALWAYS]


def whole(
    document: Document,
    calls: Sequence[Document],
    history: Sequence[Document],
    look: Look,
) -> str:
    """One operation, its timeline, and its recovery as it was."""
    shown = operation(document, calls, look, history=history, onward=False)
    projected = recovery(part(document, "recovery"), str(document["operation_id"]), look)
    return f"{shown}\n\nRecovery, with the handlers as they were:\n{projected}"
