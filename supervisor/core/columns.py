"""Columns: what many values have in common, as numbers side by side instead of as objects.

A text is found among many by its print, eight bytes of a digest: no object is kept for it. Two
texts may have one print, so a print only says where to look.
"""

from __future__ import annotations

import binascii
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal, cast

import attrs

ROWS = 1 << 16
"""How many rows a column has at the most: a row takes two bytes."""

Code = Literal["H", "I", "Q"]
"""As `array` has them: numbers of 2, 4 and 8 bytes."""

_BYTES = {"H": 2, "I": 4, "Q": 8}


def print_of(text: str) -> int:
    """The same in every process: snapshots carry it."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def text_of_column(numbers: array[int]) -> str:
    """Of a machine whose least significant byte comes first, as all that effectd runs on."""
    return text_of_bytes(numbers.tobytes())


def column_in(code: Code, text: object) -> array[int]:
    """The column of this text. Raises ValueError for what is none."""
    content = bytes_in(text)
    if len(content) % _BYTES[code]:
        raise ValueError("a column ends in the middle of a number")
    numbers = array(code)
    numbers.frombytes(content)
    return numbers


def text_of_bytes(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def bytes_in(text: object) -> bytes:
    """Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("a column is no text")  # noqa: TRY004  # all that is wrong is this
    return binascii.a2b_base64(text, strict_mode=True)


@attrs.frozen(eq=False)
class Prints:
    """Which rows may have a text: those with its print."""

    prints: array[int]
    rows: array[int]

    def __len__(self) -> int:
        return len(self.prints)

    def at(self, print_: int) -> Sequence[int]:
        """The rows with this print, mostly none or one."""
        first = bisect_left(self.prints, print_)
        past = first
        while past < len(self.prints) and self.prints[past] == print_:
            past += 1
        return self.rows[first:past] if past > first else ()

    def texts(self) -> list[str]:
        """What a snapshot carries."""
        return [text_of_column(self.prints), text_of_column(self.rows)]


def prints_of(pairs: Iterable[tuple[int, int]]) -> Prints:
    """Of prints, or other numbers of eight bytes, each with the row that it is of."""
    # As one number each they are sorted in a fraction of the time, in which nobody else runs.
    ordered = sorted([number << 16 | row for number, row in pairs])
    return Prints(
        array("Q", (one >> 16 for one in ordered)), array("H", (one & 0xFFFF for one in ordered))
    )


def hints_of(prints: Prints) -> bytes:
    """A bit for each possible end of a print, set when one ends so, and some sixteen for each
    print: of columns that do not have a print, one in sixteen has its bit."""
    bits = 1 << max(3, (16 * len(prints) - 1).bit_length())
    found, mask = bytearray(bits >> 3), bits - 1
    for one in prints.prints:
        found[(one & mask) >> 3] |= 1 << (one & 7)
    return bytes(found)


def hints_in(text: object) -> bytes:
    """What `hints_of` made. Raises ValueError."""
    found = bytes_in(text)
    if not found or len(found) & (len(found) - 1):
        raise ValueError("no hints")
    return found


def prints_in(texts: object, rows: int) -> Prints:
    """What `texts` said, of so many rows. Raises ValueError."""
    both = cast("list[object]", texts) if isinstance(texts, list) else []
    if len(both) != len(("prints", "rows")):
        raise ValueError("no prints with their rows")
    found = Prints(column_in("Q", both[0]), column_in("H", both[1]))
    if len(found.prints) != len(found.rows) or max(found.rows, default=-1) >= rows:
        raise ValueError("prints of rows that are not there")
    return found
