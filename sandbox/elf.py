"""What a compiled program says of itself: its loader, and where it looks for its libraries."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from frozen import frozen

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 15, 29
# More than any program has; a damaged file says anything.
_HEADERS_MAX, _TABLE_MAX = 512, 1 << 20


@frozen
class Needs:
    """``loader``: the path of its dynamic loader. ``places``: the directories of its RPATH and
    RUNPATH, absolute. ``libraries``: the names it asks for."""

    loader: Path | None = None
    places: tuple[Path, ...] = ()
    libraries: tuple[str, ...] = ()


@frozen
class _Form:
    """How this file's numbers are packed."""

    header: struct.Struct
    program: struct.Struct
    dynamic: struct.Struct
    wide: bool


def needs(path: Path) -> Needs:
    """What the program at ``path`` names; nothing for what is no ELF file, or a damaged one.

    Raises OSError when it cannot be read.
    """
    with path.open("rb") as file:
        try:
            return _needs(file, path.parent)
        except (struct.error, ValueError, OverflowError):
            return Needs()


def _needs(file: BinaryIO, origin: Path) -> Needs:
    form = _form(file.read(16))
    if form is None:
        return Needs()
    segments = _segments(file, form)
    loader = next((where for kind, *where in segments if kind == _PT_INTERP), None)
    entries = _dynamic(file, form, segments)
    texts = _strings(file, segments, entries)

    def words(tag: int) -> list[str]:
        return [_text(texts, value) for kind, value in entries if kind == tag]

    said = [*words(_DT_RPATH), *words(_DT_RUNPATH)]
    places = [one for text in said for one in text.split(":") if one]
    found = (_expanded(one, origin) for one in places)
    return Needs(
        _loader(file, loader[0], loader[2]) if loader is not None else None,
        tuple(dict.fromkeys(place for place in found if place is not None)),
        tuple(words(_DT_NEEDED)),
    )


def _form(ident: bytes) -> _Form | None:
    if (
        len(ident) < 16
        or ident[:4] != b"\x7fELF"
        or ident[4] not in {1, 2}
        or ident[5] not in {1, 2}
    ):
        return None
    order, wide = "<" if ident[5] == 1 else ">", ident[4] == 2
    kinds = ("HHIQQQIHHHHHH", "IIQQQQQQ", "qQ") if wide else ("HHIIIIIHHHHHH", "IIIIIIII", "iI")
    header, program, dynamic = (struct.Struct(order + kind) for kind in kinds)
    return _Form(header, program, dynamic, wide)


def _segments(file: BinaryIO, form: _Form) -> list[tuple[int, int, int, int]]:
    """Type, offset, address and size in the file of each program header."""
    header = form.header.unpack(file.read(form.header.size))
    offset, size, count = header[4], header[8], header[9]
    if size < form.program.size:
        return []
    found: list[tuple[int, int, int, int]] = []
    for number in range(min(count, _HEADERS_MAX)):
        file.seek(offset + number * size)
        fields = form.program.unpack(file.read(form.program.size))
        if form.wide:
            kind, _, start, address, _, length, *_ = fields
        else:
            kind, start, address, _, length, *_ = fields
        found.append((kind, start, address, length))
    return found


def _loader(file: BinaryIO, start: int, length: int) -> Path | None:
    file.seek(start)
    text = file.read(min(length, os.pathconf("/", "PC_PATH_MAX"))).partition(b"\0")[0]
    return Path(os.fsdecode(text)) if text.startswith(b"/") else None


def _dynamic(
    file: BinaryIO, form: _Form, segments: list[tuple[int, int, int, int]]
) -> list[tuple[int, int]]:
    for kind, start, _, length in segments:
        if kind == _PT_DYNAMIC:
            file.seek(start)
            table = file.read(min(length, _TABLE_MAX))
            whole = len(table) - len(table) % form.dynamic.size
            return list(form.dynamic.iter_unpack(table[:whole]))
    return []


def _strings(
    file: BinaryIO, segments: list[tuple[int, int, int, int]], entries: list[tuple[int, int]]
) -> bytes:
    """The table that the dynamic entries' names are in: they give its address, not its offset."""
    values = dict(entries)
    address, size = values.get(_DT_STRTAB, 0), values.get(_DT_STRSZ, 0)
    for kind, start, base, length in segments:
        if kind == _PT_LOAD and base <= address < base + length:
            file.seek(start + address - base)
            return file.read(min(size, _TABLE_MAX))
    return b""


def _text(texts: bytes, at: int) -> str:
    return os.fsdecode(texts[at:].partition(b"\0")[0])


def _expanded(place: str, origin: Path) -> Path | None:
    """As the loader reads it; None for what depends on the processor or the current directory."""
    for word in ("${ORIGIN}", "$ORIGIN"):
        place = place.replace(word, str(origin))
    if not place.startswith("/") or "$" in place:
        return None
    return Path(os.path.normpath(place))
