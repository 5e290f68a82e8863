"""One operation's timeline as SVG: attempts are bars, effects are marks, restarts are lines.

Whatever it shows stands in the table below it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from supervisor.cli.documents import Document, objects
from supervisor.cli.look import escape as spelled
from supervisor.cli.report.gather import Case
from supervisor.cli.text import clock, moment_ns

WIDTH, LEFT, RIGHT, ROW, TOP = 1000, 230, 30, 34, 30
_BAR = 16
_LABEL = 34
NS_PER_MS = 1_000_000

# What came of an effect, as a letter inside its mark: shape and letter, never colour alone.
MARKS = {"applied": "✓", "not_applied": "✗", "unknown": "?", "announced": "○"}
# The records that say something of an effect, and how its mark is to be read.
_SETTLING = frozenset({"effect_confirmed", "effect_resolved", "reconciler_ended"})


class Row(NamedTuple):
    """One line of the picture: its name, its shapes as SVG."""

    label: str
    shapes: list[str]


Place = Callable[[object], float]


def picture(case: Case) -> str:
    """The whole picture; nothing when no moment of it is known."""
    place = _scale(_moments(case))
    if place is None:
        return ""
    rows = [row for call in case.told.calls for row in _of_call(call, case, place)]
    height = TOP + ROW * max(1, len(rows)) + 24
    name = f"Timeline of {case.told.operation['operation_id']}; the table below tells the same"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{_text(name)}">',
        *_restarts(case, place, height),
        *(_row(row, TOP + ROW * number) for number, row in enumerate(rows)),
        *_axis(case, place, height),
        "</svg>",
    ]
    return "".join(parts)


def _moments(case: Case) -> list[int]:
    """Every time that is shown, in nanoseconds, in order."""
    stamps: list[object] = [one.get("at") for one in case.history]
    for call in case.told.calls:
        for attempt in objects(call, "attempts"):
            stamps += [attempt.get("started_at"), attempt.get("ended_at")]
    return sorted({ns for one in stamps if (ns := moment_ns(one)) is not None})


def _scale(moments: Sequence[int]) -> Place | None:
    """Times to x. A gap counts by its logarithm: an hour's wait leaves a second readable."""
    if not moments:
        return None
    reached = [0.0]
    for before, after in pairwise(moments):
        reached.append(reached[-1] + math.log2(2 + (after - before) // NS_PER_MS))
    factor = (WIDTH - LEFT - RIGHT) / (reached[-1] or 1.0)
    known = {ns: LEFT + x * factor for ns, x in zip(moments, reached, strict=True)}
    end = float(WIDTH - RIGHT)

    def place(stamp: object) -> float:
        ns = moment_ns(stamp)
        return end if ns is None else known.get(ns, end)

    return place


def _of_call(call: Document, case: Case, place: Place) -> list[Row]:
    rows = [_attempt(call, one, place) for one in objects(call, "attempts")]
    return rows + [_effect(one, case, place) for one in objects(call, "effects")]


def _attempt(call: Document, attempt: Document, place: Place) -> Row:
    outcome = str(attempt.get("outcome") or attempt.get("phase") or "?")
    start = place(attempt.get("started_at"))
    width = max(3.0, place(attempt.get("ended_at")) - start)
    said = f"attempt {attempt.get('attempt', '?')} {outcome}"
    bar = (
        f'<rect class="{_text(outcome)}" x="{start:.1f}" y="6" width="{width:.1f}" '
        f'height="{_BAR}"><title>{_text(said)}</title></rect>'
    )
    return Row(f"{said} · {call.get('handler', '?')}", [bar])


def _effect(effect: Document, case: Case, place: Place) -> Row:
    effect_id = effect.get("effect_id")
    marks = [_mark(effect.get("announced_at"), "announced", place)]
    marks += [
        _mark(one.get("at"), _came(one), place)
        for one in case.history
        if one.get("effect_id") == effect_id and one.get("type") in _SETTLING
    ]
    shown = f"{effect.get('name', '?')}: {effect.get('outcome', '?')}"
    by = effect.get("settled_by")
    return Row(f"{shown}, by {by}" if by else shown, marks)


def _came(event: Document) -> str:
    applied = event.get("applied")
    return "unknown" if applied is None else "applied" if applied else "not_applied"


def _mark(stamp: object, outcome: str, place: Place) -> str:
    x = place(stamp)
    said = f"{outcome}, {clock(stamp)}"
    return (
        f'<g><title>{_text(said)}</title><circle cx="{x:.1f}" cy="14" r="8"/>'
        f'<text x="{x:.1f}" y="18" text-anchor="middle">{MARKS[outcome]}</text></g>'
    )


def _row(row: Row, y: int) -> str:
    label = row.label if len(row.label) <= _LABEL else row.label[: _LABEL - 1] + "…"
    shapes = "".join(row.shapes)
    return (
        f'<g transform="translate(0 {y})"><text x="0" y="18">{_text(label)}'
        f"<title>{_text(row.label)}</title></text>"
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{ROW - 3}" y2="{ROW - 3}"/>{shapes}</g>'
    )


def _restarts(case: Case, place: Place, height: int) -> list[str]:
    return [
        f'<line class="restart" x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height - 18}"/>'
        f'<text class="soft" x="{x:.1f}" y="12" text-anchor="middle">restart</text>'
        for one in case.history
        if one.get("type") == "daemon_started"
        for x in (place(one.get("at")),)
    ]


def _axis(case: Case, place: Place, height: int) -> list[str]:
    """The first and the last time; the others stand in the table."""
    first, last = case.history[0].get("at"), case.history[-1].get("at")
    ends = [(first, "start"), (last, "end")] if first != last else [(first, "start")]
    return [
        f'<text class="soft" x="{place(stamp):.1f}" y="{height - 6}" text-anchor="{anchor}">'
        f"{_text(clock(stamp))}</text>"
        for stamp, anchor in ends
    ]


def _text(value: object) -> str:
    return escape(spelled(value))
