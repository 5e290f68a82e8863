"""A state as a snapshot leaves it in memory."""

from __future__ import annotations

from supervisor.core.filing import filing_of
from supervisor.core.state import State


def packed(state: State) -> State:
    """With each finished operation filed that can be."""
    filing = filing_of(state)
    for part in filing.parts():
        state = filing.into(state, part)
    return state
