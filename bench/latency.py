"""How long one run takes: floors, peer and effectd in turn, each after the same pause."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import trio

from bench import floors, ours
from bench.figures import Series
from sandbox.client import Launcher
from sandbox.spec import Spec

POPEN = "Popen"
POOLED, COLD, FIRST, BWRAP = (
    "effectd, pooled",
    "effectd, cold",
    "effectd, first of a profile",
    "bwrap",
)
PROVEN, DRAINED, GONE, REAPED = "tree proven dead", "outputs read", "init's pidfd", "reaped"
_WARM_UP = 5

Key = tuple[str, str]
"""What ran, and what was waited for."""
Method = Callable[[], Awaitable[dict[str, int]]]


@attrs.frozen
class Latencies:
    """Every duration that was taken, by what ran and what was waited for."""

    series: dict[Key, Series]

    @property
    def floor(self) -> Series:
        return self.series[POPEN, REAPED]


async def measure(
    root: Path | None, spec: Spec, *, count: int, runs: int, pause_ms: int, pool: int
) -> Latencies:
    """``runs`` times ``count`` rounds, in each of which everything runs once.

    Everything begins after ``pause_ms`` of rest, so that each finds the same idle machine, and the
    pool the time to fill up again.
    """
    found: dict[Key, list[tuple[int, ...]]] = {}
    async with (
        ours.launched(root, pool=pool) as pooled,
        ours.launched(root, pool=0) as cold,
        ours.launched(root, pool=0) as first,
    ):
        methods = _methods(pooled, cold, first, spec)
        for _ in range(runs):
            for key, values in (await _one_run(methods, count, pause_ms)).items():
                found.setdefault(key, []).append(tuple(values))
    return Latencies({key: Series(tuple(values)) for key, values in found.items()})


async def _one_run(methods: dict[str, Method], count: int, pause_ms: int) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for turn in range(_WARM_UP + count):
        for name, method in methods.items():
            await trio.sleep(pause_ms / 1000)
            for proof, spent in (await method()).items():
                if turn >= _WARM_UP:
                    found.setdefault((name, proof), []).append(spent)
    return found


def _methods(pooled: Launcher, cold: Launcher, first: Launcher, spec: Spec) -> dict[str, Method]:
    methods = {name: _blocking(floor) for name, floor in floors.FLOORS.items()}
    methods[POOLED] = _ours(pooled, lambda: spec)
    methods[COLD] = _ours(cold, lambda: spec)
    # Equal specs share a profile, so each of these differs, by a limit that costs the same.
    sizes = itertools.count(spec.file_size_max + 1)
    methods[FIRST] = _ours(first, lambda: attrs.evolve(spec, file_size_max=next(sizes)))
    if floors.bubblewrap_version() is not None:
        methods[BWRAP] = _blocking(floors.bubblewrap)
    return methods


def _blocking(floor: Callable[[], int]) -> Method:
    async def method() -> dict[str, int]:
        return {REAPED: floor()}

    return method


def _ours(launcher: Launcher, spec: Callable[[], Spec]) -> Method:
    async def method() -> dict[str, int]:
        run = await ours.run(launcher, spec())
        return {PROVEN: run.record_ns, DRAINED: run.drained_ns, GONE: run.gone_ns}

    return method
