"""Drawers: finished operations that are packed, thousands side by side, in columns.

Nothing in a drawer changes. Its rows stand in the order of their places in the line of those to
be evicted. What an operation is found by are prints (see columns.py); what is found is
compared with its card before it is believed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import attrs
import orjson

from frozen import frozen
from supervisor.core.columns import (
    ROWS,
    Column,
    Prints,
    bytes_in,
    column_in,
    column_of,
    hints_in,
    hints_of,
    print_of,
    prints_in,
    prints_of,
    text_of_bytes,
)
from supervisor.core.contents import Contents
from supervisor.core.ids import OperationId

if TYPE_CHECKING:  # its module needs this one
    from supervisor.core.state import Operation

# A drawer is full when it has so many rows, names or bytes of contents; each of these is made in
# one step of the thread that files, and written in another.
FULL_ROWS, FULL_NAMES, FULL_BYTES = 4_096, 1 << 15, 1 << 20
assert FULL_ROWS <= ROWS

_COLUMNS = ("serials", "places", "updated", "ends", "sampled")
_MEMBERS = {*_COLUMNS, "ids", "contents", "samples", "names", "hints", "numbers"}


@frozen
class Packed:
    """A finished operation in little room, and what is looked at without unpacking it."""

    operation_id: OperationId
    serial: int
    updated_at: int
    content: bytes
    sample: bytes
    unpack: Callable[[Packed], Operation]


@frozen
class Row:
    """One that stands in a drawer, its place in the line, and the prints of all its names."""

    packed: Packed
    place: int
    names: tuple[int, ...]


def is_full(rows: int, names: int, contents: int) -> bool:
    """Whether that is as much as a drawer takes."""
    return rows >= FULL_ROWS or names >= FULL_NAMES or contents >= FULL_BYTES


def texts(packed: Packed) -> tuple[bytes, bytes]:
    """Its card's, and the operation's."""
    made = zlib.decompressobj(-zlib.MAX_WBITS, zdict=packed.sample)
    card, _, operation = (made.decompress(packed.content) + made.flush()).partition(b"\n")
    return card, operation


def name_of(kind: str, *words: str) -> int:
    """The print of a name: that of an operation, a call, an effect or a message."""
    return print_of(" ".join((kind, *words)))


def names_of(
    one: str, message: tuple[str, str], calls: Iterable[str], effects: Iterable[str]
) -> tuple[int, ...]:
    """The prints of all that an operation is found by."""
    return (
        name_of("operation", one),
        name_of("message", *message),
        *(name_of("call", call) for call in calls),
        *(name_of("effect", effect) for effect in effects),
    )


@attrs.frozen(eq=False)
class Drawer:
    """A column for each thing; contents end where `ends` says, ids are all of one width."""

    serials: Column
    places: Column
    updated: Column
    ends: Column
    sampled: Column
    ids: Contents
    contents: Contents
    samples: tuple[Contents, ...]
    names: Prints
    # Of the names: what has not a name's bit need not be searched.
    hints: bytes
    numbers: Prints
    # The place of its first row: who wants the oldest looks into no drawer whose turn is later.
    first: int
    unpack: Callable[[Packed], Operation]

    def __len__(self) -> int:
        return len(self.serials)

    @property
    def full(self) -> bool:
        """Whether no more is to be put into one like this."""
        return is_full(len(self), len(self.names), len(self.contents))

    def id_at(self, row: int) -> OperationId:
        width = len(self.ids) // len(self)
        return OperationId(self.ids[row * width : (row + 1) * width].rstrip().decode())

    def packed_at(self, row: int) -> Packed:
        begin = self.ends[row - 1] if row else 0
        return Packed(
            self.id_at(row),
            self.serials[row],
            self.updated[row],
            self.contents[begin : self.ends[row]],
            self.samples[self.sampled[row]][:],
            self.unpack,
        )

    def named(self, print_: int) -> Sequence[int]:
        """The rows that may have this name."""
        return self.names.at(print_)

    def may_have(self, print_: int) -> bool:
        """Whether a name with this print may be in it: mostly, and quickly, not."""
        bit = print_ % (len(self.hints) << 3)
        return bool(self.hints[bit >> 3] >> (bit & 7) & 1)

    def numbered(self, serial: int) -> int | None:
        """The row of this serial."""
        if not self.numbers.fences[0] <= serial <= self.numbers.last:
            return None
        return next(iter(self.numbers.at(serial)), None)

    def rows(self) -> Iterator[Row]:
        names: list[list[int]] = [[] for _ in range(len(self))]
        for print_, row in self.names.pairs():
            names[row].append(print_)
        for row, place in enumerate(self.places):
            yield Row(self.packed_at(row), place, tuple(names[row]))

    def held(self) -> Iterator[Contents]:
        """All that need not be in memory: what is left says what is not in the drawer."""
        yield from (getattr(self, name).contents for name in _COLUMNS)
        yield from (self.ids, self.contents, *self.samples)
        yield from (*self.names.held(), *self.numbers.held())


def drawer_of(given: Iterable[Row]) -> Drawer:
    """A drawer of these, one at least."""
    rows = sorted(given, key=attrgetter("place"))
    samples: dict[bytes, int] = {}
    for row in rows:
        samples.setdefault(row.packed.sample, len(samples))
    packed = [row.packed for row in rows]
    ids = [one.operation_id.encode() for one in packed]
    width = max(map(len, ids))
    names = prints_of((name, n) for n, row in enumerate(rows) for name in row.names)
    return Drawer(
        serials=column_of("Q", (one.serial for one in packed)),
        places=column_of("Q", (row.place for row in rows)),
        updated=column_of("Q", (one.updated_at for one in packed)),
        ends=column_of("Q", accumulate(len(one.content) for one in packed)),
        sampled=column_of("H", (samples[one.sample] for one in packed)),
        ids=Contents(b"".join(one.ljust(width) for one in ids)),
        contents=Contents(b"".join(one.content for one in packed)),
        samples=tuple(map(Contents, samples)),
        names=names,
        hints=hints_of(names),
        numbers=prints_of((one.serial, n) for n, one in enumerate(packed)),
        first=rows[0].place,
        unpack=packed[0].unpack,
    )


def drawer_text(drawer: Drawer) -> bytes:
    """The drawer as a line of JSON. The same drawer gives the same line, in any process."""
    columns = {name: getattr(drawer, name).text() for name in _COLUMNS}
    return orjson.dumps(
        {
            **columns,
            "ids": text_of_bytes(drawer.ids[:]),
            "contents": text_of_bytes(drawer.contents[:]),
            "samples": [text_of_bytes(one[:]) for one in drawer.samples],
            "names": drawer.names.texts(),
            "hints": text_of_bytes(drawer.hints),
            "numbers": drawer.numbers.texts(),
        }
    )


def drawer_in(value: object, unpack: Callable[[Packed], Operation]) -> Drawer:
    """The drawer that these JSON types are. Raises ValueError."""
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if members.keys() != _MEMBERS or not isinstance(members["samples"], list):
        raise ValueError("no drawer of operations")
    serials = column_in("Q", members["serials"])
    places, rows = column_in("Q", members["places"]), len(serials)
    made = Drawer(
        serials=serials,
        places=places,
        updated=column_in("Q", members["updated"]),
        ends=column_in("Q", members["ends"]),
        sampled=column_in("H", members["sampled"]),
        ids=Contents(bytes_in(members["ids"])),
        contents=Contents(bytes_in(members["contents"])),
        samples=tuple(Contents(bytes_in(one)) for one in cast("list[object]", members["samples"])),
        names=prints_in(members["names"], rows),
        hints=hints_in(members["hints"]),
        numbers=prints_in(members["numbers"], rows),
        first=places[0],
        unpack=unpack,
    )
    _checked(made)
    return made


def _checked(drawer: Drawer) -> None:
    rows = len(drawer)
    lengths = {len(getattr(drawer, name)) for name in _COLUMNS} | {len(drawer.numbers)}
    if not rows or lengths != {rows} or len(drawer.ids) % rows:
        raise ValueError("the columns of a drawer have not as many rows each")
    if max(drawer.sampled) >= len(drawer.samples) or drawer.ends[rows - 1] != len(drawer.contents):
        raise ValueError("a drawer's rows are not in its contents")
    if any(one >= after for one, after in pairwise(drawer.places)):
        raise ValueError("a drawer's rows are not in order")
