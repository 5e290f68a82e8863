"""A state as a snapshot leaves it in memory."""

from __future__ import annotations

from supervisor.core.contents import in_memory
from supervisor.core.filing import filed
from supervisor.core.state import State


def packed(state: State) -> State:
    """With each finished operation filed that can be."""
    return filed(state, in_memory)
