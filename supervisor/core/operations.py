"""The kept operations, by id: a persistent map in which a finished one may stand packed.

Packed or not is no part of the value: maps that give the same operations are equal. Only the
place that a map takes differs, and what a look costs.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, cast

import attrs
from immutables import Map

from supervisor.core.ids import OperationId

if TYPE_CHECKING:  # its module needs this one
    from supervisor.core.state import Operation


@attrs.frozen
class Packed:
    """A finished operation in little room, and what is looked at without unpacking it."""

    operation_id: OperationId
    serial: int
    updated_at: int
    content: bytes
    sample: bytes
    unpack: Callable[[Packed], Operation]


_NONE: Map[OperationId, Operation | Packed] = Map()


class Operations:
    """Never changes. `set` and `delete` give another one, as those of a `Map` do."""

    __slots__ = ("_held",)

    def __init__(self, held: Map[OperationId, Operation | Packed] = _NONE) -> None:
        self._held = held

    def __getitem__(self, operation_id: OperationId) -> Operation:
        held = self._held[operation_id]
        return held.unpack(held) if isinstance(held, Packed) else held

    def get(self, operation_id: OperationId) -> Operation | None:
        return self[operation_id] if operation_id in self._held else None

    def __contains__(self, operation_id: object) -> bool:
        return operation_id in self._held

    def __iter__(self) -> Iterator[OperationId]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # 3.12 has it
        if not isinstance(other, Operations):
            return NotImplemented
        ours, theirs = self._held, other._held
        return len(ours) == len(theirs) and all(
            one in theirs and (ours[one] == theirs[one] or self[one] == other[one]) for one in ours
        )

    __hash__ = None  # type: ignore[assignment]  # it is compared, and never a key

    def set(self, operation_id: OperationId, operation: Operation) -> Operations:
        return Operations(self._held.set(operation_id, operation))

    def delete(self, operation_id: OperationId) -> Operations:
        return Operations(self._held.delete(operation_id))

    def values(self) -> ValuesView[Operation]:
        """All, of which the packed ones are unpacked as they come."""
        return ValuesView(cast("Mapping[OperationId, Operation]", self))

    def items(self) -> ItemsView[OperationId, Operation]:
        return ItemsView(cast("Mapping[OperationId, Operation]", self))

    def held(self) -> Iterator[Operation | Packed]:
        """All, each as it stands here."""
        return iter(self._held.values())

    def loose(self) -> Iterator[Operation]:
        """Those that are not packed; every one that is not finished is among them."""
        return (one for one in self._held.values() if not isinstance(one, Packed))

    def as_held(self, operation_id: OperationId) -> Operation | Packed | None:
        """One as it stands here."""
        return self._held.get(operation_id)

    def updated_at(self, operation_id: OperationId) -> int:
        """When a record was about it last (ns)."""
        return self._held[operation_id].updated_at

    def with_packed(self, made: Iterable[tuple[Operation, Packed]]) -> Operations:
        """With each of these packed that has not become another one since."""
        held = self._held.mutate()
        for operation, packed in made:
            one = operation.operation_id
            if held.get(one) is operation:
                held[one] = packed
        return Operations(held.finish())
