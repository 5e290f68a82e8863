"""Filing: finished operations are packed and put into drawers, which a snapshot carries as they
are and memory keeps instead of them.

A thread packs, of a state that is past by then; what it made takes the place of the operations a
drawer at a time. Nothing is filed by a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from supervisor.core.card import Card, card_of
from supervisor.core.contents import Put, away
from supervisor.core.drawer import Drawer, Row, drawer_of, is_full, names_of
from supervisor.core.evolve.put import without_loose
from supervisor.core.filed import Filed
from supervisor.core.packing import Packer, packable
from supervisor.core.state import Operation, State
from supervisor.core.text import text_of

# So many are put into a state in one turn of the loop: a few milliseconds.
PART = 256


class Filler:
    """A drawer that is being filled."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._packer = Packer()
        self._names = self._bytes = 0

    def hold(self, row: Row) -> None:
        """One that another drawer has."""
        self._packer.learn(row.packed)
        self._put(row)

    def add(self, card: Card, text: bytes, place: int) -> None:
        packed = self._packer.packed(card, text)
        message = (card.session_id, card.request_id)
        names = names_of(card.operation_id, message, card.calls, card.effects)
        self._put(Row(packed, place, names))

    def _put(self, row: Row) -> None:
        self._rows.append(row)
        self._names += len(row.names)
        self._bytes += len(row.packed.content)

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
    # The row of each serial.
    rows: Mapping[int, int]

    def bits(self, serials: Iterable[int]) -> int:
        """The rows of these, as `Filed` marks them."""
        bits = 0
        for serial in serials:
            bits |= 1 << self.rows[serial]
        return bits


def _made(filler: Filler, operations: Iterable[Operation], before: Drawer | None) -> Made:
    drawer = filler.drawer()
    rows = {serial: row for row, serial in enumerate(drawer.serials)}
    return Made(drawer, tuple(operations), before, rows)


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
        waiting = [*self._waiting()]
        if not waiting:
            return
        before, filler, operations = self._open_drawer(), Filler(), list[Operation]()
        for row in self._rows_of(before):
            filler.hold(row)
            yield
        for place, operation in waiting:
            filler.add(card_of(operation), text_of(operation), place)
            operations.append(operation)
            yield
            if filler.full:
                self.made.append(_made(filler, operations, before))
                filler, operations, before = Filler(), [], None
                yield
        if operations:
            self.made.append(_made(filler, operations, before))

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
        now = part.made.bits(one.serial for one in kept)
        if part.first:
            new = part.made.bits(one.serial for one in part.made.operations)
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
        return made.bits(before.serials[row] for row in rows)


def filing_of(state: State) -> Filing:
    """That of the state, done."""
    filing = Filing(state)
    for _ in filing.steps():
        pass
    return filing


def filed(state: State, put: Put) -> State:
    """The same state with all of it done; what need not be in memory is where `put` puts it."""
    filing = filing_of(state)
    for part in filing.parts():
        state = filing.into(state, part)
    for one in filing.made:
        away(one.drawer, put)
    return state
