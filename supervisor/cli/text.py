"""Words, numbers and tables for people: pure, and nothing else in the CLI lays out columns."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from supervisor.cli.look import UNSAFE, Look, escape

SECOND_NS = 1_000_000_000
_SGR = re.compile("\x1b\\[[0-9;]*m")


class Column(NamedTuple):
    """A table's column. Only one column of a table may give way (`flexible`): never an id."""

    title: str
    right: bool = False
    flexible: bool = False


def cells(text: str) -> int:
    """How many terminal cells the text takes; colour takes none, wide characters two."""
    plain = _SGR.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in plain
    )


def cut(text: str, room: int, look: Look) -> str:
    """The text in at most `room` cells, with a mark where something is missing."""
    if cells(text) <= room:
        return text
    mark = "..." if look.ascii_only else "…"
    kept = ""
    for character in _SGR.sub("", text):
        if cells(kept + character) + len(mark) > room:
            break
        kept += character
    return kept + mark


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * max(0, width - cells(text))
    return space + text if right else text + space


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], look: Look) -> str:
    """Aligned columns, two spaces apart; too wide, the flexible column is cut and no other."""
    widths = [
        max([cells(column.title), *(cells(row[i]) for row in rows)])
        for i, column in enumerate(columns)
    ]
    spare = look.columns - sum(widths) - 2 * (len(widths) - 1)
    for i, column in enumerate(columns):
        if column.flexible and spare < 0:
            widths[i] = max(8, widths[i] + spare)
    titles = [
        cut(c.title, widths[i], look) if c.flexible else c.title for i, c in enumerate(columns)
    ]
    lines = [[look.paint(title, "quiet") for title in titles]]
    lines += [
        [cut(c, widths[i], look) if columns[i].flexible else c for i, c in enumerate(row)]
        for row in rows
    ]
    return "\n".join(
        "  ".join(_pad(c, widths[i], right=columns[i].right) for i, c in enumerate(line)).rstrip()
        for line in lines
    )


def fields(pairs: Iterable[tuple[str, str]], look: Look | None = None, taken: int = 0) -> str:
    """Names and values in two columns; a value of several lines stays in its column.

    With a `look`, prose is wrapped into what is left of its columns beside `taken` cells.
    Words are never broken: ids, paths and options stay whole.
    """
    rows = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in rows), default=0)
    indent = "\n" + " " * (width + 2)
    room = None if look is None else max(30, look.columns - taken - width - 2)
    lines: list[str] = []
    for name, value in rows:
        text = value if room is None else wrapped(value, room)
        lines.append(f"{name:<{width}}  {text.replace(chr(10), indent)}")
    return "\n".join(lines)


def wrapped(text: str, room: int) -> str:
    """Text in lines of at most `room` cells where its words allow it; its own lines are kept."""
    lines: list[str] = []
    for line in text.split("\n"):
        current = ""
        for word in line.split(" "):
            if current and cells(current) + 1 + cells(word) > room:
                lines.append(current)
                current = word
            else:
                current = f"{current} {word}" if current else word
        lines.append(current)
    return "\n".join(lines)


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def span(milliseconds: int) -> str:
    """A duration in the two units that matter: `350 ms`, `1.2 s`, `2 min 5 s`, `3 d 4 h`."""
    if milliseconds < 0:
        return "-" + span(-milliseconds)
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        tenths = milliseconds // 100
        return f"{tenths // 10} s" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10} s"
    seconds = milliseconds // 1000
    for size, unit, small_size, small in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // small_size
            return f"{seconds // size} {unit}" + (f" {rest} {small}" if rest else "")
    raise AssertionError(seconds)


def size(count: int) -> str:
    """Bytes in the largest binary unit that keeps a whole number small."""
    unit = 0
    value = count
    while value >= 10_240 and unit < 4:
        value //= 1024
        unit += 1
    return f"{value} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def moment_ns(stamp: object) -> int | None:
    """An RFC 3339 UTC time as nanoseconds since the epoch; None for anything else."""
    from datetime import datetime

    if not isinstance(stamp, str):
        return None
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if when.tzinfo is None:
        return None
    whole = int(when.replace(microsecond=0).timestamp())
    return whole * SECOND_NS + when.microsecond * 1000


def ago(stamp: object, look: Look) -> str:
    """A time as lists show it, relative to now: `3 min ago`, `in 2 h`, `now`."""
    moment = moment_ns(stamp)
    if moment is None:
        return "-"
    gone_s = (look.now_ns - moment) // SECOND_NS
    distance = abs(gone_s)
    if distance < 2:
        return "now"
    words = span(distance * 1000) if distance < 60 else span(distance * 1000).split("  ")[0]
    largest = " ".join(words.split()[:2])
    return f"{largest} ago" if gone_s > 0 else f"in {largest}"


def clock(stamp: object) -> str:
    """A time as `show` prints it: absolute, UTC, to the millisecond."""
    return escape(stamp).replace("T", " ").replace("Z", " UTC") if isinstance(stamp, str) else "-"


def json_text(value: Any, *, pretty: bool, ascii_only: bool = False) -> str:
    """Valid JSON that is safe on a terminal: what would act on it is written as \\u escapes."""
    text = json.dumps(
        value,
        ensure_ascii=ascii_only,
        indent=2 if pretty else None,
        separators=None if pretty else (",", ":"),
    )

    def spell(match: re.Match[str]) -> str:
        # The line breaks of pretty printing are the only controls outside strings.
        character = match.group()
        return "\n" if character == "\n" else json.dumps(character)[1:-1].replace("\x7f", "\\u007f")

    return UNSAFE.sub(spell, text)


def short_json(value: Any, look: Look, room: int = 120) -> str:
    """JSON on one line, cut to `room` cells: for a glance, never for a program."""
    return cut(json_text(value, pretty=False, ascii_only=look.ascii_only), room, look)


def indented(text: str, by: str = "  ") -> str:
    """Every line moved to the right."""
    return "\n".join(by + line if line else line for line in text.split("\n"))
