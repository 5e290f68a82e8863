"""What a report tells, read from a journal in one pass and folded as the daemon would."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.cli.facts import fact
from supervisor.cli.past import Told, newest_first, past, told
from supervisor.cli.talk import Document
from supervisor.core.moment import Moment
from supervisor.journal.errors import JournalCorrupt
from supervisor.journal.read import entries
from supervisor.journal.select import records_in

_STARTED = "daemon_started"


class Case(NamedTuple):
    """One operation: its documents, and its events with the restarts between them."""

    told: Told
    history: list[Document]


class Report(NamedTuple):
    """`first` and `last` are positions, `begun` and `ended` times as text.

    `problem` says where proof ends, None when the journal is intact.
    """

    directory: str
    first: int
    last: int
    begun: str | None
    ended: str | None
    head: str
    problem: Exception | None
    cases: list[Case]


def gather(directory: Path, wanted: frozenset[str] | None, now: Moment) -> Report:
    """The report of some operations (`None`: of all), newest first."""
    seen = past(directory, None, now)
    histories, summary = _histories(directory, seen.position)
    cases = [
        Case(told(seen, one), _with_restarts(histories, one.operation_id))
        for one in newest_first(seen.state)
        if wanted is None or one.operation_id in wanted
    ]
    return Report(str(directory), **summary, problem=seen.problem, cases=cases)


def facts(directory: Path, wanted: frozenset[str] | None) -> Iterable[Document]:
    """Every event, oldest first; of some operations, theirs and the daemon's starts."""
    for entry in entries(directory):
        for record in records_in(entry):
            about = record.get("operation_id")
            if wanted is None or about in wanted or about is None:
                yield fact(entry.position, record)


def _histories(directory: Path, last: int) -> tuple[dict[str | None, list[Document]], Any]:
    """Events by operation (those of none under None), and what the page's head says."""
    found: dict[str | None, list[Document]] = {}
    summary: dict[str, Any] = {"first": 0, "last": 0, "begun": None, "ended": None, "head": ""}
    try:
        for entry in entries(directory):
            if entry.position > last:
                break
            summary["head"] = entry.digest
            for record in records_in(entry):
                told_one = fact(entry.position, record)
                found.setdefault(told_one["operation_id"], []).append(told_one)
                summary["first"] = summary["first"] or entry.position
                summary["begun"] = summary["begun"] or told_one["at"]
                summary["last"], summary["ended"] = entry.position, told_one["at"]
    except JournalCorrupt:
        pass  # the fold met it as well, and tells
    return found, summary


def _with_restarts(
    histories: dict[str | None, list[Document]], operation_id: str
) -> list[Document]:
    """An operation's events, and the daemon's starts between its first and its last."""
    own = histories.get(operation_id, [])
    if not own:
        return []
    first, last = own[0]["position"], own[-1]["position"]
    # An operation that is open was interrupted by the first start behind its last event.
    starts = [one for one in histories.get(None, []) if one["type"] == _STARTED]
    after = next((one["position"] for one in starts if one["position"] > last), last)
    between = [one for one in starts if first < one["position"] <= after]
    return sorted([*own, *between], key=lambda one: int(one["position"]))
