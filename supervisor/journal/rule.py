"""Tear or rot: what the bytes behind the last intact line of the newest segment mean.

The writer writes one batch, syncs it, and only then writes the next, into sectors that
held nothing but filler. So a power cut can leave any subset of the last batch's sectors
unwritten, and of that batch only. Everything else is damage to what was acknowledged.

In order:

1. An intact line anywhere behind says, in `durable`, that something missing had been
   synced: rot.
2. The first damaged line ends with the terminator: it was written whole, so rot.
3. The first filler byte opens a sector that was never written, or nothing at all was
   written from there on: a tear. With `align` 0 a batch shares its first sector with the
   one before; then the unwritten part of that sector counts as well.
4. Otherwise rot.

What cannot be told apart: rot that turns exactly one whole sector of the last batch that
nothing attests into filler. The mark that is written after 50 quiet milliseconds attests
the last decision.

Pure: bytes in, a verdict out.
"""

from __future__ import annotations

from typing import NamedTuple

from supervisor.journal.codec import (
    FILLER,
    LINE_MIN,
    SECTOR,
    TERMINATOR,
    aligned,
    is_filler,
    later_lines,
)


class Tail(NamedTuple):
    """The verdict on the newest segment's end; `rot` is None, or why this is no tear."""

    torn: bool
    discarded: int
    rot: str | None


CLEAN = Tail(torn=False, discarded=0, rot=None)


def judge(buf: bytes, end: int, gap: int | None, position: int, align: int) -> Tail:
    """Judge what follows the intact line that ends at `end` and carries `position`.

    `gap` is where that line's terminator stops being there, or None.
    """
    if gap is None and is_filler(buf, end, len(buf)):
        return CLEAN
    start = _start(buf, end, gap, align)
    discarded = len(buf[end:].strip(FILLER))
    rot = _rot(buf, start, gap, position, align)
    return Tail(torn=rot is None, discarded=discarded, rot=rot)


def _start(buf: bytes, end: int, gap: int | None, align: int) -> int:
    """Where what is missing began: inside the last line, right behind it, or a batch later.

    Too few bytes for a frame, in padding that nothing continues, are no frame's remains.
    """
    if gap is not None and buf[gap : gap + 1] == FILLER:
        return gap
    boundary = aligned(end, align)
    stray = len(buf[end:boundary].replace(FILLER, b""))
    continued = buf[boundary : boundary + 1] not in (b"", FILLER)
    return end if stray >= (1 if continued else LINE_MIN) else boundary


def _rot(buf: bytes, start: int, gap: int | None, position: int, align: int) -> str | None:
    attested = max((line.durable for line in later_lines(buf, start)), default=0)
    if attested > position:
        return f"a later frame proves that position {attested} had been durable"
    if is_filler(buf, start, len(buf)):
        return None
    newline = buf.find(FILLER, start)
    if newline < 0:
        return "no unwritten sector explains the damage"
    if start != gap and buf[max(start, newline - 2) : newline] == TERMINATOR:
        return "a frame that was written whole has a wrong checksum"
    if not _unwritten(buf, newline, shared=align == 0 and newline == start != gap):
        return "no unwritten sector explains the damage"
    return None


def _unwritten(buf: bytes, filler: int, *, shared: bool) -> bool:
    sector_end = min((filler // SECTOR + 1) * SECTOR, len(buf))
    whole = filler % SECTOR == 0 or shared
    return is_filler(buf, filler, sector_end if whole else len(buf))
