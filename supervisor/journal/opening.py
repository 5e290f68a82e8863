"""From a directory to a writer: read everything, judge the end, make it safe to append.

Nothing on disk is changed before every byte was read and judged. Order: the active
segment and the directory are synced (a writer that was only killed may have left written
bytes unsynced, and what is served must be durable), then the *disk* is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from supervisor.journal.archive import set_aside
from supervisor.journal.chain import Tip, Walked, Walker, Wanted
from supervisor.journal.codec import Line, TooNew
from supervisor.journal.errors import JournalCorrupt, JournalIOError, JournalTooNew
from supervisor.journal.file import Os
from supervisor.journal.naming import SegmentName, segments_among
from supervisor.journal.proven import Following, OnFrame, OnSnapshot, show
from supervisor.journal.segments import (
    START,
    Point,
    Spare,
    Writer,
    keep_spares,
    make_spare,
)
from supervisor.journal.snapshot import BadSnapshot, Snapshot, known, parse, snapshots_among

QUARANTINE = "quarantine"
Parse = Callable[[str, bytes], Snapshot]


class Opened(NamedTuple):
    """A journal that may be appended to.

    `started_from` is the position of the snapshot that the replay began with, or 0;
    `refused` says of each snapshot that is in quarantine since what is wrong with it.
    """

    writer: Writer
    spares: list[Spare]
    walked: Walked
    started_from: int
    refused: dict[str, str]


class Watch(Protocol):
    """Whoever knows from elsewhere what the journal must show at some `positions`."""

    @property
    def positions(self) -> Iterable[int]: ...

    def see(self, line: Line) -> None:
        """Every line at such a position and others too, in order; and once more from further
        back, when a snapshot that was vouched for could not be read all the same."""

    def settle(self, tip: Tip) -> None:
        """At the end, with nothing changed on disk yet. Raises to refuse."""


def open_directory(
    os_: Os,
    directory: int,
    on_frame: OnFrame,
    on_snapshot: OnSnapshot | None = None,
    *,
    segment_bytes: int,
    align: int,
    watch: Callable[[], Watch | None] = lambda: None,
    parse: Parse = parse,
) -> Opened:
    """The newest whole snapshot goes to `on_snapshot`, then every decision behind it to
    `on_frame`, oldest first. Without `on_snapshot` all decisions must be there still. `parse` may
    know the newest snapshot already.

    Raises JournalError's subclasses. With JournalCorrupt both have had all that is proven, and
    nothing else.
    """
    try:
        replay = _Replay(os_, directory, on_frame, on_snapshot, parse)
        watching = watch()
        replay.run(watching)
        walked = replay.walked
        if watching is not None:
            watching.settle(walked.tip)
        agree = _cache_agrees(os_, directory, walked.segments, replay.newest)
        spares = keep_spares(os_, directory, replay.names, segment_bytes)
        writer = Writer(os_, directory, _point(walked), align=align)
        if walked.header is None or walked.tail.torn or not agree:
            spare = spares.pop(0) if spares else _spare(os_, directory, walked, segment_bytes)
            writer.rotate(spare, discarded=walked.tail.discarded)
        else:
            writer.go_on(walked.header, walked.front)
        _quarantine(os_, directory, replay.bad)
    except OSError as error:
        raise JournalIOError("opening the journal", error) from error
    return Opened(writer, spares, walked, replay.since, replay.bad)


class _Replay:
    """One directory, read and judged; nothing in it is changed."""

    def __init__(
        self,
        os_: Os,
        directory: int,
        on_frame: OnFrame,
        on_snapshot: OnSnapshot | None,
        parse: Parse,
    ) -> None:
        self._os, self._directory = os_, directory
        self._on_frame, self._on_snapshot = on_frame, on_snapshot
        self._parse = parse
        self.names = os_.listdir(directory)
        self.bad: dict[str, str] = {}
        self.newest = b""
        self.since = 0
        self.walked: Walked

    def run(self, watching: Watch | None) -> None:
        for found in self._candidates():
            try:
                self._run(found, watching)
            except BadSnapshot as error:
                assert found is not None, "only a snapshot is called that"
                self.bad[found.name] = str(error)
            except JournalCorrupt:
                if found is not None and self._on_snapshot is not None:
                    show(self.names, self._load, self._on_frame, self._on_snapshot)
                raise
            else:
                return

    def _candidates(self) -> Iterator[Snapshot | None]:
        """What the walk may begin with: the whole snapshots, newest first, then none."""
        for name in snapshots_among(self.names if self._on_snapshot is not None else ()):
            try:
                yield self._parse(name, self._load(name))
            except BadSnapshot as error:
                self.bad[name] = str(error)
            except TooNew as error:
                raise JournalTooNew(name, str(error)) from error
        yield None

    def _run(self, found: Snapshot | None, watching: Watch | None) -> None:
        following = Following(found, self._on_frame, self._on_snapshot or _no_snapshot)
        segments = _segments(self.names, 1 if found is None else found.point.number, self.bad)
        settle(self._os, self._directory, segments)

        def emit(_name: str, _offset: int, line: Line) -> None:
            if watching is not None:
                watching.see(line)
            following.see(line)

        since, vouching = (0, ()) if found is None else (found.point.position, (known(found),))
        wanted = Wanted(() if watching is None else watching.positions, since)
        try:
            # Up to the snapshot nothing is folded: each line is proven, and hardly any looked at.
            walker = Walker(segments, self._load, emit, known=vouching, wanted=wanted)
            self.walked = walker.run()
            following.release()
        except TooNew as error:  # the fold in it
            raise JournalTooNew(found.name if found else "", str(error)) from error
        self.since = since

    def _load(self, name: str) -> bytes:
        self.newest = self._os.read_disk(self._directory, name)
        return self.newest


def settle(os_: Os, directory: int, segments: list[SegmentName]) -> None:
    """Make durable what a writer that was killed may have left unsynced."""
    os_.fsync(directory)
    if segments:
        fd = os_.open(directory, segments[-1].name)
        try:
            os_.fsync(fd)
        finally:
            os_.close(fd)


def _no_snapshot(_position: int, _content: memoryview) -> None:
    """Never called: without a taker none is looked for."""


def _segments(names: list[str], since: int, bad: dict[str, str]) -> list[SegmentName]:
    """Those to walk. When some are missing, the snapshots that would have done without
    them are part of the report."""
    try:
        return segments_among(names, since)
    except JournalCorrupt as error:
        refused = "".join(f"; {name} is {why}" for name, why in bad.items())
        report = error.report
        raise JournalCorrupt(report._replace(after=report.after + refused)) from error


def _quarantine(os_: Os, directory: int, bad: dict[str, str]) -> None:
    """Last of all: with another way to start proven, they may be moved out of the way."""
    if not bad:
        return
    place = os_.subdirectory(directory, QUARANTINE)
    try:
        for name in bad:
            # Another one of that name is kept there: this one is in nobody's way here.
            with contextlib.suppress(FileExistsError):
                set_aside(os_, directory, place, name)
        os_.fsync(directory)
    finally:
        os_.close(place)


def _cache_agrees(os_: Os, directory: int, segments: list[SegmentName], newest: bytes) -> bool:
    """Whether the page cache shows the disk's bytes in the newest segment.

    After a failed sync it may hold a batch that the disk does not. Appending to such a
    page would write the stale rest of it behind the new batch.
    """
    if not segments:
        return True
    return os_.is_cached(directory, segments[-1].name, newest)


def _point(walked: Walked) -> Point:
    if walked.header is None:
        return START
    tip, name = walked.tip, walked.segments[-1].name
    return Point(walked.header.number, name, walked.end, tip.position, tip.digest)


def _spare(os_: Os, directory: int, walked: Walked, size: int) -> Spare:
    number = 0 if walked.header is None else walked.header.number
    return make_spare(os_, directory, number + 1, size)
