"""Segments by their files' names: the number, and the first position that it may hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from supervisor.journal.errors import Damage, JournalCorrupt

_NAME = re.compile(r"(\d{8})-(\d{12})\.jnl")


class SegmentName(NamedTuple):
    """A segment's number, the first position that it may hold, and its file's name."""

    number: int
    first: int
    name: str


def segment_name(number: int, first: int) -> str:
    return f"{number:08}-{first:012}.jnl"


def segments_among(names: Iterable[str], since: int = 1) -> list[SegmentName]:
    """The segments in order, those before number `since` left out.

    Raises JournalCorrupt when a number from there on is missing or taken twice.
    """
    segments: list[SegmentName] = []
    for segment in _named(names):
        expected = since + len(segments)
        if segment.number < since:
            continue
        if segment.number < expected:
            raise _structure(segment.name, f"segment {segment.number} exists twice")
        if segment.number > expected:
            raise _structure(f"{expected:08}-*.jnl", "the segment is missing")
        segments.append(segment)
    if since > 1 and not segments:
        raise _structure(f"{since:08}-*.jnl", "the segment is missing")
    return segments


def unbroken_since(names: Iterable[str]) -> int:
    """The lowest number from which on no segment is missing."""
    numbers = {segment.number for segment in _named(names)}
    since = max(numbers, default=1)
    while since - 1 in numbers:
        since -= 1
    return since


def consecutive(names: Iterable[str], since: int) -> list[SegmentName]:
    """The segments from number `since` on, up to the first that is missing."""
    found: list[SegmentName] = []
    for match in filter(None, map(_NAME.fullmatch, sorted(names))):
        if int(match[1]) == since + len(found):
            found.append(SegmentName(int(match[1]), int(match[2]), match[0]))
    return found


def _named(names: Iterable[str]) -> list[SegmentName]:
    found: list[SegmentName] = []
    for name in sorted(name for name in names if name.endswith(".jnl")):
        match = _NAME.fullmatch(name)
        if match is None:
            raise _structure(name, "no segment's name: it is not one of this journal's files")
        found.append(SegmentName(int(match[1]), int(match[2]), name))
    return found


def _structure(file: str, why: str) -> JournalCorrupt:
    return JournalCorrupt(Damage(file, 0, 1, None, why, "nothing was read"))
