"""From a directory to a writer: read everything, judge the end, make it safe to append.

Nothing on disk is changed before every byte was read and judged. Order: the active
segment and the directory are synced (a writer that was only killed may have left written
bytes unsynced, and what is served must be durable), then the *disk* is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from supervisor.journal.chain import SegmentName, Tip, Walked, Walker, segments_among
from supervisor.journal.codec import Frame, Line
from supervisor.journal.errors import JournalIOError
from supervisor.journal.file import Os
from supervisor.journal.segments import (
    START,
    Point,
    Spare,
    Writer,
    keep_spares,
    make_spare,
)


class Opened(NamedTuple):
    """A journal that may be appended to."""

    writer: Writer
    spares: list[Spare]
    walked: Walked


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
    *,
    segment_bytes: int,
    align: int,
    watch: Callable[[], Watch | None] = lambda: None,
) -> Opened:
    """Every decision goes to `on_frame`, oldest first. Raises JournalError's subclasses."""
    try:
        names = os_.listdir(directory)
        segments = segments_among(names)
        _settle(os_, directory, segments)
        watching = watch()
        walked, newest = _walk(os_, directory, segments, on_frame, watching)
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
    except OSError as error:
        raise JournalIOError("opening the journal", error) from error
    return Opened(writer, spares, walked)


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
    on_frame: Callable[[Frame], None],
    watch: Watch | None,
) -> tuple[Walked, bytes]:
    newest = b""

    def emit(_name: str, _offset: int, line: Line) -> None:
        if watch is not None:
            watch.see(line)
        if line.payload.startswith(b"["):
            on_frame(Frame(line.position, line.payload))

    def load(name: str) -> bytes:
        nonlocal newest
        newest = os_.read_disk(directory, name)
        return newest

    return Walker(segments, load, emit).run(), newest


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
