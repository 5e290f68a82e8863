"""A directory that begins with a snapshot: a long past, two snapshots, and what they cover gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import history
from supervisor.core.evolve import fold
from supervisor.core.state import State
from supervisor.core.whole import lines
from supervisor.journal import snapshot
from supervisor.journal.codec import Line
from supervisor.journal.file import REAL
from supervisor.journal.read import Reader
from supervisor.journal.records import decode
from supervisor.journal.segments import Point
from supervisor.journal.snapshot import Place

SEGMENT = 65_536


def aged(directory: Path, *, records: int = 600, cover: bool = True) -> list[State]:
    """Write it; the state after each position. Half of the decisions come behind the newest
    snapshot, a quarter between the two."""
    history.make(directory, records=records, live=2, kept=20, segment_bytes=SEGMENT)
    states, points, journal = [State()], [Point(0, "", 0, 0, "")], ""
    for name, line in _lines(directory):
        journal = journal or (line.digest[:32] if line.position == 1 else "")
        if line.payload.startswith(b"["):
            states.append(fold(states[-1], line.position, decode(line.payload)))
            points.append(Point(int(name[:8]), name, line.end, line.position, line.digest))
    fd = REAL.open_directory(directory, create=False)
    for at in (len(states) // 4, len(states) // 2):
        snapshot.write(REAL, fd, Place(points[at], journal), lines(states[at]))
    if cover:
        snapshot.let_go(REAL, fd, None)
    REAL.close(fd)
    return states


def _lines(directory: Path) -> Iterator[tuple[str, Line]]:
    found: list[tuple[str, Line]] = []
    reader = Reader(directory, lambda _done, _total: None)
    reader.walker(lambda name, _offset, line: found.append((name, line))).run()
    return iter(found)
