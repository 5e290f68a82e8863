"""Operations that stand in a line: the oldest is found at once, and any may leave."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from immutables import Map

from supervisor.core.changed import changed
from supervisor.core.ids import OperationId
from supervisor.core.ordered import Ordered, ordered


@attrs.frozen(slots=False)  # few, and copied often (see changed.py)
class Line:
    """Persistent. Places are given once, in order; however many nobody stands at any more."""

    standing: Map[int, OperationId] = attrs.field(factory=Map[int, OperationId])
    places: Map[OperationId, int] = attrs.field(factory=Map[OperationId, int])
    taken: Ordered = attrs.field(factory=Ordered)
    next: int = 0

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, operation_id: object) -> bool:
        return operation_id in self.places

    def __iter__(self) -> Iterator[OperationId]:
        """Oldest first."""
        return (one for _, one in self.items())

    def items(self) -> Iterator[tuple[int, OperationId]]:
        """Each with its place, the oldest first."""
        return ((place, self.standing[place]) for place in self.taken)

    def joined(self, operation_id: OperationId) -> Line:
        """With the operation at the end; it must not stand in it already."""
        return changed(self.returned(operation_id, self.next), next=self.next + 1)

    def returned(self, operation_id: OperationId, place: int) -> Line:
        """With the operation at a place that it was given before."""
        return changed(
            self,
            standing=self.standing.set(place, operation_id),
            places=self.places.set(operation_id, place),
            taken=self.taken.joined(place),
        )

    def left(self, operation_id: OperationId) -> Line:
        """Without the operation, if it stands in it."""
        place = self.places.get(operation_id)
        if place is None:
            return self
        return changed(
            self,
            standing=self.standing.delete(place),
            places=self.places.delete(operation_id),
            taken=self.taken.left(place),
        )


def line_of(places: Iterator[tuple[int, OperationId]], following: int) -> Line:
    """The line in which these have these places, and the next to come has `following`."""
    standing = Map(places)
    by_id = Map((one, place) for place, one in standing.items())
    return Line(standing, by_id, ordered(standing), following)
