"""Filed operations: the finished ones that are in drawers, and which of them are gone since.

A drawer never changes, so what leaves one is marked here; when all of it left, it goes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import attrs
import orjson
from immutables import Map

from supervisor.core.changed import changed
from supervisor.core.drawer import Drawer, Packed, name_of, texts
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId

Message = tuple[SessionId, str]
Fits = Callable[[dict[str, Any]], bool]
"""Whether a card, as JSON types, is that of what is looked for."""


@attrs.frozen(eq=False, slots=False)  # there is one (see changed.py)
class Filed:
    """Persistent; what was filed last is in the last drawer."""

    drawers: tuple[Drawer, ...] = ()
    # A bit for each row that left, the least for the first.
    gone: Map[Drawer, int] = attrs.field(factory=Map[Drawer, int])
    # How many there are.
    count: int = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Packed]:
        return (drawer.packed_at(row) for drawer, row in self._standing())

    def in_line(self) -> Iterator[tuple[int, OperationId]]:
        """Each with its place, the oldest first."""
        waiting = sorted(self.drawers, key=attrgetter("first"), reverse=True)
        begun: list[tuple[int, OperationId, Iterator[tuple[int, OperationId]]]] = []
        while waiting or begun:
            # Mostly whoever asks wants the first alone: no drawer is opened before its turn.
            while waiting and (not begun or waiting[-1].first < begun[0][0]):
                line = self._in_line(waiting.pop())
                heapq.heappush(begun, (*next(line), line))
            place, one, line = begun[0]
            yield place, one
            after = next(line, None)
            if after is None:
                heapq.heappop(begun)
            else:
                heapq.heapreplace(begun, (*after, line))

    def calls(self) -> Iterator[tuple[CallId, OperationId]]:
        """Each call with its operation."""
        return ((CallId(call), one) for card, one in self._cards() for call in _in(card, "calls"))

    def effects(self) -> Iterator[tuple[EffectId, OperationId]]:
        found = ((one, effect) for card, one in self._cards() for effect in _in(card, "effects"))
        return ((EffectId(effect), one) for one, effect in found)

    def messages(self) -> Iterator[tuple[Message, OperationId]]:
        return ((_message(card), one) for card, one in self._cards())

    def get(self, one: OperationId) -> Packed | None:
        found = self._found(one)
        return None if found is None else found[0].packed_at(found[1])

    def __contains__(self, one: object) -> bool:
        return isinstance(one, str) and self._found(OperationId(one)) is not None

    def updated_at(self, one: OperationId) -> int | None:
        found = self._found(one)
        return None if found is None else found[0].updated[found[1]]

    def place_of(self, one: OperationId) -> int:
        """Where it, which must be there, stands in the line of those to be evicted."""
        drawer, row = self._there(one)
        return drawer.places[row]

    def with_call(self, call_id: CallId) -> OperationId | None:
        return self._by_card(name_of("call", call_id), lambda card: call_id in _in(card, "calls"))

    def with_effect(self, effect_id: EffectId) -> OperationId | None:
        named = name_of("effect", effect_id)
        return self._by_card(named, lambda card: effect_id in _in(card, "effects"))

    def of_message(self, message: Message) -> OperationId | None:
        return self._by_card(name_of("message", *message), lambda card: _message(card) == message)

    def numbered(self, serial: int) -> OperationId | None:
        """That with this serial."""
        for drawer in reversed(self.drawers):
            row = drawer.numbered(serial)
            if row is not None and self.stands(drawer, row):
                return drawer.id_at(row)
        return None

    def stands(self, drawer: Drawer, row: int) -> bool:
        """Whether this row of one of the drawers has not left."""
        return not self.gone.get(drawer, 0) >> row & 1

    def without(self, one: OperationId) -> Filed:
        """It must be there."""
        drawer, row = self._there(one)
        return self.marked(drawer, self.gone.get(drawer, 0) | 1 << row)

    def marked(self, drawer: Drawer, gone: int) -> Filed:
        """With these rows gone of one of the drawers."""
        count = self.count - (gone.bit_count() - self.gone.get(drawer, 0).bit_count())
        if 0 < gone.bit_count() < len(drawer):
            return changed(self, gone=self.gone.set(drawer, gone), count=count)
        marks = self.gone.delete(drawer) if drawer in self.gone else self.gone
        left = tuple(one for one in self.drawers if one is not drawer) if gone else self.drawers
        return changed(self, drawers=left, gone=marks, count=count)

    def replaced(self, before: Drawer | None, drawer: Drawer, gone: int) -> Filed:
        """With a drawer at the end, in the place of one whose rows are in it too; so many rows
        of it are gone already."""
        kept = self
        if before is not None and before in self.drawers:
            kept = self.marked(before, (1 << len(before)) - 1)
        added = changed(kept, drawers=(*kept.drawers, drawer), count=kept.count + len(drawer))
        return added.marked(drawer, gone) if gone else added

    def _standing(self) -> Iterator[tuple[Drawer, int]]:
        return ((drawer, row) for drawer in self.drawers for row in self.rows_of(drawer))

    def rows_of(self, drawer: Drawer) -> Iterator[int]:
        """The rows of one of the drawers that have not left."""
        gone = self.gone.get(drawer, 0)
        # The oldest leave first: begin behind the ones below the first that stands.
        first = (~gone & (gone + 1)).bit_length() - 1
        return (row for row in range(first, len(drawer)) if not gone >> row & 1)

    def _in_line(self, drawer: Drawer) -> Iterator[tuple[int, OperationId]]:
        return ((drawer.places[row], drawer.id_at(row)) for row in self.rows_of(drawer))

    def _cards(self) -> Iterator[tuple[dict[str, Any], OperationId]]:
        return ((_card(one), one.operation_id) for one in self)

    def _found(self, one: OperationId) -> tuple[Drawer, int] | None:
        rows = self._named(name_of("operation", one))
        return next(((drawer, row) for drawer, row in rows if drawer.id_at(row) == one), None)

    def _there(self, one: OperationId) -> tuple[Drawer, int]:
        found = self._found(one)
        if found is None:
            raise KeyError(one)
        return found

    def _by_card(self, print_: int, fits: Fits) -> OperationId | None:
        for drawer, row in self._named(print_):
            if fits(_card(drawer.packed_at(row))):
                return drawer.id_at(row)
        return None

    def _named(self, print_: int) -> Iterator[tuple[Drawer, int]]:
        """The rows that may have this name. All drawers are asked for each that is new."""
        asked = [drawer for drawer in self.drawers if drawer.may_have(print_)]
        rows = ((drawer, row) for drawer in reversed(asked) for row in drawer.named(print_))
        return (one for one in rows if self.stands(*one))


def _card(packed: Packed) -> dict[str, Any]:
    """Its JSON types; members with their defaults are left out of it."""
    card: dict[str, Any] = orjson.loads(texts(packed)[0])
    return card


def _in(card: dict[str, Any], name: str) -> list[str]:
    found: list[str] = card.get(name, [])
    return found


def _message(card: dict[str, Any]) -> Message:
    return SessionId(card["session_id"]), card["request_id"]


NONE_FILED = Filed()
