"""From a directory to a writer: read everything, judge the end, make it safe to append.

Nothing on disk is changed before every byte was read and judged. Order: the active
segment and the directory are synced (a writer that was only killed may have left written
bytes unsynced, and what is served must be durable), then the *disk* is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from supervisor.journal.archive import set_aside
from supervisor.journal.chain import Known, SegmentName, Tip, Walked, Walker, segments_among
from supervisor.journal.codec import Frame, Line, TooNew
from supervisor.journal.errors import JournalCorrupt, JournalIOError, JournalTooNew
from supervisor.journal.file import Os
from supervisor.journal.segments import (
    START,
    Point,
    Spare,
    Writer,
    keep_spares,
    make_spare,
)
from supervisor.journal.snapshot import BadSnapshot, known, parse, snapshots_among

QUARANTINE = "quarantine"

OnSnapshot = Callable[[int, memoryview], None]
"""Takes a position and the content of a snapshot; raises BadSnapshot when it cannot read it."""


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
    """Whoever knows from elsewhere what the journal must show."""

    def see(self, line: Line) -> None:
        """Every line, in order."""

    def settle(self, tip: Tip) -> None:
        """At the end, with nothing changed on disk yet. Raises to refuse."""


def open_directory(
    os_: Os,
    directory: int,
    on_frame: Callable[[Frame], None],
    on_snapshot: OnSnapshot | None = None,
    *,
    segment_bytes: int,
    align: int,
    watch: Callable[[], Watch | None] = lambda: None,
) -> Opened:
    """The newest whole snapshot goes to `on_snapshot`, then every decision behind it to
    `on_frame`, oldest first. Without `on_snapshot` all decisions must be there still.

    Raises JournalError's subclasses.
    """
    try:
        names = os_.listdir(directory)
        bad: dict[str, str] = {}
        began = None if on_snapshot is None else _begun(os_, directory, names, on_snapshot, bad)
        since = 0 if began is None else began.position
        segments = _segments(names, began, bad)
        _settle(os_, directory, segments)
        watching = watch()

        def see(line: Line) -> None:
            if watching is not None:
                watching.see(line)
            if line.position > since and line.payload.startswith(b"["):
                on_frame(Frame(line.position, line.payload))

        walked, newest = _walk(os_, directory, segments, see, began)
        if watching is not None:
            watching.settle(walked.tip)
        agree = _cache_agrees(os_, directory, segments, newest)
        spares = keep_spares(os_, directory, names, segment_bytes)
        writer = Writer(os_, directory, _point(walked), align=align)
        if walked.header is None or walked.tail.torn or not agree:
            spare = spares.pop(0) if spares else _spare(os_, directory, walked, segment_bytes)
            writer.rotate(spare, discarded=walked.tail.discarded)
        else:
            writer.go_on(walked.header)
        _quarantine(os_, directory, bad)
    except OSError as error:
        raise JournalIOError("opening the journal", error) from error
    return Opened(writer, spares, walked, since, bad)


def _begun(
    os_: Os, directory: int, names: list[str], on_snapshot: OnSnapshot, bad: dict[str, str]
) -> Known | None:
    """The newest snapshot that is whole and reads back, once `on_snapshot` has taken it."""
    for name in snapshots_among(names):
        try:
            found = parse(name, os_.read_disk(directory, name))
            on_snapshot(found.point.position, found.content)
        except BadSnapshot as error:
            bad[name] = str(error)
        except TooNew as error:
            raise JournalTooNew(name, str(error)) from error
        else:
            return known(found)
    return None


def _segments(names: list[str], began: Known | None, bad: dict[str, str]) -> list[SegmentName]:
    """Those to walk. When some are missing, the snapshots that would have done without
    them are part of the report."""
    try:
        return segments_among(names, 1 if began is None else began.number)
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
            set_aside(os_, directory, place, name)
        os_.fsync(directory)
    finally:
        os_.close(place)


def _settle(os_: Os, directory: int, segments: list[SegmentName]) -> None:
    os_.fsync(directory)
    if segments:
        fd = os_.open(directory, segments[-1].name)
        try:
            os_.fsync(fd)
        finally:
            os_.close(fd)


def _walk(
    os_: Os,
    directory: int,
    segments: list[SegmentName],
    see: Callable[[Line], None],
    began: Known | None,
) -> tuple[Walked, bytes]:
    newest = b""

    def emit(_name: str, _offset: int, line: Line) -> None:
        see(line)

    def load(name: str) -> bytes:
        nonlocal newest
        newest = os_.read_disk(directory, name)
        return newest

    return Walker(segments, load, emit, known=() if began is None else (began,)).run(), newest


def _cache_agrees(os_: Os, directory: int, segments: list[SegmentName], newest: bytes) -> bool:
    """Whether the page cache shows the disk's bytes in the newest segment.

    After a failed sync it may hold a batch that the disk does not. Appending to such a
    page would write the stale rest of it behind the new batch.
    """
    if not segments:
        return True
    return os_.read_cached(directory, segments[-1].name, forget=True) == newest


def _point(walked: Walked) -> Point:
    if walked.header is None:
        return START
    tip, name = walked.tip, walked.segments[-1].name
    return Point(walked.header.number, name, walked.end, tip.position, tip.digest)


def _spare(os_: Os, directory: int, walked: Walked, size: int) -> Spare:
    number = 0 if walked.header is None else walked.header.number
    return make_spare(os_, directory, number + 1, size)
