"""Results come, are let go of and come again while what nobody names is removed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
import trio

from supervisor.core.record import Result
from supervisor.dispatch.blobs import LARGE_BYTES, Blobs
from supervisor.journal import blobs

# So few that each comes again and again, also while its file is being removed.
VALUES = [{"number": number, "pad": "x" * LARGE_BYTES} for number in range(12)]
TASKS = 6


class Host:
    """What operations name, and what a crash would find that they named: no newer than the last
    wait for the disk, and no older than the one before."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.blobs = Blobs(directory)
        self.named: Counter[str] = Counter()
        self.durable: set[str] = set()
        self.removed = self.steps = 0
        self.done = False

    async def durably(self) -> None:
        names = set(+self.named)
        for _ in range(self.rng.randrange(4)):
            await trio.lowlevel.checkpoint()
            self.check()
        self.durable = names

    def check(self) -> None:
        """Both what is named and what a crash would bring back has its file."""
        self.steps += 1
        there = set(blobs.stored(self.blobs.directory))
        assert set(+self.named) <= there
        assert self.durable <= there

    async def operate(self, steps: int) -> None:
        mine: list[str] = []
        for _ in range(steps):
            if mine and self.rng.random() < 0.5:
                self.named[mine.pop(self.rng.randrange(len(mine)))] -= 1
            else:
                kept = await self.blobs.keep(Result(value=self.rng.choice(VALUES)))
                assert kept.blob is not None
                mine.append(kept.blob.digest)
                self.named[mine[-1]] += 1
                self.durable.add(mine[-1])
            self.check()
            await trio.lowlevel.checkpoint()
        for one in mine:
            self.named[one] -= 1

    async def sweep(self) -> None:
        while not self.done:
            self.removed += await self.blobs.sweep(lambda: +self.named, self.durably)
            self.check()


@pytest.mark.guarantee("E8", "R10")
@pytest.mark.parametrize(
    ("steps", "seed"),
    [(60, 1), pytest.param(3_000, 2, marks=[pytest.mark.long, pytest.mark.timeout(1_200)])],
)
async def test_no_result_that_is_named_loses_its_file_and_none_that_is_not_keeps_it(
    tmp_path: Path, steps: int, seed: int
) -> None:
    host = Host(tmp_path, seed)
    async with trio.open_nursery() as sweeping:
        sweeping.start_soon(host.sweep)
        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(host.operate, steps)
        host.done = True
    assert host.removed > steps / 4, "hardly anything was let go of: this shows nothing"
    for _ in range(2):
        await host.blobs.sweep(lambda: +host.named, host.durably)
    assert blobs.stored(host.blobs.directory) == []
