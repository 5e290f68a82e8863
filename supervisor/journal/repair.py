"""Give up what a damaged journal lost: explicitly, offline, with a copy of what was found.

The proven prefix stays as it is, byte for byte. A new segment names its end as official and
says in a `repair` line who gave up which positions and why; a decision behind it makes
everything that was unfinished unknown. What stood behind the damage, intact or not, is
copied to `quarantine/` first, and is then no part of the journal any more.

Every state that a crash in here can leave is refused by a start as the damage was, and may
be repaired again: the file that the new segment replaces stays in its place, wrong, until
one rename puts the new one there. Files behind it may be gone by then: what they held is told
by the new segment, still prepared, to the next repair.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from supervisor.core.record import JournalRepaired
from supervisor.journal import lock
from supervisor.journal.chain import Walker
from supervisor.journal.codec import (
    FILLER,
    LENGTH_MAX,
    LINE_MIN,
    Frame,
    Header,
    Line,
    Previous,
    Repair,
    TooNew,
    aligned,
    encode,
    fitted,
    header_payload,
    later_lines,
    parse_header,
    parse_repair,
    repair_payload,
)
from supervisor.journal.errors import (
    Damage,
    JournalCorrupt,
    JournalError,
    JournalIOError,
    JournalTooNew,
)
from supervisor.journal.file import REAL, Os
from supervisor.journal.naming import SegmentName, segment_name, segments_among
from supervisor.journal.records import encode as encode_records
from supervisor.journal.segments import START, Point, Spare, make_spare, write_whole
from supervisor.journal.snapshot import Snapshot, find, known, snapshots_among

QUARANTINE = "quarantine"
SEGMENT_BYTES = 4096  # the new segment's size, when no file says how large they are
PAYLOAD_MAX = LENGTH_MAX - 512
_CHUNK = 1 << 20


class NotRepairable(JournalError):  # noqa: N818 - named as the journal's other errors are
    """This loss is not understood, or not the one that was accepted. Nothing was changed."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


class Loss(NamedTuple):
    """What a repair would give up.

    `first`..`last` are the positions known to have existed; `resume` is behind every one
    that can have existed. `files` are copied; all but the one that `point` ends in are then
    no part of the journal. `proven` and `beyond` are the decisions before and behind the
    damage that can be read; those behind are given up all the same. For files that a repair
    had put out of the way when it was cut off, its own decision is in `beyond`. A snapshot
    that it `began` with stands for the decisions up to its own. Sizes are in bytes.
    """

    damage: Damage
    first: int
    last: int
    resume: int
    point: Point
    align: int
    size: int
    files: tuple[SegmentName, ...]
    proven: tuple[Frame, ...]
    beyond: tuple[Frame, ...]
    discarded: int
    began: Snapshot | None = None


class Repaired(NamedTuple):
    """What was done: the new segment's name, and where the copies are."""

    segment: str
    kept: str


def examine(directory: Path, *, os_: Os = REAL) -> Loss | None:
    """What a repair would give up; None when nothing is damaged. Changes nothing.

    What a start would not read is not looked at. Raises JournalLocked, JournalTooNew,
    JournalIOError, and NotRepairable: also for damage before the newest snapshot's end.
    """
    with _held(os_, directory, "reading") as fd:
        return _examine(os_, fd)


def repair(directory: Path, act: JournalRepaired, *, os_: Os = REAL) -> Repaired:
    """Give up exactly the positions that `act` names.

    Raises as `examine` does. A JournalIOError may leave copies and a spare behind, and the
    journal damaged as it was.
    """
    if len(encode_records([act])) > PAYLOAD_MAX:
        raise NotRepairable("more was lost than one record can name", "Restore a backup.")
    with _held(os_, directory, "repairing") as fd:
        loss = _examine(os_, fd)
        if loss is None:
            raise NotRepairable("nothing is damaged", "Start the daemon.")
        if (act.first, act.last) != (loss.first, loss.last):
            raise NotRepairable(
                f"lost are {loss.first}..{loss.last}, and accepted {act.first}..{act.last}",
                f"Read what is lost, then pass --accept-loss {loss.first}..{loss.last}.",
            )
        return _repair(os_, fd, directory, loss, act)


@contextlib.contextmanager
def _held(os_: Os, directory: Path, doing: str) -> Generator[int]:
    """The directory's descriptor, locked; any OSError inside is a JournalIOError."""
    try:
        fd = os_.open_directory(directory, create=False)
        try:
            lock.take(os_, fd, directory, wait_ms=0)
            yield fd
        finally:
            os_.close(fd)
    except OSError as error:
        raise JournalIOError(f"{doing} {directory}", error) from error


# --- what is lost -------------------------------------------------------------------------


class _Prefix:
    """The proven lines, and where the last of them ends."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.header: Header | None = None
        self.point = START

    def emit(self, name: str, offset: int, line: Line) -> None:
        if offset == 0:
            self.header = parse_header(line.payload)
        assert self.header is not None, "a segment's first line is its header"
        self.point = Point(self.header.number, name, line.end, line.position, line.digest)
        if line.payload.startswith(b"["):
            self.frames.append(Frame(line.position, line.payload))


def _examine(os_: Os, fd: int) -> Loss | None:
    began = _snapshot(os_, fd)
    segments = _segments(os_, fd, 1 if began is None else began.point.number)
    contents: dict[str, bytes] = {}

    def load(name: str) -> bytes:
        contents[name] = os_.read_disk(fd, name)
        return contents[name]

    prefix = _Prefix()
    try:
        Walker(segments, load, prefix.emit, known=[known(began)] if began else ()).run()
    except JournalCorrupt as error:
        if began is not None and not _behind_it(error.report, prefix, began):
            raise NotRepairable(
                f"{error}; and {began.name} stands for what was before that",
                f"Move {began.name} out of the directory, then try again: an older snapshot, or "
                "the journal from its beginning, serves in its place.",
            ) from error
        touched = [s for s in segments if s.number >= prefix.point.number]
        found = {s: contents.get(s.name) or load(s.name) for s in touched}
        cut_off = _cut_off(os_, fd, prefix.point.position + 1)
        return _loss(error.report, prefix, found, cut_off)._replace(began=began)
    return None


class _CutOff(NamedTuple):
    """A repair of the same loss that was prepared and never put into its place."""

    last: int
    resume: int
    decision: Frame


def _cut_off(os_: Os, fd: int, first: int) -> list[_CutOff]:
    found: list[_CutOff] = []
    for name in os_.listdir(fd):
        lines = later_lines(os_.read_disk(fd, name), 0) if name.endswith(".spare") else []
        for line, decision in itertools.pairwise(lines):
            said = parse_repair(line.payload)
            if said is not None and said.first == first:
                frame = Frame(decision.position, decision.payload)
                found.append(_CutOff(said.last, line.position, frame))
    return found


def _snapshot(os_: Os, fd: int) -> Snapshot | None:
    """What a start would begin with."""
    names = os_.listdir(fd)
    try:
        found = find(names, lambda name: os_.read_disk(fd, name), most=1)
    except TooNew as error:
        raise JournalTooNew(snapshots_among(names)[0], str(error)) from error
    return found.whole[0] if found.whole else None


def _behind_it(damage: Damage, prefix: _Prefix, began: Snapshot) -> bool:
    """Whether the damage is in what was written after the snapshot."""
    return damage.file != began.name and prefix.point.position >= began.point.position


def _segments(os_: Os, fd: int, since: int) -> list[SegmentName]:
    """A file that is missing, doubled or foreign is nothing to give up: which files are this
    journal's is a person's to say."""
    try:
        return segments_among(os_.listdir(fd), since)
    except JournalCorrupt as error:
        raise NotRepairable(
            str(error), f"Put {error.report.file} right, from a backup, then try again."
        ) from error


def _loss(
    damage: Damage, prefix: _Prefix, found: dict[SegmentName, bytes], cut_off: list[_CutOff]
) -> Loss:
    point = prefix.point
    first = point.position + 1
    behind = [_behind(segment, content, point) for segment, content in found.items()]
    lines = [line for part in behind for line in later_lines(part, 0) if line.position >= first]
    known = (*(line.position for line in lines), *(one.last for one in cut_off))
    last = max([first, damage.last or 0, *known])
    size = max([SEGMENT_BYTES, *map(len, found.values())])
    return Loss(
        damage=damage,
        first=first,
        last=last,
        resume=max([_bound(first, last, size, found) + 1, *(one.resume for one in cut_off)]),
        point=point,
        align=0 if prefix.header is None else prefix.header.align,
        size=size,
        files=tuple(found),
        proven=tuple(prefix.frames),
        beyond=(*_decisions(lines), *(one.decision for one in cut_off)),
        discarded=len(behind[0].strip(FILLER)) if point.number else 0,
    )


def _decisions(lines: Iterable[Line]) -> Iterator[Frame]:
    return (Frame(a.position, a.payload) for a in lines if a.payload.startswith(b"["))


def _behind(segment: SegmentName, content: bytes, point: Point) -> bytes:
    return content[point.end :] if segment.number == point.number else content


def _bound(first: int, last: int, size: int, found: Iterable[SegmentName]) -> int:
    """No position behind this one can ever have been given: so many lines fit nowhere.

    A line that was acknowledged and is nowhere to be seen must not find its number taken.
    """
    begun = max([first, *(segment.first for segment in found)])
    return max(last, begun + size // LINE_MIN)


# --- giving it up -------------------------------------------------------------------------


def _repair(os_: Os, fd: int, directory: Path, loss: Loss, act: JournalRepaired) -> Repaired:
    kept = _keep(os_, fd, directory, loss)
    number, name = loss.point.number + 1, segment_name(loss.point.number + 1, loss.first)
    given_up = [one for one in loss.files if one.number >= number]
    decision = encode_records([act])
    size = max(loss.size, aligned(len(decision) + 4 * 4096, 4096))
    spare = _written(os_, fd, _content(loss, act, decision, kept, size), size)
    for one in reversed(given_up[1:]):
        os_.unlink(fd, one.name)
        os_.fsync(fd)  # newest first: a start never finds one missing in the middle
    if given_up and given_up[0].name != name:
        os_.rename(fd, given_up[0].name, name)
        os_.fsync(fd)
    os_.rename(fd, spare.name, name)
    os_.fsync(fd)
    return Repaired(name, kept)


def _keep(os_: Os, fd: int, directory: Path, loss: Loss) -> str:
    """Copy what is touched, durably; where, below the journal's directory."""
    above = os_.open_directory(directory / QUARANTINE, create=True)
    try:
        taken = set(os_.listdir(above))
    finally:
        os_.close(above)
    kept = next(name for n in itertools.count(1) if (name := f"{n:04}") not in taken)
    place = os_.open_directory(directory / QUARANTINE / kept, create=True)
    try:
        for one in loss.files:
            _copy(os_, place, one.name, os_.read_disk(fd, one.name))
        os_.fsync(place)
    finally:
        os_.close(place)
    return f"{QUARANTINE}/{kept}"


def _copy(os_: Os, place: int, name: str, content: bytes) -> None:
    fd = os_.open(place, name, create=True)
    try:
        for at in range(0, len(content), _CHUNK):
            write_whole(os_, fd, content[at : at + _CHUNK], at)
        os_.fsync(fd)
    finally:
        os_.close(fd)


def _content(loss: Loss, act: JournalRepaired, decision: bytes, kept: str, size: int) -> bytes:
    """The new segment's first three lines: header, repair, and the decision that follows."""
    point, align = loss.point, loss.align
    previous = None
    if point.number:
        previous = Previous(point.name, point.end, point.position, point.digest, loss.discarded)
    header = Header(point.number + 1, size, align, previous)
    made, digest = encode(point.position, point.position, point.digest, header_payload(header))
    done = bytearray(made)
    said = repair_payload(Repair(loss.first, loss.last, act.by.uid, act.reason, kept))
    for position, payload in ((loss.resume, said), (loss.resume + 1, decision)):
        done += FILLER * (aligned(len(done), align) - len(done))
        line, digest = fitted(position, point.position, digest, payload, len(done))
        done += line
    return bytes(done)


def _written(os_: Os, fd: int, content: bytes, size: int) -> Spare:
    """A spare with these bytes in it, durable, that no start has heard of yet."""
    numbers = [int(name[:8]) for name in os_.listdir(fd) if name[:8].isdecimal()]
    spare = make_spare(os_, fd, max(numbers) + 1, size)
    file = os_.open(fd, spare.name)
    try:
        write_whole(os_, file, content, 0)
        os_.fsync(file)
    finally:
        os_.close(file)
    return spare
