"""What is left of evicted operations, so that their messages never run again.

There are as many as there was work in a year, and hardly any is ever asked for. So the older
ones are kept in blocks: columns of text as a snapshot carries them, of which a start makes two
indexes and no value. Which ones are in which block follows from the records alone, so a fold and
a fold that began with a snapshot have equal blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from immutables import Map

from frozen import frozen
from supervisor.core.changed import changed
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.session_state import Tombstone

# So many make a block. A block is made in one step of the fold, and each is asked for a message
# that is new: a few milliseconds once in so many evictions, and a microsecond for thirty blocks.
BLOCK = 4_096

# A session and the message's id in it.
Message = tuple[SessionId, str]


def _named(message: Message) -> str:
    """A message in one text. No id of a session has a space in it; a request's may."""
    return " ".join(message)


def _index(column: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(column, range(len(column)), strict=True))


@frozen
class Block:
    """`BLOCK` tombstones in the order in which they came, a column for each thing that finds
    them and one for the rest. Nothing here is changed after it was made."""

    operations: tuple[str, ...]
    messages: tuple[str, ...]
    rest: tuple[str, ...]
    by_operation: dict[str, int] = attrs.field(init=False, eq=False, repr=False)
    by_message: dict[str, int] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "by_operation", _index(self.operations))
        object.__setattr__(self, "by_message", _index(self.messages))

    def __len__(self) -> int:
        return len(self.rest)

    def __getitem__(self, row: int) -> Tombstone:
        session_id, _, request_id = self.messages[row].partition(" ")
        digest, uid, at = self.rest[row].split(" ")
        one = OperationId(self.operations[row])
        return Tombstone(one, SessionId(session_id), request_id, digest, int(uid), int(at))


def block_of(tombstones: Iterable[Tombstone]) -> Block:
    rows = [
        (one.operation_id, _named(one.message), f"{one.request_digest} {one.uid} {one.at}")
        for one in tombstones
    ]
    return Block(*zip(*rows, strict=True))


@attrs.frozen(slots=False)  # there is one, and copied often (see changed.py)
class Tombstones:
    """Persistent. Places are given once, in order; the oldest stands at `first` and goes first.

    The newest are in `recent`, by place, until they fill a block; before them come `blocks`,
    the first of which may begin with some that are gone already.
    """

    first: int = 0
    next: int = 0
    blocks: tuple[Block, ...] = ()
    recent: Map[int, Tombstone] = attrs.field(factory=Map[int, Tombstone])
    operations: Map[OperationId, int] = attrs.field(factory=Map[OperationId, int])
    messages: Map[Message, int] = attrs.field(factory=Map[Message, int])

    def __len__(self) -> int:
        return self.next - self.first

    def __iter__(self) -> Iterator[Tombstone]:
        """Oldest first."""
        return (self._at(place) for place in range(self.first, self.next))

    def __reversed__(self) -> Iterator[Tombstone]:
        return (self._at(place) for place in range(self.next - 1, self.first - 1, -1))

    def behind_blocks(self) -> Iterator[Tombstone]:
        """Those in no block, oldest first."""
        return map(self._at, range(self.next - len(self.recent), self.next))

    def get(self, operation_id: OperationId) -> Tombstone | None:
        """That of this operation."""
        place = self.operations.get(operation_id)
        if place is None:
            rows = (block.by_operation.get(operation_id) for block in self.blocks)
            place = self._newest(rows)
        return None if place is None else self._at(place)

    def of(self, message: Message) -> Tombstone | None:
        """That of the operation which this message named."""
        place = self.messages.get(message)
        if place is None:
            named = _named(message)
            place = self._newest(block.by_message.get(named) for block in self.blocks)
        return None if place is None else self._at(place)

    def with_one(self, tombstone: Tombstone) -> Tombstones:
        """With one more, the newest."""
        place = self.next
        recent = self.recent.set(place, tombstone)
        if len(recent) == BLOCK:
            block = block_of(recent[one] for one in range(place + 1 - BLOCK, place + 1))
            return Tombstones(self.first, place + 1, (*self.blocks, block))
        return changed(
            self,
            next=place + 1,
            recent=recent,
            operations=self.operations.set(tombstone.operation_id, place),
            messages=self.messages.set(tombstone.message, place),
        )

    def without_oldest(self) -> Tombstones:
        """There must be one."""
        first = self.first + 1
        if self.blocks:
            empty = first - self._begin == BLOCK
            return changed(self, first=first, blocks=self.blocks[1:] if empty else self.blocks)
        oldest = self.recent[self.first]
        return changed(
            self,
            first=first,
            recent=self.recent.delete(self.first),
            operations=self.operations.delete(oldest.operation_id),
            messages=self.messages.delete(oldest.message),
        )

    @property
    def gone(self) -> int:
        """How many rows of the first block are gone; 0 without a block."""
        return self.first - self._begin if self.blocks else 0

    @property
    def _begin(self) -> int:
        """The place of the first block's first row."""
        return self.next - len(self.recent) - len(self.blocks) * BLOCK

    def _at(self, place: int) -> Tombstone:
        known = self.recent.get(place)
        if known is not None:
            return known
        number, row = divmod(place - self._begin, BLOCK)
        return self.blocks[number][row]

    def _newest(self, rows: Iterable[int | None]) -> int | None:
        """The last place of these rows, one of each block, that is not gone. A message that
        came again after its tombstone went has another one, in a later block."""
        found = None
        for number, row in enumerate(rows):
            if row is not None and self._begin + number * BLOCK + row >= self.first:
                found = self._begin + number * BLOCK + row
        return found


def tombstones_of(
    first: int, gone: int, blocks: tuple[Block, ...], recent: Iterable[Tombstone]
) -> Tombstones:
    """Those of the blocks but for the first `gone`, then `recent`; the oldest is at `first`.

    Raises ValueError for what `with_one` and `without_oldest` cannot have made.
    """
    if not 0 <= gone < (BLOCK if blocks else 1):
        raise ValueError("more are gone of the first block than it has")
    for block in blocks:
        if {len(block.rest), len(block.by_operation), len(block.by_message)} != {BLOCK}:
            raise ValueError(f"a block has not {BLOCK} tombstones, or one of them twice")
    found = Tombstones(first, first - gone + len(blocks) * BLOCK, blocks)
    for one in recent:
        found = found.with_one(one)
    if {len(found.operations), len(found.messages)} != {len(found.recent)}:
        raise ValueError("a tombstone is in it twice")
    return found
