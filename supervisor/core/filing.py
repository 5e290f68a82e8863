"""Filing: finished operations are packed and put into drawers, which a snapshot carries as they
are and memory keeps instead of them.

A thread packs, of a state that is past by then; what it made takes the place of the operations a
drawer at a time. Nothing is filed by a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from supervisor.core.card import Card, card_of
from supervisor.core.drawer import Drawer, Row, drawer_of, is_full, names_of
from supervisor.core.evolve.put import without_loose
from supervisor.core.filed import Filed
from supervisor.core.packing import Packer, packable
from supervisor.core.state import Operation, State
from supervisor.core.text import text_of

# So many are put into a state in one turn of the loop: a few milliseconds.
PART = 256


class Filler:
    """A drawer that is being filled; it may begin with what another one holds."""

    def __init__(self, begun: Iterable[Row] = ()) -> None:
        self._rows = [*begun]
        self._packer = Packer(row.packed for row in self._rows)
        self._names = sum(len(row.names) for row in self._rows)
        self._bytes = sum(len(row.packed.content) for row in self._rows)

    def add(self, card: Card, text: bytes, place: int) -> None:
        packed = self._packer.packed(card, text)
        message = (card.session_id, card.request_id)
        names = names_of(card.operation_id, message, card.calls, card.effects)
        self._rows.append(Row(packed, place, names))
        self._names += len(names)
        self._bytes += len(packed.content)

    @property
    def empty(self) -> bool:
        return not self._rows

    @property
    def full(self) -> bool:
        return is_full(len(self._rows), self._names, self._bytes)

    def drawer(self) -> Drawer:
        """Of one row at least."""
        return drawer_of(self._rows)


@attrs.frozen(eq=False)
class Made:
    """A drawer, the operations that are in it, and the drawer whose rows it takes over."""

    drawer: Drawer
    operations: tuple[Operation, ...]
    before: Drawer | None


@attrs.frozen(eq=False)
class Part:
    """Some of the operations of a drawer, the first of them or later ones."""

    made: Made
    operations: tuple[Operation, ...]
    first: bool


@attrs.define
class Filing:
    """Of all finished operations of a state that can be filed."""

    state: State
    made: list[Made] = attrs.field(factory=list[Made])

    def steps(self) -> Iterator[None]:
        """Do it; after each step there may be a rest."""
        before = self._open_drawer()
        filler = Filler(self._rows_of(before))
        operations: list[Operation] = []
        for place, operation in self._waiting():
            filler.add(card_of(operation), text_of(operation), place)
            operations.append(operation)
            yield
            if filler.full:
                self.made.append(Made(filler.drawer(), tuple(operations), before))
                filler, operations, before = Filler(), [], None
                yield
        if operations:
            self.made.append(Made(filler.drawer(), tuple(operations), before))

    @property
    def filed(self) -> Filed:
        """What the state's operations have in drawers, with what was made."""
        filed = self.state.operations.filed
        for one in self.made:
            filed = filed.replaced(one.before, one.drawer, 0)
        return filed

    def loose(self) -> list[Operation]:
        """The state's operations that stay loose."""
        made = {operation.operation_id for one in self.made for operation in one.operations}
        return [one for one in self.state.operations.loose.values() if one.operation_id not in made]

    def parts(self) -> Iterator[Part]:
        """What was made, so little at a time that each is put into a state in a moment."""
        for made in self.made:
            for begin in range(0, len(made.operations), PART):
                yield Part(made, made.operations[begin : begin + PART], begin == 0)

    def into(self, state: State, part: Part) -> State:
        """The same state, a later one than that of this, with a part filed of it: each in its
        turn. What has moved since stays as it is: its row is gone from the beginning."""
        drawer, filed = part.made.drawer, state.operations.filed
        loose = state.operations.loose
        kept = [one for one in part.operations if loose.get(one.operation_id) is one]
        now = _bits(drawer, (one.serial for one in kept))
        if part.first:
            new = _bits(drawer, (one.serial for one in part.made.operations))
            gone = (self._left_since(state, part.made) | new) & ~now
            filed = filed.replaced(part.made.before, drawer, gone)
        elif drawer in filed.drawers:
            filed = filed.marked(drawer, filed.gone.get(drawer, 0) & ~now)
        else:  # all that was put in before has left again
            filed = filed.replaced(None, drawer, ((1 << len(drawer)) - 1) & ~now)
        return without_loose(state, kept, filed)

    def _waiting(self) -> Iterator[tuple[int, Operation]]:
        """Those to be filed, with their places in the line of those to be evicted."""
        loose = self.state.operations.loose
        line = self.state.loose_finished.items()
        return ((place, loose[one]) for place, one in line if packable(loose[one]))

    def _open_drawer(self) -> Drawer | None:
        """The one that has room."""
        drawers = self.state.operations.filed.drawers
        return drawers[-1] if drawers and not drawers[-1].full else None

    def _rows_of(self, drawer: Drawer | None) -> Iterator[Row]:
        if drawer is not None:
            standing = {*self.state.operations.filed.rows_of(drawer)}
            yield from (row for n, row in enumerate(drawer.rows()) if n in standing)

    def _left_since(self, state: State, made: Made) -> int:
        """Which rows of the drawer have left the one that it takes over from meanwhile."""
        before = made.before
        if before is None:
            return 0
        all_, filed = (1 << len(before)) - 1, state.operations.filed
        now = filed.gone.get(before, 0) if before in filed.drawers else all_
        left = now & ~self.state.operations.filed.gone.get(before, 0)
        rows = (row for row in range(len(before)) if left >> row & 1)
        return _bits(made.drawer, (before.serials[row] for row in rows))


def _bits(drawer: Drawer, serials: Iterable[int]) -> int:
    """The rows of these, as `Filed` marks them."""
    bits = 0
    for serial in serials:
        row = drawer.numbered(serial)
        assert row is not None
        bits |= 1 << row
    return bits


def filing_of(state: State) -> Filing:
    """That of the state, done."""
    filing = Filing(state)
    for _ in filing.steps():
        pass
    return filing
