"""What finds operations, loose and filed, as one: views that cost nothing to make."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar, cast

import attrs
from immutables import Map

from supervisor.core.filed import Filed
from supervisor.core.ids import OperationId
from supervisor.core.line import Line

_Name = TypeVar("_Name", bound=Hashable)


@attrs.frozen(eq=False)
class Found(Generic[_Name]):
    """The operation of each name: of each call, say. A mapping, as far as anybody needs one."""

    loose: Map[_Name, OperationId]
    find: Callable[[_Name], OperationId | None]
    # Those of the filed ones, for who wants all of them.
    filed: Callable[[], Iterator[tuple[_Name, OperationId]]]

    def get(self, name: _Name) -> OperationId | None:
        loose = self.loose.get(name)
        return loose if loose is not None else self.find(name)

    def __getitem__(self, name: _Name) -> OperationId:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: _Name) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[_Name]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[_Name]:
        """All names, those of the loose operations first."""
        return [*self.loose, *(name for name, _ in self.filed())]

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # 3.12 has it
        if not isinstance(other, Found):
            return NotImplemented
        return {**self} == {**cast("Found[_Name]", other)}

    __hash__ = None  # type: ignore[assignment]  # it is compared, and never a key


@attrs.frozen(eq=False)
class InLine:
    """The operations that may be evicted: the one that no record has been about for longest
    comes first."""

    loose: Line
    filed: Filed

    def __len__(self) -> int:
        return len(self.loose) + len(self.filed)

    def __contains__(self, operation_id: object) -> bool:
        return operation_id in self.loose or operation_id in self.filed

    def __iter__(self) -> Iterator[OperationId]:
        return (one for _, one in self.places())

    def places(self) -> Iterator[tuple[int, OperationId]]:
        """Each with its place."""
        return heapq.merge(self.loose.items(), self.filed.in_line())

    @property
    def oldest(self) -> OperationId | None:
        return next(iter(self), None)

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # 3.12 has it
        if not isinstance(other, InLine):
            return NotImplemented
        return self.loose.next == other.loose.next and [*self.places()] == [*other.places()]

    __hash__ = None  # type: ignore[assignment]  # it is compared, and never a key
