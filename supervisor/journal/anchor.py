"""Anchors: one line that a journal cannot take back, to be kept elsewhere.

    effectd-anchor 1 journal=ID position=N digest=SHA256 segment=FILE offset=N at=TIME
                     host=NAME check=CRC                                (in one line)

A chain proves everything before its end and nothing about the end. Whoever knows a
position's digest from another place also knows a cut-off tail, a roll-back and a whole
rewriting. By hand: `tail -c +$((OFFSET+1)) SEGMENT | head -n 1 | tr -d '\\n' | sha256sum`.

The line is found anywhere in a line of text, so a file of the system's log serves as it
is. `check` tells a mistyped or cut anchor from a journal that contradicts it. A journal's
identity is the first half of its first line's digest, which holds the moment and the
boot at which it was begun. Where the front of a journal is not at hand its snapshots have
it; else it is "unknown".

Standard library only, and no lock.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from supervisor.journal import durably
from supervisor.journal.chain import UNKNOWN, Tip
from supervisor.journal.codec import Line, aligned, parse_header
from supervisor.journal.codec import parse as chain_line
from supervisor.journal.errors import AnchorUnreadable, JournalIOError, NothingToAnchor
from supervisor.journal.read import Progress, Reader

FORMAT = 1
EXPORTED = "ANCHORS.jsonl"
# Of a first segment: its head, and a first line that says no more than when it was begun.
IDENTITY_BYTES = 1 << 16
_WORD = "effectd-anchor"
_BODY = re.compile(
    r"journal=([0-9a-f]{32}|unknown) position=([1-9][0-9]{0,18}) digest=([0-9a-f]{64})"
    r" segment=(\S+) offset=([0-9]{1,19}) at=(\S+) host=(\S+)"
)
_LINE = re.compile(rf"{_WORD} ([0-9]+) (.*?) check=([0-9a-f]{{8}})(?:\s|$)")


class Anchor(NamedTuple):
    """One line's place and digest, as it was at time `at` (UTC) on `host`."""

    journal: str
    position: int
    digest: str
    segment: str
    offset: int
    at: str
    host: str

    @property
    def text(self) -> str:
        body = " ".join(f"{name}={value}" for name, value in self._asdict().items())
        return f"{_WORD} {FORMAT} {body} check={crc32(body.encode()):08x}"


def parse(text: str) -> Anchor | None:
    """The anchor in a line of text; None when there is none. Raises ValueError for a bad one."""
    if f"{_WORD} " not in text:
        return None
    found = _LINE.search(text)
    if found is None:
        raise ValueError("it is cut short")
    version, body, check = found.groups()
    if int(version) != FORMAT:
        raise ValueError(f"its format {version} is newer than this version reads")
    members = _BODY.fullmatch(body)
    if members is None or crc32(body.encode()) != int(check, 16):
        raise ValueError("it was changed: its own check does not fit")
    journal, position, digest, segment, offset, at, host = members.groups()
    return Anchor(journal, int(position), digest, segment, int(offset), at, host)


def read_anchors(file: Path) -> list[Anchor]:
    """All anchors of a file, at least one. Raises AnchorUnreadable, JournalIOError."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise JournalIOError(f"reading {file}", error) from error
    anchors: list[Anchor] = []
    for number, line in enumerate(lines, 1):
        try:
            anchor = parse(line)
        except ValueError as error:
            raise AnchorUnreadable(f"{file}, line {number}: {error}") from None
        if anchor is not None:
            anchors.append(anchor)
    if not anchors:
        raise AnchorUnreadable(f"{file}: no anchor is in it")
    return anchors


class Sightings:
    """What one walk shows of chosen positions; bounded by their number, not the journal's.

    `first` is the position that the walk began behind: lines up to it were not seen.
    """

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self.first: int | None = None
        self._digests: dict[int, list[str]] = {position: [] for position in positions}
        self._decisions: dict[int, int] = {}

    def see(self, line: Line, decisions: int = 0) -> None:
        """In order, or in order once more from further back; `decisions` counts those up to this
        line. A header repeats a position."""
        position = line.position
        if self.first is None or position < self.first:
            self.first = position
        seen = self._digests.get(position)
        if seen is not None:
            seen.append(line.digest)
            self._decisions[position] = decisions

    def shows(self, position: int, digest: str) -> bool:
        return digest in self._digests.get(position, ())

    def stands(self, position: int) -> bool:
        """Whether any line has this position, which must be a chosen one."""
        return bool(self._digests[position])

    def decisions(self, position: int) -> int:
        """How many there were up to a position that was seen."""
        return self._decisions[position]


HOLDS, UNCHECKED = "holds", "not checked"
CUT_OFF, REWRITTEN, STRANGER = "cut off", "rewritten", "another journal"
GIVEN_UP = "given up"
CONTRADICTED = frozenset({CUT_OFF, REWRITTEN, STRANGER, GIVEN_UP})


class Judged(NamedTuple):
    """An anchor and what the journal makes of it; `why` is a sentence for people."""

    anchor: Anchor
    finding: str
    why: str


def judge(anchor: Anchor, seen: Sightings, tip: Tip, *, damaged: bool = False) -> Judged:
    """Whether the journal still has what the anchor saw."""
    place = f"position {anchor.position}, anchored {anchor.at} on {anchor.host}"
    if seen.shows(anchor.position, anchor.digest):
        return Judged(anchor, HOLDS, f"{place}: everything up to it is as it was")
    if damaged and anchor.position > tip.position:
        return Judged(anchor, UNCHECKED, f"{place}: it stands behind the damage")
    if UNKNOWN != tip.journal != anchor.journal != UNKNOWN:
        why = f"{place}: this is another journal, or this one begun anew"
        return Judged(anchor, STRANGER, why)
    if anchor.position > tip.position:
        lost = anchor.position - tip.position
        why = f"{place}: the journal ends {lost} before it; its tail was cut off or rolled back"
        return Judged(anchor, CUT_OFF, why)
    if seen.first is None or anchor.position <= seen.first:
        why = (
            f"{place}: its segment is not here any more (the journal begins behind position "
            f"{seen.first or 0}); only a snapshot's digest vouches for what was before"
        )
        return Judged(anchor, UNCHECKED, why)
    if not seen.stands(anchor.position):  # nothing but a repair leaves positions out
        why = f"{place}: nothing stands there any more; a repair gave it up"
        return Judged(anchor, GIVEN_UP, why)
    why = f"{place}: something else stands there; the history was rewritten up to it or before"
    return Judged(anchor, REWRITTEN, why)


class _Newest:
    """The last line that is proven durable: by a later one, or since it stands at `durable`
    or before. Keeps one batch of lines at most."""

    def __init__(self, durable: int) -> None:
        self._durable = durable
        self._waiting: deque[tuple[str, int, Line]] = deque()
        self.proven: tuple[str, int, Line] | None = None

    def see(self, file: str, offset: int, line: Line) -> None:
        if offset or self.proven is None:  # a header repeats the position before
            self._waiting.append((file, offset, line))
        durable = max(self._durable, line.durable)
        while self._waiting and self._waiting[0][2].position <= durable:
            self.proven = self._waiting.popleft()


def newest(
    directory: Path, progress: Progress = lambda _done, _total: None, *, durable: int = 0
) -> Anchor:
    """An anchor for the newest line that is proven durable, after proving all before it.

    Up to the position `durable` the caller knows it from elsewhere, as of a copy.
    Raises JournalCorrupt, JournalTooNew, JournalIOError, and NothingToAnchor.
    """
    reader, last = Reader(directory, progress), _Newest(durable)

    def emit(file: str, offset: int, line: Line) -> None:
        last.see(file, offset, line)

    tip = reader.walker(emit).run().tip
    if last.proven is None or last.proven[2].position == 0:
        raise NothingToAnchor(str(directory))
    file, offset, line = last.proven
    host = os.uname().nodename.replace(" ", "_") or "-"
    return Anchor(tip.journal, line.position, line.digest, file, offset, now(), host)


def identity_of(read: Callable[[int], bytes]) -> str:
    """The identity of the journal whose first segment is `read`: its first so many bytes, or all
    of it (-1) when its first decision is a long one."""
    known = identity_in(read(IDENTITY_BYTES))
    return known if known != UNKNOWN else identity_in(read(-1))


def identity_in(content: bytes) -> str:
    """The identity of the journal that these bytes of its first segment begin."""
    header = chain_line(content, 0, len(content))
    layout = None if header is None else parse_header(header.payload)
    if header is None or layout is None or header.position != 0:
        return UNKNOWN
    line = chain_line(content, aligned(header.end, layout.align), len(content))
    return UNKNOWN if line is None or line.position != 1 else line.digest[:32]


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def remember(directory: Path, anchor: Anchor, where: str) -> None:
    """Note in the journal's directory what was exported where: information, and no proof.

    Raises OSError, as for a copy that is read-only.
    """
    file = directory / EXPORTED
    new = not file.exists()
    note = {**anchor._asdict(), "exported_to": where}
    durably.append_line(file, json.dumps(note, sort_keys=True, separators=(",", ":")))
    if new and os.geteuid() == 0:
        owner = directory.stat()  # else the daemon's user could not copy it
        os.chown(file, owner.st_uid, owner.st_gid)
