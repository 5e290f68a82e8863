"""Walk a journal's segments from the first line to the last, proving each link.

Every frame is proven by its checksum, its position and the digest of the line before; a
segment's official end by its successor's header. What stands behind an official end is
dead for ever: a torn segment is never cut and never appended to.

Standard library only, and no I/O: the caller brings names and a function that reads one.
"""

from __future__ import annotations

import dataclasses
import sys
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from supervisor.journal.codec import (
    FILLER,
    GENESIS,
    Header,
    Line,
    Made,
    Previous,
    Repair,
    Run,
    TooNew,
    aligned,
    is_filler,
    later_lines,
    line_of,
    own_kind,
    parse,
    parse_header,
    parse_made,
    parse_repair,
    run_of,
)
from supervisor.journal.errors import Damage, JournalCorrupt, JournalTooNew
from supervisor.journal.front import Fronts, Known
from supervisor.journal.naming import SegmentName
from supervisor.journal.rule import CLEAN, Tail, judge

if TYPE_CHECKING:
    from supervisor.journal.front import Hash

UNKNOWN = "unknown"


@dataclasses.dataclass(slots=True)
class Tip:
    """The last proven line, and counts up to it. `durable` is the highest watermark seen,
    `last_frame` the last decision's position; the walk began behind position `base`.
    `journal` is the journal's identity (see anchor.py).

    `blemishes` are damaged bytes that touch no frame: a terminator, or padding between
    batches. Nothing is lost, but the disk deserves suspicion. `repairs` are losses that an
    operator accepted.
    """

    position: int = 0
    digest: str = GENESIS
    durable: int = 0
    frames: int = 0
    last_frame: int = 0
    marks: int = 0
    bytes: int = 0
    base: int = 0
    journal: str = UNKNOWN
    blemishes: list[str] = dataclasses.field(default_factory=list[str])
    repairs: list[Repair] = dataclasses.field(default_factory=list[Repair])


class Walked(NamedTuple):
    """A whole journal: `end` is where the last segment's last line ends. `front` has taken in that
    segment up to there, where all of it is as it was written and somebody goes on from there."""

    segments: list[SegmentName]
    header: Header | None
    end: int
    tail: Tail
    tip: Tip
    front: Hash | None = None


Emit = Callable[[str, int, Line], None]


class Wanted(NamedTuple):
    """Decisions that somebody looks at: those at `positions`, and all from position `behind` on,
    if given: then what a known line's front proves to be as it was written is not proven again."""

    positions: Iterable[int]
    behind: int = sys.maxsize


class Walker:
    """One walk. After a raise, `tip` and what was emitted are the proven prefix."""

    def __init__(
        self,
        segments: Sequence[SegmentName],
        load: Callable[[str], bytes],
        emit: Emit,
        again: Callable[[str], bytes | None] = lambda _name: None,
        known: Sequence[Known] = (),
        *,
        tip: Tip | None = None,
        before: str | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """`again` may read the newest segment once more before its end is called rot:
        beside a live writer the first look may have met a batch half copied.

        Every `known` line of these segments must be met. Without any the first segment
        must be number 1; with one it may be a later one.

        With `wanted`, only these decisions are sure to be emitted: whoever does not look at the
        others is spared half the time.

        To go on from what an earlier walk proved, `tip` stands at the end of the segment
        named `before`, and `segments` begin with the one that follows it.
        """
        self._known = {(k.name, k.end): k for k in known}
        self._seals = {k.position: k for k in known}
        self._stops = None
        if wanted is not None:
            self._stops = sorted({*wanted.positions, *(k.position for k in known)})
        self._until = sys.maxsize if wanted is None else wanted.behind
        self._fronts = Fronts(known) if self._until < sys.maxsize else None
        self.tip = Tip() if tip is None else tip
        self._before = before
        self._again = again
        self._segments = list(segments)
        self._load = load
        self._emit = emit
        self._gap: int | None = None

    @property
    def segments(self) -> int:
        """How many there are to walk."""
        return len(self._segments)

    @property
    def unproven(self) -> frozenset[str]:
        """The sources of `known` lines that were not met, or are not what the chain recorded."""
        return frozenset(known.source for known in self._known.values())

    def run(self) -> Walked:
        """Raises JournalCorrupt, JournalTooNew, and whatever reading a segment raises."""
        steps = self.steps()
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                walked: Walked = stop.value
                return walked

    def steps(self) -> Generator[None, None, Walked]:
        """As `run`, with a pause after each segment that is known to be durable whole."""
        if not self._segments:
            return Walked([], None, 0, CLEAN, self.tip)
        buf = self._load(self._segments[0].name)
        header, end = self._enter(0, buf)
        for index in range(1, len(self._segments)):
            following = self._load(self._segments[index].name)
            self._sealed(index - 1, buf, end, header, following)
            yield
            buf = following
            header, end = self._enter(index, buf)
        end, tail = self._newest(len(self._segments) - 1, buf, end, header)
        self._all_met(end)
        front = None
        if self._fronts is not None and not self.tip.blemishes:
            front = self._fronts.up_to(self._segments[-1].name, buf, end)
        return Walked(self._segments, header, end, tail, self.tip, front)

    def _enter(self, index: int, buf: bytes) -> tuple[Header, int]:
        """Check the header against the name and the line before; its line starts the segment."""
        segment = self._segments[index]
        line = parse(buf, 0, len(buf))
        header = None if line is None else self._header(segment.name, line)
        if line is None or header is None:
            raise self._corrupt(segment.name, 0, None, "no intact segment header", buf)
        before = None if header.previous is None else header.previous.name
        named = self._segments[index - 1].name if index else self._before
        if index == 0 and header.previous is not None and self._known:
            self._begin(header.previous)
            named = before
        joined = line.position == self.tip.position and line.previous == self.tip.digest[:32]
        if not joined or before != named:
            raise self._corrupt(segment.name, 0, None, "does not continue the one before", buf)
        if (header.number, line.position + 1) != (segment.number, segment.first):
            raise self._corrupt(segment.name, 0, None, "its name is another segment's", buf)
        self._accept(segment.name, 0, line)
        return header, self._leapt(segment.name, buf, line.end)

    def _leapt(self, name: str, buf: bytes, start: int) -> int:
        """Accept what somebody waits for up to a known line, where all up to it is as it was
        written; where to go on. Otherwise that is `start`: the lines tell what is damaged."""
        known = None if self._fronts is None else self._fronts.proven(name, buf)
        if known is None:
            return start
        self.tip.journal = known.journal
        stops = self._stops or ()
        first, last = (bisect_right(stops, at) for at in (self.tip.position, known.position))
        for position in stops[first:last]:
            found = line_of(buf, position, known.end)
            if found is not None:
                self._accept(name, *found)
                start = found[1].end
        return start

    def _begin(self, previous: Previous) -> None:
        """What comes before was let go: the header says where it ended, and a known line
        further on vouches for the header."""
        self.tip.position = self.tip.durable = self.tip.base = previous.position
        self.tip.digest = previous.digest
        self.tip.journal = next(iter(self._known.values())).journal

    def _met(self, name: str, line: Line) -> None:
        known = self._known.get((name, line.end))
        if known is not None and (known.position, known.digest) != (line.position, line.digest):
            why = f"position {line.position} is not what {known.source} says was durable there"
            raise self._corrupt(name, line.end, None, why, b"")
        self._known.pop((name, line.end), None)

    def _made(self, made: Made) -> None:
        known = self._seals.get(made.position)
        if known is not None and known.seal != made.digest:
            self._known[known.name, known.end] = known
            why = "it is whole, and not the one that the journal recorded: it was replaced"
            rest = "everything else is intact up to here"
            raise JournalCorrupt(Damage(known.source, 0, self.tip.position, None, why, rest))

    def _all_met(self, end: int) -> None:
        for known in self._known.values():
            if known.number >= self._segments[0].number:
                why = f"{known.source} proves that position {known.position} had been durable"
                raise self._corrupt(self._segments[-1].name, end, known.position, why, b"")

    def _header(self, name: str, line: Line) -> Header | None:
        try:
            return parse_header(line.payload)
        except TooNew as error:
            raise JournalTooNew(name, str(error)) from error

    def _sealed(self, index: int, buf: bytes, start: int, header: Header, following: bytes) -> None:
        """Read up to the official end that the successor's header names."""
        name = self._segments[index].name
        line = parse(following, 0, len(following))
        successor = None if line is None else self._header(self._segments[index + 1].name, line)
        if successor is None or successor.previous is None:
            # Its name still says with which position it begins. What stands behind that in
            # this one was given up by a restart, and a damaged header does not bring it back.
            first = self._segments[index + 1].first
            end = self._scan(name, buf, start, len(buf), header.align, before=first)
            if self.tip.position + 1 < first:
                self._newest(index, buf, end, header)  # damage in here comes first
            return
        official = successor.previous
        end = self._scan(name, buf, start, official.end, header.align)
        reached = (end, self.tip.position, self.tip.digest)
        if reached != (official.end, official.position, official.digest):
            short = "the file was cut short" if len(buf) < official.end else "damaged frame"
            raise self._corrupt(name, end, official.position, short, buf)

    def _newest(self, index: int, buf: bytes, start: int, header: Header) -> tuple[int, Tail]:
        name = self._segments[index].name
        while True:
            start = self._scan(name, buf, start, len(buf), header.align)
            if len(buf) != header.size:
                why = f"the file has {len(buf)} bytes and was made with {header.size}"
                raise self._corrupt(name, start, None, why, buf)
            tail = judge(buf, start, self._gap, self.tip.position, header.align)
            if tail.rot is None:
                return start, tail
            fresh = self._again(name)
            if fresh is None:
                raise self._corrupt(name, start, None, tail.rot, buf)
            buf = fresh

    def _scan(  # where to begin, and the three ways to end
        self,
        name: str,
        buf: bytes,
        start: int,
        limit: int,
        align: int,
        *,
        before: int | None = None,
    ) -> int:
        """Accept lines while each continues the last; the end of the last one. `before` is
        the position that the next segment begins with, where its name alone tells."""
        tip = self.tip
        while True:
            if self._stops is not None and 0 < tip.position < self._until:
                start = self._skim(buf, start, limit, align, before)
            offset = start
            line = parse(buf, offset, limit)
            if line is None:
                offset = aligned(start, align)
                line = parse(buf, offset, limit) if offset > start else None
                if line is None:
                    return start
            position = line.position
            if position == before:
                return start
            joined = line.previous == tip.digest[:32]
            if not joined or (position != tip.position + 1 and not self._leaps(line)):
                why = f"position {position} does not continue position {tip.position}"
                raise self._corrupt(name, offset, None, why, buf)
            if offset > start and not is_filler(buf, start, offset):
                tip.blemishes.append(f"{name} at byte {start}: damaged padding, no frame touched")
            self._accept(name, offset, line)
            start = line.end

    def _skim(self, buf: bytes, start: int, limit: int, align: int, before: int | None) -> int:
        """Accept what simply follows, up to the next that somebody waits for; its end."""
        tip, stops = self.tip, self._stops or ()
        place = bisect_right(stops, tip.position)
        following = stops[place] if place < len(stops) else sys.maxsize
        most = min(following, self._until, before or sys.maxsize) - tip.position - 1
        run = run_of(
            buf, limit, align, Run(0, 0, tip.position, tip.durable, start, tip.digest), most
        )
        if run.lines:
            tip.frames += run.lines
            tip.bytes += run.bytes
            tip.position = tip.last_frame = run.position
            tip.durable, tip.digest = run.durable, run.digest
            self._gap = None
        return run.end

    def _leaps(self, line: Line) -> bool:
        """A repair goes on behind the positions that it gave up; nothing else leaves any out."""
        repair = parse_repair(line.payload)
        if repair is None:
            return False
        return repair.first == self.tip.position + 1 <= repair.last < line.position

    def _accept(self, name: str, offset: int, line: Line) -> None:
        tip = self.tip
        tip.position, tip.durable, _, payload, end, self._gap, tip.digest = line
        if tip.position == 1 and offset and tip.base == 0:
            tip.journal = tip.digest[:32]
        if payload.startswith(b"["):
            tip.frames += 1
            tip.last_frame = tip.position
        elif offset:
            self._own(name, offset, line)
        if self._gap is not None:
            tip.blemishes.append(f"{name} at byte {self._gap}: damaged line end, frame intact")
        tip.bytes += end - offset
        if self._known:
            self._met(name, line)
        self._emit(name, offset, line)

    def _own(self, name: str, offset: int, line: Line) -> None:
        try:
            kind = own_kind(line.payload)
        except TooNew as error:
            raise JournalTooNew(name, str(error)) from error
        repair = parse_repair(line.payload)
        if kind == "repair" and repair is not None:
            self.tip.repairs.append(repair)
        elif kind == "mark":
            self.tip.marks += 1
        elif kind == "snapshot" and (made := parse_made(line.payload)) is not None:
            self._made(made)
        else:
            raise self._corrupt(name, offset, None, f"a {kind} where none belongs", b"")

    def _corrupt(
        self, name: str, offset: int, last: int | None, why: str, buf: bytes
    ) -> JournalCorrupt:
        first = self.tip.position + 1
        offset += len(buf[offset:]) - len(buf[offset:].lstrip(FILLER))
        after = [line for line in later_lines(buf, offset + 1) if line.position >= first]
        if after:
            last = max(after[0].position - 1, first) if last is None else last
            text = f"intact behind it: positions {after[0].position}..{after[-1].position}"
        else:
            text = "nothing intact behind it in this file"
        rest = [s.name for s in self._segments if s.name > name]
        if rest:
            text += f", and {len(rest)} later segments"
        return JournalCorrupt(Damage(name, offset, first, last, why, text))
