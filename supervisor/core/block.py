"""Blocks: many tombstones in little room, since hardly anybody asks for one.

What they say is text, compressed; what finds them are prints in columns, which only say where to
look. So a start reads the columns and leaves the text alone, and so does a message that is new.

A young block has one text. `TEXTS` of these become a full one, whose texts are theirs: what is
compressed is never compressed again, and what is made in one step takes milliseconds.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, cast

import attrs
import orjson

from supervisor.core.columns import (
    Prints,
    bytes_in,
    print_of,
    prints_in,
    prints_of,
    text_of_bytes,
)
from supervisor.core.contents import Contents
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.session_state import Tombstone

ROWS = 256
"""How many tombstones a text has."""

TEXTS = 16
"""How many texts a full block has."""

# Texts that are remembered as tombstones: those that expire together stand in one or two.
REMEMBERED = 2
_LEVEL = 1  # the higher ones take twice the time and more, for a twentieth of the room
_MEMBERS = tuple(one.name for one in attrs.fields(Tombstone))
_HINTS = 1 << 16
_LINE = {"operations", "messages", "texts", "hints"}
_OLDER_LINE = {"operations", "messages", "rest"}

# A session and the message's id in it.
Message = tuple[SessionId, str]


def _named(message: Message) -> str:
    """A message in one text. No id of a session has a space in it; a request's may."""
    return " ".join(message)


def print_of_message(message: Message) -> int:
    return print_of(_named(message))


def hint_of(print_: int) -> tuple[int, int]:
    """Which byte of a block's hints is asked, and for which bit."""
    return (print_ & 0xFFFF) >> 3, 1 << (print_ & 7)


def _hints_of(prints: array[int]) -> bytes:
    found = bytearray(_HINTS >> 3)
    for low in memoryview(prints).cast("B").cast("H")[::4]:
        found[low >> 3] |= 1 << (low & 7)
    return bytes(found)


@attrs.frozen(eq=False)
class Block:
    """Tombstones in the order in which they came. An operation or a message may be in it twice:
    it came again after the first had gone.

    `hints` has a bit for each possible end of a message's print, set when one here ends so: of
    blocks that do not have a message, one in sixteen has its bit at the most.
    """

    texts: tuple[Contents, ...]
    operations: Prints
    messages: Prints
    hints: bytes = attrs.field(repr=False)

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, row: int) -> Tombstone:
        text, rest = divmod(row, ROWS)
        return _tombstones_in(self.texts[text][:])[rest]

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # 3.12 has it
        """Whether they say the same. Another zlib may have compressed it otherwise."""
        if not isinstance(other, Block):
            return NotImplemented
        return [*self.since(0)] == [*other.since(0)]

    __hash__ = None  # type: ignore[assignment]

    def since(self, first: int) -> Iterator[Tombstone]:
        """Those from this row on."""
        text, rest = divmod(first, ROWS)
        for one in self.texts[text:]:
            yield from _tombstones_in(one[:])[rest:]
            rest = 0

    def held(self) -> Iterator[Contents]:
        """All that need not be in memory: what is left says what is not in the block."""
        yield from (*self.texts, *self.operations.held(), *self.messages.held())


def _block_of(tombstones: Sequence[Tombstone]) -> Block:
    """A young one."""
    columns = [[*map(attrgetter(name), tombstones)] for name in _MEMBERS]
    return _hinted(
        (Contents(zlib.compress(orjson.dumps(columns), _LEVEL)),),
        prints_of((print_of(one.operation_id), row) for row, one in enumerate(tombstones)),
        prints_of((print_of_message(one.message), row) for row, one in enumerate(tombstones)),
    )


def _hinted(texts: tuple[Contents, ...], operations: Prints, messages: Prints) -> Block:
    return Block(texts, operations, messages, _hints_of(messages.numbers.part(0, len(messages))))


@lru_cache(REMEMBERED)
def _tombstones_in(text: bytes) -> tuple[Tombstone, ...]:
    return tuple(map(Tombstone, *orjson.loads(zlib.decompress(text))))


def _joined(blocks: Sequence[Block]) -> Block:
    """One of young ones."""
    return _hinted(
        tuple(text for one in blocks for text in one.texts),
        _moved([one.operations for one in blocks]),
        _moved([one.messages for one in blocks]),
    )


def _moved(parts: Iterable[Prints]) -> Prints:
    """Those of young blocks, each of which has its rows behind the one before."""
    return prints_of(
        (print_, first * ROWS + row)
        for first, one in enumerate(parts)
        for print_, row in one.pairs()
    )


def stacked(blocks: tuple[Block, ...], recent: Sequence[Tombstone]) -> tuple[Block, ...]:
    """The blocks, and those in no block yet as one more if they are as many as a text has."""
    if len(recent) < ROWS:
        return blocks
    blocks = (*blocks, _block_of(recent))
    young = blocks[-TEXTS:]
    full = len(young) == TEXTS and all(len(one.texts) == 1 for one in young)
    return (*blocks[:-TEXTS], _joined(young)) if full else blocks


def check_stack(blocks: Sequence[Block]) -> None:
    """Raises ValueError for what `stacked` does not make."""
    full = sum(len(one.texts) == TEXTS for one in blocks)
    young = len(blocks) - full
    if [len(one.texts) for one in blocks] != [TEXTS] * full + [1] * young or young >= TEXTS:
        raise ValueError(f"blocks of tombstones that are neither {TEXTS * ROWS} nor {ROWS}")


def block_line(block: Block) -> dict[str, list[str]]:
    """What a snapshot carries, as JSON types. Equal blocks give equal lines where the same zlib
    made them."""
    return {
        "operations": block.operations.texts(),
        "messages": block.messages.texts(),
        "texts": [text_of_bytes(one[:]) for one in block.texts],
        "hints": [text_of_bytes(block.hints)],
    }


def block_in(value: object) -> Block:
    """The block of this line, or of an older version's. Raises ValueError.

    What a text says is read when somebody asks for it.
    """
    columns = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    for name, column in columns.items():
        if type(column) is not list or {*map(type, cast("list[object]", column))} != {str}:
            raise ValueError(f"no column of tombstones: {name}")
    if columns.keys() == _LINE:
        return _block_in(columns)
    if columns.keys() == _OLDER_LINE:
        return _older_in(columns)
    raise ValueError("no block of tombstones")


def _block_in(columns: dict[str, list[str]]) -> Block:
    count = len(columns["texts"]) * ROWS
    found = Block(
        tuple(Contents(bytes_in(one)) for one in columns["texts"]),
        prints_in(columns["operations"], count),
        prints_in(columns["messages"], count),
        b"".join(map(bytes_in, columns["hints"])),
    )
    if len(found.hints) != _HINTS >> 3:
        raise ValueError("a block has not the hints that one has")
    for one in (found.operations, found.messages):
        if not len(one) == len({*one.rows}) == count:
            raise ValueError(f"a block has not {count} tombstones, or one of them twice")
    return found


def _older_in(columns: dict[str, list[str]]) -> Block:
    """Of one whose columns were texts: the ids, the messages, and the rest of each."""
    count = TEXTS * ROWS
    if {*map(len, columns.values())} != {count}:
        raise ValueError(f"a block has not {count} tombstones")
    if any(len({*columns[name]}) != count for name in ("operations", "messages")):
        raise ValueError("a block has a tombstone twice")
    rows = [*map(_older_row, *(columns[name] for name in ("operations", "messages", "rest")))]
    return _joined([_block_of(rows[first : first + ROWS]) for first in range(0, count, ROWS)])


def _older_row(operation_id: str, message: str, rest: str) -> Tombstone:
    session_id, _, request_id = message.partition(" ")
    try:
        digest, uid, at = rest.split(" ")
        numbers = (int(uid), int(at))
    except ValueError as error:
        raise ValueError(f"no tombstone: {rest!r}") from error
    return Tombstone(OperationId(operation_id), SessionId(session_id), request_id, digest, *numbers)
