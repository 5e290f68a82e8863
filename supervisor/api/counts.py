"""How many there are: what a status says of operations and effects."""

from __future__ import annotations

from supervisor.core.catalogue import UNRESOLVED
from supervisor.core.lineage import needs_of, unresolved
from supervisor.core.moment import Moment
from supervisor.core.state import State

_NEEDS = ("person", "reconciler", "client")


def operations_by_state(state: State, owner: int | None) -> dict[str, int]:
    """How many operations are in each state, of that owner or, with None, of everybody."""
    counted: dict[str, int] = {}
    for (uid, word), count in state.catalogue.counts.items():
        if owner in {None, uid}:
            counted[word] = counted.get(word, 0) + count
    return counted


def effects_by_need(state: State, owner: int | None, moment: Moment) -> dict[str, int]:
    """How many unknown effects of them wait for whom."""
    catalogue = state.catalogue
    counted: dict[str, int] = dict.fromkeys(_NEEDS, 0)
    groups = [[catalogue.of("outcome", UNRESOLVED)], *catalogue.owned(owner)]
    for operation in (state.operations[one] for one in state.newest(groups)):
        for effect in operation.effects.values():
            if unresolved(effect):
                counted[needs_of(operation, effect, moment).value] += 1
    return counted
