"""``bench spawn``: what a fully contained run of /bin/true costs, from request to proven death."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import attrs
import trio

from bench import facts, footprint, goals, host, latency, ours, thinking, throughput
from bench.floors import bubblewrap_version
from bench.footprint import Footprint
from bench.goals import Goal
from bench.latency import Latencies
from bench.thinking import Pace
from bench.throughput import Rate
from sandbox.spec import LAYERS, Spec

IN_FLIGHT = (1, 2, 8)


@attrs.frozen
class Settings:
    """How much is measured."""

    count: int
    runs: int
    pause_ms: int
    pool: int


@attrs.frozen
class Report:
    """Everything that one invocation found."""

    settings: Settings
    machine: dict[str, str]
    loads: tuple[float, float]
    """Of the minute before and of the last minute of measuring."""
    layers: tuple[str, ...]
    not_here: tuple[str, ...]
    """Layers that this host cannot give."""
    bubblewrap: str | None
    latencies: Latencies
    popen_rates: dict[int, list[Rate]]
    rates: dict[int, list[Rate]]
    paces: list[Pace]
    footprints: list[Footprint]
    goals: list[Goal]


class LayerMissing(Exception):
    """A sandbox lacks a layer that this host could give: its figures would flatter."""


def spawn(settings: Settings) -> Report:
    """Measure it all; some minutes. LayerMissing, or RuntimeError when a run goes wrong."""
    with host.cgroup_root() as root:
        here = host.layers_here(root)
        gc.collect()
        gc.freeze()  # as the daemon's own start-up objects are by the time it serves
        return trio.run(_measured, settings, root, here)


async def _measured(settings: Settings, root: Path | None, here: frozenset[str]) -> Report:
    before = facts.load()
    spec = host.spec_here(here)
    layers = await all_layers(root, spec, here)
    _say("latency: floors, peer and effectd in turn")
    latencies = await latency.measure(
        root,
        spec,
        count=settings.count,
        runs=settings.runs,
        pause_ms=settings.pause_ms,
        pool=settings.pool,
    )
    popen_rates: dict[int, list[Rate]] = {}
    rates: dict[int, list[Rate]] = {}
    for _ in range(settings.runs):
        for at_once in IN_FLIGHT:
            _say(f"back to back: {at_once} in flight")
            popen_rates.setdefault(at_once, []).append(
                await throughput.popen(settings.count, at_once)
            )
            rates.setdefault(at_once, []).append(
                await throughput.effectd(root, spec, settings.count, at_once)
            )
    _say("the pool at several paces, and memory")
    paces = await thinking.measure(root, spec, count=settings.count, pool=settings.pool)
    footprints = await footprint.measure(root, spec)
    return Report(
        settings,
        facts.machine(),
        (before, facts.load()),
        layers,
        tuple(name for name in LAYERS if name not in here),
        bubblewrap_version(),
        latencies,
        popen_rates,
        rates,
        paces,
        footprints,
        goals.judge(latencies, rates, len(os.sched_getaffinity(0))),
    )


async def all_layers(root: Path | None, spec: Spec, here: frozenset[str]) -> tuple[str, ...]:
    """The layers in force; LayerMissing when one of ``here`` is not among them."""
    async with ours.launched(root, pool=0) as launcher:
        layers = await ours.layers(launcher, spec)
    missing = sorted(here.difference(layers))
    if missing:
        raise LayerMissing(f"this host could give {', '.join(missing)}; the sandbox lacks it")
    return layers


def _say(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)
