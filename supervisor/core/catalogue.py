"""What lists find operations by, so that nobody looks at all of them.

An operation's number is its serial: the order of acceptance. Nothing is in a catalogue that is
not in the operations: the fold keeps it in step, and a start makes it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
from immutables import Map

from supervisor.core.ordered import END, Ordered

Facet = tuple[str, str | int]
"""What an operation is found by: ("all", ""), ("owner", uid), ("session", its id), ("state", its
word), ("handler", the name of one that it calls), ("outcome", what is known of an effect of it, or
UNRESOLVED where that waits for somebody)."""

ALL: Facet = ("all", "")
UNRESOLVED = "unresolved"
_EMPTY = Ordered()


@attrs.frozen(slots=False)  # there is one, copied often (see changed.py)
class Catalogue:
    facets: Map[Facet, Ordered] = attrs.field(factory=Map[Facet, Ordered])
    # How many operations each owner has in each state.
    counts: Map[tuple[int, str], int] = attrs.field(factory=Map[tuple[int, str], int])

    def of(self, kind: str, value: str | int) -> Ordered:
        return self.facets.get((kind, value), _EMPTY)

    def owned(self, owner: int | None) -> list[list[Ordered]]:
        """The groups of `newest` that leave an owner's; of None everybody's."""
        return [] if owner is None else [[self.of("owner", owner)]]

    def newest(
        self, wanted: Iterable[Sequence[Ordered]], below: int | None = None
    ) -> Iterator[int]:
        """The serials of those that are in one set of each group, newest first, below one.

        It takes steps, not looks at operations: as many as the sets change places.
        """
        groups = [(self.of(*ALL),), *wanted]
        number = _common(groups, END - 1 if below is None else min(below, END) - 1)
        while number is not None:
            yield number
            number = _common(groups, number - 1)


def _common(groups: Sequence[Sequence[Ordered]], number: int) -> int | None:
    """The greatest, not above `number`, that is in one set of each group."""
    while True:
        found = number
        for sets in groups:
            nearest = [n for n in (one.at_most(found) for one in sets) if n is not None]
            if not nearest:
                return None
            found = max(nearest)
        if found == number:
            return found
        number = found
