"""What is left of evicted operations, so that their messages never run again.

There are as many as there was work in a year, and hardly any is ever asked for. So the older
ones are in blocks (see block.py). Which ones are in which block follows from the records alone,
so a fold and a fold that began with a snapshot have equal blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs
from immutables import Map

from supervisor.core.block import (
    Block,
    Message,
    check_stack,
    hint_of,
    print_of_message,
    stacked,
)
from supervisor.core.changed import changed
from supervisor.core.columns import print_of
from supervisor.core.ids import OperationId
from supervisor.core.session_state import Tombstone


@attrs.frozen(slots=False)  # there is one, and copied often (see changed.py)
class Tombstones:
    """Persistent. Places are given once, in order; the oldest stands at `first` and goes first.

    The newest are in `recent`, until they fill a block; before them come `blocks`, of the first of
    which so many rows are `gone` already.
    """

    first: int = 0
    next: int = 0
    gone: int = 0
    blocks: tuple[Block, ...] = ()
    recent: tuple[Tombstone, ...] = ()
    operations: Map[OperationId, Tombstone] = attrs.field(factory=Map[OperationId, Tombstone])
    messages: Map[Message, Tombstone] = attrs.field(factory=Map[Message, Tombstone])

    def __len__(self) -> int:
        return self.next - self.first

    def __iter__(self) -> Iterator[Tombstone]:
        """Oldest first."""
        for block in self.blocks:
            yield from block.since(self._begin(block))
        yield from self.recent

    def __reversed__(self) -> Iterator[Tombstone]:
        yield from reversed(self.recent)
        for block in reversed(self.blocks):
            yield from map(block.__getitem__, range(len(block) - 1, self._begin(block) - 1, -1))

    def behind_blocks(self) -> Iterator[Tombstone]:
        """Those in no block, oldest first."""
        return iter(self.recent)

    def get(self, operation_id: OperationId) -> Tombstone | None:
        """That of this operation."""
        known = self.operations.get(operation_id)
        if known is not None:
            return known
        print_ = print_of(operation_id)
        rows = ((block, block.operations.at(print_)) for block in self.blocks)
        return self._found(rows, lambda one: one.operation_id == operation_id)

    def of(self, message: Message) -> Tombstone | None:
        """That of the operation which this message named."""
        known = self.messages.get(message)
        if known is not None or not self.blocks:
            return known
        print_ = print_of_message(message)
        at, bit = hint_of(print_)
        # All are asked for each message that is new: so this is a loop, and does no more.
        blocks = [block for block in self.blocks if block.hints[at] & bit]
        rows = ((block, block.messages.at(print_)) for block in blocks)
        return self._found(rows, lambda one: one.message == message)

    def with_one(self, tombstone: Tombstone) -> Tombstones:
        """With one more, the newest."""
        recent = (*self.recent, tombstone)
        blocks = stacked(self.blocks, recent)
        if blocks is not self.blocks:
            return Tombstones(self.first, self.next + 1, self.gone, blocks)
        return changed(
            self,
            next=self.next + 1,
            recent=recent,
            operations=self.operations.set(tombstone.operation_id, tombstone),
            messages=self.messages.set(tombstone.message, tombstone),
        )

    def without_oldest(self) -> Tombstones:
        """There must be one."""
        if self.blocks:
            empty = self.gone + 1 == len(self.blocks[0])
            blocks, gone = (self.blocks[1:], 0) if empty else (self.blocks, self.gone + 1)
            return changed(self, first=self.first + 1, gone=gone, blocks=blocks)
        oldest = self.recent[0]
        return changed(
            self,
            first=self.first + 1,
            recent=self.recent[1:],
            operations=self.operations.delete(oldest.operation_id),
            messages=self.messages.delete(oldest.message),
        )

    def _begin(self, block: Block) -> int:
        """The first of its rows that is not gone."""
        return self.gone if block is self.blocks[0] else 0

    def _found(
        self,
        rows: Iterable[tuple[Block, Sequence[int]]],
        is_it: Callable[[Tombstone], bool],
    ) -> Tombstone | None:
        """The one that is it, of these rows of blocks. Another is only made after it has gone."""
        ones = (block[row] for block, at in rows for row in at if row >= self._begin(block))
        return next(filter(is_it, ones), None)


def tombstones_of(
    first: int, gone: int, blocks: tuple[Block, ...], recent: Iterable[Tombstone]
) -> Tombstones:
    """Those of the blocks but for the first `gone`, then `recent`; the oldest is at `first`.

    Raises ValueError for what `with_one` and `without_oldest` cannot have made.
    """
    check_stack(blocks)
    if not 0 <= gone < (len(blocks[0]) if blocks else 1):
        raise ValueError("more are gone of the first block than it has")
    known = tuple(recent)
    ids, messages = ({one.operation_id for one in known}, {one.message for one in known})
    if not len(ids) == len(messages) == len(known):
        raise ValueError("a tombstone is in it twice")
    found = Tombstones(first, first - gone + sum(map(len, blocks)), gone, blocks)
    for one in known:
        found = found.with_one(one)
    return found
