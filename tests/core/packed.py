"""A state as a snapshot leaves it in memory."""

from __future__ import annotations

import attrs

from supervisor.core.operations import Packed
from supervisor.core.state import Operation, State
from supervisor.core.whole import lines


def packed(state: State) -> State:
    """With each finished operation packed for which a snapshot makes a card."""
    made: list[tuple[Operation, Packed]] = []
    for _ in lines(state, lambda operation, small: made.append((operation, small))):
        pass
    return attrs.evolve(state, operations=state.operations.with_packed(made))
