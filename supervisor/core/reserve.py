"""How much room on disk what is already running needs for its end.

New work is admitted only while this much stays guaranteed, so that an outcome never
meets a full disk. Bytes, estimated from above: a frame's own limits bound its size.
"""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core.state import State

# A confirmation without its result, an attempt's end without one, and what recovery,
# cancelling and resolving need between them.
CONFIRMATION_BYTES = 2_048
END_BYTES = 4_096
UPKEEP_BYTES = 131_072


def reserve_bytes(state: State, cost: Callable[[int], int]) -> int:
    """`cost` says what a frame with a payload of so many bytes takes on disk at most."""
    ends = len(state.moving) + len(state.reconciling)
    return UPKEEP_BYTES + ends * cost(END_BYTES) + state.leaves * cost(CONFIRMATION_BYTES)
