"""The kept operations, by id: a persistent map in which finished ones may stand filed.

Filed or not is no part of the value: maps that give the same operations are equal. Only the place
that a map takes differs, and what a look costs.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, cast

from immutables import Map

from supervisor.core.drawer import Packed
from supervisor.core.filed import NONE_FILED, Filed
from supervisor.core.ids import OperationId

if TYPE_CHECKING:  # its module needs this one
    from supervisor.core.state import Operation

_NONE: Map[OperationId, Operation] = Map()


class Operations:
    """Never changes. `set` and `delete` give another one, as those of a `Map` do."""

    __slots__ = ("filed", "loose")

    def __init__(
        self, loose: Map[OperationId, Operation] = _NONE, filed: Filed = NONE_FILED
    ) -> None:
        self.loose = loose
        self.filed = filed

    def __getitem__(self, operation_id: OperationId) -> Operation:
        held = self.as_held(operation_id)
        if held is None:
            raise KeyError(operation_id)
        return held.unpack(held) if isinstance(held, Packed) else held

    def get(self, operation_id: OperationId) -> Operation | None:
        held = self.as_held(operation_id)
        return held.unpack(held) if isinstance(held, Packed) else held

    def __contains__(self, operation_id: object) -> bool:
        return operation_id in self.loose or operation_id in self.filed

    def __iter__(self) -> Iterator[OperationId]:
        yield from self.loose
        for _, one in self.filed.in_line():
            yield one

    def __len__(self) -> int:
        return len(self.loose) + len(self.filed)

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # 3.12 has it
        if not isinstance(other, Operations):
            return NotImplemented
        return len(self) == len(other) and all(
            one in other and self[one] == other[one] for one in self
        )

    __hash__ = None  # type: ignore[assignment]  # it is compared, and never a key

    def set(self, operation_id: OperationId, operation: Operation) -> Operations:
        """Of one that is not filed."""
        return Operations(self.loose.set(operation_id, operation), self.filed)

    def delete(self, operation_id: OperationId) -> Operations:
        if operation_id in self.loose:
            return Operations(self.loose.delete(operation_id), self.filed)
        return Operations(self.loose, self.filed.without(operation_id))

    def values(self) -> ValuesView[Operation]:
        """All, of which the filed ones are unpacked as they come."""
        return ValuesView(cast("Mapping[OperationId, Operation]", self))

    def items(self) -> ItemsView[OperationId, Operation]:
        return ItemsView(cast("Mapping[OperationId, Operation]", self))

    def as_held(self, operation_id: OperationId) -> Operation | Packed | None:
        """One as it stands here."""
        loose = self.loose.get(operation_id)
        return loose if loose is not None else self.filed.get(operation_id)

    def updated_at(self, operation_id: OperationId) -> int:
        """When a record was about it last (ns)."""
        loose = self.loose.get(operation_id)
        at = loose.updated_at if loose is not None else self.filed.updated_at(operation_id)
        if at is None:
            raise KeyError(operation_id)
        return at
