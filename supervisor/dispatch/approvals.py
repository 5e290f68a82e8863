"""Approvals that nobody gives: they expire by the wall clock, which may be set meanwhile."""

from __future__ import annotations

import sys

import trio

from supervisor.core.step_programs import ApprovalsTimePassed
from supervisor.dispatch.engine import Engine, Unavailable

# The clock is looked at again at least so often: it may have been set.
LOOK_S = 30.0
_NS_PER_S = 1_000_000_000


async def expire_approvals(engine: Engine) -> None:
    """Runs until it is cancelled."""
    while True:
        with trio.move_on_after(_until_next(engine)):
            await engine.approvals_changed.park()
        try:
            while engine.state.approvals and not engine.draining:
                if (await engine.commit(ApprovalsTimePassed(engine.now()))).repeated:
                    break
        except Unavailable as unavailable:
            print(f"effectd: no approval expires now: {unavailable}", file=sys.stderr)  # noqa: T201  # for the service manager
            await trio.sleep(LOOK_S)


def _until_next(engine: Engine) -> float:
    """Seconds until the next one expires, at most LOOK_S; without one, until there is."""
    if not engine.state.approvals:
        return float("inf")
    found = (
        (engine.state.operations[one].program, node) for one, node in engine.state.approvals.items()
    )
    next_at = min(program.approvals[node].expires_at for program, node in found if program)
    return min(max(next_at - engine.now().wall, 0) / _NS_PER_S, LOOK_S)
