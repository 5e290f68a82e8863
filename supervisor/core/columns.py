"""Columns: what many values have in common, as numbers side by side instead of as objects.

A text is found among many by its print, eight bytes of a digest: no object is kept for it. Two
texts may have one print, so a print only says where to look. The numbers need not be in memory
(see contents.py); what says that a text is not there, is.
"""

from __future__ import annotations

import binascii
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Literal, cast

import attrs

from supervisor.core.contents import Contents

ROWS = 1 << 16
"""How many rows a column has at the most: a row takes two bytes."""

PAGE = 256
"""So many numbers are read for one that is looked for: a few microseconds."""

Code = Literal["H", "I", "Q"]
"""As `array` has them: numbers of 2, 4 and 8 bytes."""

_BYTES = {"H": 2, "I": 4, "Q": 8}


def print_of(text: str) -> int:
    """The same in every process: snapshots carry it."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def text_of_bytes(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def bytes_in(text: object) -> bytes:
    """Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("a column is no text")  # noqa: TRY004  # all that is wrong is this
    return binascii.a2b_base64(text, strict_mode=True)


class Column:
    """Numbers, wherever their bytes are: of a machine whose least significant byte comes first, as
    all that effectd runs on."""

    __slots__ = ("_wide", "code", "contents")

    def __init__(self, code: Code, content: bytes) -> None:
        """Raises ValueError for what ends in the middle of a number."""
        self._wide = _BYTES[code]
        if len(content) % self._wide:
            raise ValueError("a column ends in the middle of a number")
        self.code: Code = code
        self.contents = Contents(content)

    def __len__(self) -> int:
        return len(self.contents) // self._wide

    def __getitem__(self, row: int) -> int:
        """Of a row that is there."""
        begin = row * self._wide
        return int.from_bytes(self.contents[begin : begin + self._wide], "little")

    def __iter__(self) -> Iterator[int]:
        return iter(self.part(0, len(self)))

    def part(self, first: int, past: int) -> array[int]:
        """The numbers of these rows, as far as they are there."""
        numbers = array(self.code)
        numbers.frombytes(self.contents[first * self._wide : past * self._wide])
        return numbers

    def text(self) -> str:
        """What a snapshot carries."""
        return text_of_bytes(self.contents[:])


def column_of(code: Code, numbers: Iterable[int]) -> Column:
    return Column(code, array(code, numbers).tobytes())


def column_in(code: Code, text: object) -> Column:
    """The column of this text. Raises ValueError for what is none."""
    return Column(code, bytes_in(text))


@attrs.frozen(eq=False)
class Prints:
    """Which rows may have a text: those with its print."""

    numbers: Column
    rows: Column
    # The first of each page of the numbers, which are in order: all but one need not be looked at.
    fences: array[int]
    last: int

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, print_: int) -> Sequence[int]:
        """The rows with this print, mostly none or one."""
        found = array("H")
        # What begins with it may have it at its end too.
        page = max(bisect_left(self.fences, print_) - 1, 0)
        while page < len(self.fences) and self.fences[page] <= print_:
            begin = page * PAGE
            numbers = self.numbers.part(begin, begin + PAGE)
            first = bisect_left(numbers, print_)
            past = bisect_right(numbers, print_, first)
            if first < past:
                found.extend(self.rows.part(begin + first, begin + past))
            if past < len(numbers):
                break
            page += 1
        return found

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Each print with its row."""
        return zip(self.numbers, self.rows, strict=True)

    def held(self) -> tuple[Contents, ...]:
        return self.numbers.contents, self.rows.contents

    def texts(self) -> list[str]:
        """What a snapshot carries."""
        return [self.numbers.text(), self.rows.text()]


def _prints(numbers: Column, rows: Column) -> Prints:
    every = numbers.part(0, len(numbers))
    return Prints(numbers, rows, every[::PAGE], every[-1] if every else 0)


def prints_of(pairs: Iterable[tuple[int, int]]) -> Prints:
    """Of prints, or other numbers of eight bytes, each with the row that it is of."""
    # As one number each they are sorted in a fraction of the time, in which nobody else runs.
    ordered = sorted([number << 16 | row for number, row in pairs])
    return _prints(
        column_of("Q", (one >> 16 for one in ordered)),
        column_of("H", (one & 0xFFFF for one in ordered)),
    )


def hints_of(prints: Prints) -> bytes:
    """Sixteen bits for each print, one of which it sets: of columns that do not have a print, one
    in sixteen has its bit. These are in memory."""
    found = bytearray(max(2 * len(prints), 1))
    bits = len(found) << 3
    for one in prints.numbers:
        bit = one % bits
        found[bit >> 3] |= 1 << (bit & 7)
    return bytes(found)


def hints_in(text: object) -> bytes:
    """What `hints_of` made. Raises ValueError."""
    found = bytes_in(text)
    if not found:
        raise ValueError("no hints")
    return found


def prints_in(texts: object, rows: int) -> Prints:
    """What `texts` said, of so many rows. Raises ValueError."""
    both = cast("list[object]", texts) if isinstance(texts, list) else []
    if len(both) != len(("prints", "rows")):
        raise ValueError("no prints with their rows")
    numbers, of_rows = column_in("Q", both[0]), column_in("H", both[1])
    if len(numbers) != len(of_rows) or max(of_rows, default=-1) >= rows:
        raise ValueError("prints of rows that are not there")
    return _prints(numbers, of_rows)
