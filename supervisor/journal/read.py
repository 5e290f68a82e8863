"""Read a journal without taking its lock: beside a live writer, on a copy, or damaged.

What is yielded is attested durable: a sealed segment by its successor, a frame of the
newest one by a later line's watermark. A writer that is alive may still add to the newest
segment while it is read; that is no damage. Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from supervisor.journal.chain import Emit, Walked, Walker, Wanted
from supervisor.journal.codec import Frame, Line, TooNew
from supervisor.journal.errors import JournalError, JournalIOError, JournalTooNew
from supervisor.journal.naming import segments_among, unbroken_since
from supervisor.journal.proven import vouched
from supervisor.journal.snapshot import Found, Snapshot, find, known, snapshots_among

Progress = Callable[[int, int], None]

_AGAIN_MS = 20
_TIMES = 5


class Entry(NamedTuple):
    """One line with its place; `attested` says whether a later line proves it durable."""

    file: str
    offset: int
    position: int
    durable: int
    payload: bytes
    digest: str
    attested: bool


def read_frames(directory: Path, *, unattested: bool = False) -> Iterator[Frame]:
    """Every decision, oldest first, up to the durable watermark.

    With `unattested` also those behind it: after a crash they count, since the next start
    will keep them; beside a live writer they may be undone by a power cut. Raises
    JournalCorrupt behind the last proven frame, JournalTooNew, JournalIOError.
    """
    for entry in entries(directory):
        if entry.payload.startswith(b"[") and (entry.attested or unattested):
            yield Frame(entry.position, entry.payload)


def snapshots(directory: Path) -> Iterator[Snapshot]:
    """The whole ones, newest first. Raises JournalTooNew and JournalIOError."""
    reader = Reader(directory, lambda _done, _total: None)
    for name in snapshots_among(reader.names):
        yield from reader.found([name]).whole


def vouched_for(directory: Path) -> Iterator[Snapshot]:
    """Those of them that the chain proves, whatever else is damaged. Raises JournalIOError."""
    reader = Reader(directory, lambda _done, _total: None)
    return vouched(reader.names, reader.load)


def begins_late(directory: Path) -> bool:
    """Whether its first segments are not here any more."""
    reader = Reader(directory, lambda _done, _total: None)
    return bool(reader.names) and unbroken_since(reader.names) > 1


def entries(
    directory: Path, progress: Progress = lambda _done, _total: None
) -> Generator[Entry, None, Walked]:
    """Every line, headers and marks included; then (as the return value) the whole."""
    reader = Reader(directory, progress)
    found: list[tuple[str, int, Line]] = []

    def emit(file: str, offset: int, line: Line) -> None:
        found.append((file, offset, line))

    def flush(durable: int) -> Iterator[Entry]:
        for file, offset, line in found:
            yield entry_of(file, offset, line, durable)
        found.clear()

    walker = reader.walker(emit)
    steps = walker.steps()
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            yield from flush(walker.tip.durable)
            walked: Walked = stop.value
            return walked
        except JournalError:
            yield from flush(walker.tip.durable)
            raise
        yield from flush(walker.tip.position)


def entry_of(file: str, offset: int, line: Line, durable: int) -> Entry:
    """A line with its place, given the highest watermark that is known."""
    attested = line.position <= durable or offset == 0
    return Entry(file, offset, line.position, line.durable, line.payload, line.digest, attested)


class Reader:
    """Reads whole files of one directory, and tells how far it is."""

    def __init__(self, directory: Path, progress: Progress) -> None:
        self._directory = directory
        self._progress = progress
        try:
            self.names = [entry.name for entry in directory.iterdir()]
            sizes = [(directory / n).stat().st_size for n in self.names if n.endswith(".jnl")]
        except OSError as error:
            raise JournalIOError(f"reading {directory}", error) from error
        self._total = sum(sizes)
        self._done = 0
        self._times = 0

    def walker(self, emit: Emit, wanted: Iterable[int] | None = None) -> Walker:
        """From the oldest segment from which on none is missing; a missing one that no
        whole snapshot covers raises JournalCorrupt. JournalTooNew as well. With `wanted` only
        the decisions at such positions are sure to be emitted, in half the time.

        Damaged snapshots are no damage to the chain, and become blemishes.
        """
        found = self.found(self.names)
        covered = max((one.point.number for one in found.whole), default=1)
        since = min(unbroken_since(self.names), covered)
        segments = segments_among(self.names, since)
        vouched = [known(one) for one in found.whole]
        looked_at = None if wanted is None else Wanted(wanted)
        walker = Walker(segments, self.load, emit, self.again, vouched, wanted=looked_at)
        walker.tip.blemishes += [f"{name}: {why}" for name, why in found.bad.items()]
        return walker

    def found(self, names: Iterable[str]) -> Found:
        """The snapshots among these files."""
        try:
            return find(names, self._read)
        except TooNew as error:
            raise JournalTooNew(snapshots_among(names)[0], str(error)) from error

    def load(self, name: str) -> bytes:
        content = self._read(name)
        self._done += len(content)
        self._progress(self._done, max(self._total, self._done))
        return content

    def again(self, name: str) -> bytes | None:
        """The newest segment after a moment; None when it was looked at often enough."""
        self._times += 1
        if self._times > _TIMES:
            return None
        time.sleep(_AGAIN_MS / 1000)
        return self._read(name)

    def _read(self, name: str) -> bytes:
        try:
            return (self._directory / name).read_bytes()
        except OSError as error:
            raise JournalIOError(f"reading {self._directory / name}", error) from error
