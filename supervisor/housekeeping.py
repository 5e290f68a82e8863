"""What goes with time: operations, tombstones and outputs that were kept long enough, and blobs
that no result is in any more.

What goes is decided like everything else, and journaled; this only asks, now and then. The wall
clock is believed: one that is set forward by a year makes everything a year older.
"""

from __future__ import annotations

import contextlib
import time

import trio

from supervisor.core.step import TimePassed
from supervisor.dispatch import Engine, Unavailable, output

# Everything kept is kept for days.
EVERY_S = 600
_DAY_S = 86_400


async def housekeep(engine: Engine) -> None:
    """At once, then every few minutes, until cancelled."""
    while True:
        # What cannot be written down goes later.
        with contextlib.suppress(Unavailable):
            await tidy(engine)
        with contextlib.suppress(Unavailable, OSError):
            await engine.blobs.sweep(lambda: engine.state.blobs, engine.settled)
        before_s = time.time() - engine.config.retention.output_days * _DAY_S
        directory = engine.config.state_dir / "output"
        await trio.to_thread.run_sync(output.forget, directory, before_s)
        await trio.sleep(EVERY_S)


async def tidy(engine: Engine) -> None:
    """Commit a frame at a time until nothing is kept too long. Raises Unavailable."""
    while not engine.draining:
        retention = engine.config.retention
        event = TimePassed(
            engine.now(),
            engine.config.limits.operations_kept,
            retention.finished_days,
            retention.tombstone_days,
            retention.abandon_days,
        )
        await engine.make_room()
        decision = await engine.commit(event)
        if decision.repeated:
            return
