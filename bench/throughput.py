"""Back to back: how many runs a second, and what each costs the processor."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from pathlib import Path

import attrs
import trio

from bench import floors, ours
from bench.figures import quantile
from bench.processes import machine_cpu_ms, tree_cpu_ms
from sandbox.spec import Spec


@attrs.frozen
class Rate:
    """One run of ``count`` back to back."""

    per_s: float
    cpu_ms: float
    """Of this process and of all below it, per run."""
    machine_cpu_ms: float
    """Of the whole machine, per run: with what the kernel does afterwards and elsewhere."""
    median_ns: int
    p99_ns: int


async def popen(count: int, at_once: int) -> Rate:
    """The floor: ``at_once`` processes at a time, each waited for in the order of its start."""
    clock = _Clock()
    running: deque[tuple[int, subprocess.Popen[bytes]]] = deque()
    spent: list[int] = []

    def wait() -> None:
        begin, process = running.popleft()
        process.wait()
        spent.append(time.perf_counter_ns() - begin)

    for _ in range(count):
        if len(running) == at_once:
            wait()
        begin = time.perf_counter_ns()
        running.append((begin, floors.started()))
    while running:
        wait()
    return await clock.stop(spent)


async def effectd(root: Path | None, spec: Spec, count: int, at_once: int) -> Rate:
    """``at_once`` tasks, each running one after the other, with the pool as it comes."""
    async with ours.launched(root, pool=max(2, at_once), pool_total=8) as launcher:
        await ours.run(launcher, spec)  # the profile is in use from here on
        await ours.settled()
        clock = _Clock()
        spent: list[int] = []
        left = count

        async def worker() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                spent.append((await ours.run(launcher, spec)).record_ns)

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(worker)
        return await clock.stop(spent)


class _Clock:
    """Wall and processor time from here to `stop`."""

    def __init__(self) -> None:
        self._machine = machine_cpu_ms()
        self._tree = tree_cpu_ms(os.getpid())
        self._begin = time.perf_counter_ns()

    async def stop(self, spent: list[int]) -> Rate:
        seconds = (time.perf_counter_ns() - self._begin) / 1e9
        await ours.settled()  # what still runs for those that have ended counts as theirs
        count = len(spent)
        return Rate(
            count / seconds,
            (tree_cpu_ms(os.getpid()) - self._tree) / count,
            (machine_cpu_ms() - self._machine) / count,
            quantile(spent, 0.5),
            quantile(spent, 0.99),
        )
