"""`effectctl journal stats`: what a journal holds, in figures."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, cannot_go_on, place_of

if TYPE_CHECKING:
    from supervisor.cli.past import Past
    from supervisor.journal.stats import Stats

DAY_NS = 86_400_000_000_000


@click.command()
@DIRECTORY
@click.option(
    "--finished-days",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Count what finished so long ago: what a retention of so many days would free.",
)
@shared
@configured
def stats(given: Shared, source: Source, /, *, directory: Path | None, finished_days: int) -> int:
    """Records by kind, segment and day; operations by state; the oldest unknown effect.

    Bytes are of records, before framing. (Exit 2: damaged; what is proven was counted.)
    """
    from sandbox.census import boot_id
    from supervisor.cli.past import past
    from supervisor.cli.render_stats import stats as shown
    from supervisor.core.moment import Moment

    place = place_of(source, directory)
    seen = past(place, None, Moment(time.time_ns(), time.monotonic_ns(), boot_id()))
    document = _document(place, _count(place), seen, finished_days)
    given.emit(document, lambda look: shown(document, look))
    if seen.problem is None:
        return Exit.DONE
    return cannot_go_on(given, seen.problem, damaged=True)


def _count(place: Path) -> Stats:
    from supervisor.journal.errors import JournalCorrupt
    from supervisor.journal.read import entries
    from supervisor.journal.stats import Stats

    found = Stats()
    try:
        for entry in entries(place):
            found.add(entry)
    except JournalCorrupt:
        pass  # the fold met it as well, and tells
    return found


def _document(place: Path, found: Stats, seen: Past, finished_days: int) -> dict[str, Any]:
    from supervisor.core.standing import operation_state
    from supervisor.occupied import occupied

    states = Counter(operation_state(one).value for one in seen.state.operations.values())
    return {
        "directory": str(place),
        "position": seen.position,
        "bytes": occupied(place),
        "decisions": found.frames,
        "batches": found.batches,
        "operations": dict(states.most_common()),
        "oldest_unresolved": _oldest(seen),
        "retention": _freed(found, seen, finished_days),
        "kinds": [
            {"name": name, "count": found.records[name], "bytes": count}
            for name, count in found.bytes_by_kind.most_common()
        ],
        "segments": _sized(found.bytes_by_segment),
        "days": _sized(found.bytes_by_day),
        "largest": [
            {"bytes": one.size, "position": one.position, "kinds": one.kinds}
            for one in reversed(found.largest)
        ],
    }


def _sized(counts: Counter[str]) -> list[dict[str, Any]]:
    return [{"name": name, "bytes": count} for name, count in sorted(counts.items())]


def _oldest(seen: Past) -> dict[str, Any] | None:
    """The effect that has been unknown the longest."""
    from supervisor.api.wire import time_text
    from supervisor.core.lineage import unresolved

    waiting = [
        (effect.first_at, effect.effect_id)
        for operation in seen.state.operations.values()
        for effect in operation.effects.values()
        if unresolved(effect)
    ]
    if not waiting:
        return None
    at, effect_id = min(waiting)
    return {"effect_id": effect_id, "announced_at": time_text(at)}


def _freed(found: Stats, seen: Past, finished_days: int) -> dict[str, Any]:
    """What a retention of so many days lets go: counted, nothing is removed."""
    before = seen.now.wall - finished_days * DAY_NS
    gone = [
        one.operation_id
        for one in seen.state.operations.values()
        if one.finished and one.updated_at <= before
    ]
    return {
        "finished_days": finished_days,
        "operations": len(gone),
        "bytes": sum(found.bytes_by_operation[one] for one in gone),
    }
