r"""Frames as bytes: one decision, one line.

    <crc32:8 hex> <length:6 hex> <position> <durable> <previous:32 hex> <payload>\t.\n

* `length` counts the bytes from `position` to the payload's last; the checksum covers
  everything from `length` on, so a damaged length is seen as damage.
* `position` is global and gap-free from 1. A segment header has none of its own: it
  repeats the last one. Headers are durable before their segment has a name, so that a
  damaged header is always rot and never a tear.
* `durable` is the highest position whose sync had *returned* when the line was encoded.
* `previous` is the first half of the SHA-256 of the previous line without its newline
  (`sha256sum` on a line shows it); zeros before the first.
* A repair's line alone may leave positions out: it names the one that it continues, and
  its own lies behind every position that the lost lines can have had.
* A line's newline is never the first byte of a sector: where it would be, one space
  follows the payload (`fitted`). A newline that was written and one that never was look
  alike; so, when the line is intact, it is in a sector that was written.
* A decision's payload is a JSON array, the journal's own a JSON object. Neither has a
  raw TAB or newline, so a line that ends in TAB and dot was written to its end, and a
  newline anywhere else is filler: a byte that was never written.

Standard library only, and no I/O.
"""

from __future__ import annotations

import json
import re
from binascii import hexlify
from hashlib import sha256
from typing import Any, NamedTuple, cast
from zlib import crc32

FORMAT = 1
FILLER = b"\n"
# Small enough to stay in the processor's cache: memory that is new costs more than comparing.
_BLANK = FILLER * (64 << 10)
TERMINATOR = b"\t."
SECTOR = 512
GENESIS = "0" * 64
LENGTH_MAX = 0xFFFFFF
# crc, length, two positions of at most 19 digits, previous, six spaces, TAB, dot, newline
OVERHEAD = 8 + 6 + 19 + 19 + 32 + 6 + 3
# The space before a position: behind checksum and length.
_POSITION_AT = 8 + 1 + 6
LINE_MIN = 8 + 6 + 1 + 1 + 32 + 5 + 2 + 2

_NUMBER = rb"(0|[1-9][0-9]{0,18})"
_HEAD = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{6}) %b %b ([0-9a-f]{32}) " % (_NUMBER, _NUMBER))
# The same from its first space on. It begins with one literal byte and holds on to nothing else: so
# it is looked for at the speed of memory, and one that begins inside another is met too.
_HEADS = re.compile(
    rb" (?<=[0-9a-f]{8} )(?=([0-9a-f]{6}) %b %b [0-9a-f]{32} )" % (_NUMBER, _NUMBER)
)
_ENDING = TERMINATOR + FILLER
# How a plain decision's line begins and ends: checksum, length, position, watermark, link.
_FRONT, _PLAIN_END = b"%08x %06x %d %d %b [", b"]" + TERMINATOR
_new: Any = cast("Any", tuple).__new__


class Frame(NamedTuple):
    """One decision as it stands in the journal."""

    position: int
    payload: bytes


class Line(NamedTuple):
    """One line read back; `end` is where the next may begin, `gap` its first missing byte."""

    position: int
    durable: int
    previous: str
    payload: bytes
    end: int
    gap: int | None
    digest: str


def encode(position: int, durable: int, previous: str, payload: bytes) -> tuple[bytes, str]:
    """The line with its newline, and its digest (64 hex digits) for the next line's sake."""
    body = b"%d %d %b %b" % (position, durable, previous[:32].encode(), payload)
    head = b"%06x %b" % (len(body), body)
    line = b"%08x %b\t." % (crc32(head), head)
    return line + FILLER, sha256(line).hexdigest()


def fitted(
    position: int, durable: int, previous: str, payload: bytes, offset: int
) -> tuple[bytes, str]:
    """As `encode`, for a line that will stand at `offset`."""
    line, digest = encode(position, durable, previous, payload)
    if (offset + len(line)) % SECTOR == 1:
        return encode(position, durable, previous, payload + b" ")
    return line, digest


def parse(buf: bytes, start: int, limit: int) -> Line | None:
    """The line at `start`, or None when no intact one stands there.

    The terminator is outside the checksum: when only it is damaged the content is
    proven all the same, and `gap` tells.
    """
    head = _HEAD.match(buf, start, limit)
    if head is None:
        return None
    crc, length, position, durable, previous = head.groups()
    begin, stop = head.end(), start + 16 + int(length, 16)
    if not begin <= stop <= limit or crc32(buf[start + 9 : stop]) != int(crc, 16):
        return None
    if buf[stop : stop + 3] == _ENDING:
        gap, line = None, buf[start : stop + 2]
    else:
        gap, line = _first_missing(buf, stop), buf[start:stop] + TERMINATOR
    payload = buf[begin:stop]
    if payload.endswith(b" "):
        payload = payload.rstrip(b" ")
    digest = sha256(line).hexdigest()
    # A million in a row: NamedTuple's own constructor takes twice as long as tuple's.
    known = (int(position), int(durable), previous.decode(), payload, stop + 3, gap, digest)
    made: Line = _new(Line, known)
    return made


class Run(NamedTuple):
    """Decisions that simply follow one another: how many, their bytes, and the last one's
    position, watermark, end and digest."""

    lines: int
    bytes: int
    position: int
    durable: int
    end: int
    digest: str


def run_of(buf: bytes, limit: int, align: int, last: Run, most: int) -> Run:
    """The decisions that follow the `last` line, at most so many: as `parse` reads them, in half
    the time, while nothing about them is unusual.

    It ends before the first line that is anything else: damaged, the journal's own, or no line.
    Each line is compared with what a writer would have put at its front, whose watermark is the
    last one's, or the last position's when that was a commit of its own.
    """
    _, _, first, durable, begin, digest = last
    position, end, padding, until = first, begin, 0, first + most
    linked, newest = digest[:32].encode(), None
    while position < until:
        start = end
        stop = buf.find(FILLER, start, limit)
        if stop <= start:
            start = aligned(end, align)
            if not is_filler(buf, end, start):
                break
            stop = buf.find(FILLER, start, limit)
        line = buf[start:stop]
        if not line.endswith(_PLAIN_END):
            break
        front = crc32(line[9:-2]), stop - start - 18, position + 1
        if not line.startswith(_FRONT % (*front, durable, linked)):
            if not line.startswith(_FRONT % (*front, position, linked)):
                break
            durable = position
        newest = sha256(line)
        linked = hexlify(newest.digest()[:16])
        if start > end:
            padding += start - end
        end, position = stop + 1, position + 1
    digest = digest if newest is None else newest.hexdigest()
    return Run(position - first, end - begin - padding, position, durable, end, digest)


def line_of(buf: bytes, position: int, limit: int) -> tuple[int, Line] | None:
    """The line of that position and where it begins, of what is proven up to `limit`."""
    wanted = b" %d " % position
    found = buf.find(wanted, _POSITION_AT, limit)
    while found >= 0:
        start = found - _POSITION_AT
        # A payload may quote a line, and cannot carry the newline before it.
        if buf[max(0, start - 1) : start] in (b"", FILLER):
            line = parse(buf, start, limit)
            if line is not None and line.position == position:
                return start, line
        found = buf.find(wanted, found + 1, limit)
    return None


def _first_missing(buf: bytes, stop: int) -> int:
    found = buf[stop : stop + 3]
    same = (a == b for a, b in zip(found, b"\t.\n", strict=False))
    return stop + next((i for i, equal in enumerate(same) if not equal), len(found))


def later_lines(buf: bytes, start: int) -> list[Line]:
    """Every intact line that stands anywhere from `start` on, not only after a newline.

    A payload may quote a line, as text. It can carry neither the newline before nor the
    TAB after, so what has neither is not believed, and no checksum is taken of it.
    """
    found: list[Line] = []
    for match in _HEADS.finditer(buf, start + 8):
        at, length = match.start() - 8, int(match[1], 16)
        if _is_own_line(buf, at, at + 16 + length):
            line = parse(buf, at, len(buf))
            found += [] if line is None else [line]
    return found


def _is_own_line(buf: bytes, start: int, stop: int) -> bool:
    terminated = buf[stop : stop + 2] == TERMINATOR
    begun = buf[max(0, start - 1) : start] in (b"", FILLER)
    return (terminated or begun) and buf.find(FILLER, start, stop) < 0


def is_filler(buf: bytes, start: int, stop: int) -> bool:
    """Whether nothing but never-written bytes stands in between (compared, not searched)."""
    while stop - start > len(_BLANK):
        if not buf.startswith(_BLANK, start):
            return False
        start += len(_BLANK)
    return stop <= start or buf.startswith(_BLANK[: stop - start], start)


def aligned(offset: int, align: int) -> int:
    """The first offset at or after `offset` where a batch may begin."""
    return offset if align == 0 else -(-offset // align) * align


class Previous(NamedTuple):
    """What a segment header says of the segment before: its official end, and what it held."""

    name: str
    end: int
    position: int
    digest: str
    discarded: int


class Header(NamedTuple):
    """The first line of a segment. `size` is the file's, in bytes; `align` its batches'."""

    number: int
    size: int
    align: int
    previous: Previous | None


class Repair(NamedTuple):
    """An operator's act: lines `first`..`last` (at least) were lost and are given up.

    `kept` is the directory, below the journal's, that has the files as they were found.
    """

    first: int
    last: int
    uid: int
    reason: str
    kept: str


class Made(NamedTuple):
    """A snapshot that was made of `position`, and the digest that its file ends with."""

    position: int
    digest: str


class TooNew(Exception):  # noqa: N818 - caught here in the journal, never shown
    """A version or kind that this code does not know."""


def encode_own(value: dict[str, Any]) -> bytes:
    """The journal's own payloads: sorted keys, ASCII, one spelling a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def mark(why: str) -> bytes:
    """A payload that says nothing but that time passed: its line attests the ones before."""
    return encode_own({"k": "mark", "why": why})


def header_payload(header: Header) -> bytes:
    previous = None if header.previous is None else header.previous._asdict()
    return encode_own(
        {
            "align": header.align,
            "format": FORMAT,
            "k": "segment",
            "number": header.number,
            "previous": previous,
            "size": header.size,
        }
    )


def repair_payload(repair: Repair) -> bytes:
    return encode_own({"k": "repair", **repair._asdict()})


def made_payload(made: Made) -> bytes:
    return encode_own({"k": "snapshot", **made._asdict()})


def parse_made(payload: bytes) -> Made | None:
    """The snapshot that a payload vouches for; None when it is no such record."""
    try:
        value = json.loads(payload)
        return Made(int(value["position"]), str(value["digest"]))
    except (ValueError, KeyError, TypeError):
        return None


def parse_repair(payload: bytes) -> Repair | None:
    """The repair that a payload says, or None when it says none."""
    if not payload.startswith(b"{"):
        return None
    try:
        value = json.loads(payload)
        return Repair(**{name: value[name] for name in Repair._fields})
    except (ValueError, KeyError, TypeError):
        return None


def own_kind(payload: bytes) -> str:
    """The kind of one of the journal's own payloads; raises TooNew for one not known here."""
    try:
        kind = json.loads(payload)["k"]
    except (ValueError, KeyError, TypeError) as error:
        raise TooNew("a frame that is neither a decision nor a known kind") from error
    if kind not in ("segment", "mark", "repair", "snapshot"):
        raise TooNew(f"a frame of kind {kind!r}")
    return str(kind)


def parse_header(payload: bytes) -> Header | None:
    """The header in a segment's first line; None when it is none. Raises TooNew."""
    try:
        value = json.loads(payload)
        if value["k"] != "segment":
            return None
        if value["format"] != FORMAT:
            raise TooNew(f"format {value['format']}")
        previous = value["previous"]
        before = None if previous is None else Previous(**previous)
        return Header(int(value["number"]), int(value["size"]), int(value["align"]), before)
    except (ValueError, KeyError, TypeError):
        return None
