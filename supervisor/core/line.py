"""Operations that stand in a line: the oldest is found at once, and any may leave."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from immutables import Map

from supervisor.core.changed import changed
from supervisor.core.ids import OperationId


@attrs.frozen(slots=False)  # few, and copied often (see changed.py)
class Line:
    """Persistent. Places are given once, in order; nobody stands before `first`."""

    standing: Map[int, OperationId] = attrs.field(factory=Map[int, OperationId])
    places: Map[OperationId, int] = attrs.field(factory=Map[OperationId, int])
    first: int = 0
    next: int = 0

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, operation_id: object) -> bool:
        return operation_id in self.places

    def __iter__(self) -> Iterator[OperationId]:
        """Oldest first."""
        for place in range(self.first, self.next):
            if place in self.standing:
                yield self.standing[place]

    @property
    def oldest(self) -> OperationId | None:
        return self.standing.get(self.first)

    def joined(self, operation_id: OperationId) -> Line:
        """With the operation at the end; it must not stand in it already."""
        return changed(
            self,
            standing=self.standing.set(self.next, operation_id),
            places=self.places.set(operation_id, self.next),
            next=self.next + 1,
        )

    def left(self, operation_id: OperationId) -> Line:
        """Without the operation, if it stands in it."""
        place = self.places.get(operation_id)
        if place is None:
            return self
        standing, first = self.standing.delete(place), self.first
        while first < self.next and first not in standing:
            first += 1
        return changed(
            self, standing=standing, places=self.places.delete(operation_id), first=first
        )


def line_of(places: Iterator[tuple[int, OperationId]], following: int) -> Line:
    """The line in which these have these places, and the next to come has `following`."""
    standing = Map(places)
    first = min(standing, default=following)
    return Line(standing, Map((one, place) for place, one in standing.items()), first, following)
