"""How often the pool has a sandbox ready, by how long the client pauses between two requests."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio

from bench import floors, ours
from bench.figures import Series
from sandbox.spec import Spec

PAUSES_MS = (0, 1, 5, 20)


@attrs.frozen
class Pace:
    """One pause between requests."""

    pause_ms: int
    hit_rate: float
    """Of all requests, those that found a sandbox ready."""
    proven: Series
    popen: Series
    """At the same pace, in turn with it."""


async def measure(root: Path | None, spec: Spec, *, count: int, pool: int) -> list[Pace]:
    return [await _paced(root, spec, count, pool, pause_ms) for pause_ms in PAUSES_MS]


async def _paced(root: Path | None, spec: Spec, count: int, pool: int, pause_ms: int) -> Pace:
    proven: list[int] = []
    async with ours.launched(root, pool=pool) as launcher:
        await ours.run(launcher, spec)
        await ours.settled()
        before = ours.hits(launcher)
        for _ in range(count):
            proven.append((await ours.run(launcher, spec)).record_ns)
            await trio.sleep(pause_ms / 1000)
        hit_rate = (ours.hits(launcher) - before) / count
    popen: list[int] = []
    for _ in range(count):
        popen.append(floors.popen())
        await trio.sleep(pause_ms / 1000)
    return Pace(pause_ms, hit_rate, Series((tuple(proven),)), Series((tuple(popen),)))
