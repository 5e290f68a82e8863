"""A simulation of everything that can happen to an operation, from one seed.

A run is a list of seeds, one for each step, so that a failing run can be cut down to the
few steps that matter. A step draws what happens until something does; its story is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.core.clients import Clients
from tests.core.disk import Disk, ListDisk
from tests.core.handlers import Handlers
from tests.core.host import Host
from tests.core.invariants import Invariants
from tests.core.outside import Outside
from tests.core.table import TERMS


class Machine(Clients, Handlers, Outside):
    """One host, one world, and what clients, operators, providers and disks do to them."""

    invariants: type[Invariants] = Invariants

    def __init__(self, profile: int, disk: Disk | None = None, host: type[Host] = Host) -> None:
        """`profile` decides what this run is about: a few handlers, and what happens often."""
        super().__init__()
        rng = random.Random(profile)
        self.terms = rng.sample(TERMS, rng.choice([1, 2, 4]))
        self.shares = [WEIGHTS.get(name, 1) * rng.choice([0.3, 1, 1, 2]) for name in NAMES]
        self.synced = rng.choice([0.3, 0.6, 0.9])
        self.host = host(disk if disk is not None else ListDisk())
        self.story: list[str] = []
        self.holds = self.invariants(self.host)
        self.host.restart()

    def run(self, seeds: Sequence[int]) -> None:
        for number, seed in enumerate(seeds):
            self.step(random.Random(seed))
            self.holds.check(everything=number % 16 == 0)
        # Whatever happened: after one more crash the disk tells the same story.
        self.step_crash(random.Random(0))
        self.holds.check(everything=True)

    def step(self, rng: random.Random) -> None:
        """One thing that moves something; what is refused or has no object is no step."""
        before = self.host.activity
        for name in rng.choices(NAMES, self.shares, k=TRIES):
            STEPS[name](self, rng)
            if self.host.activity != before:
                self.story.append(name)
                break
        if rng.random() < self.synced:
            self.host.sync(100)


STEPS: dict[str, Callable[[Machine, random.Random], None]] = {
    name.removeprefix("step_"): getattr(Machine, name)
    for name in sorted(dir(Machine))
    if name.startswith("step_")
}
# How often each happens: what leads deep is likely, what ends everything is not.
WEIGHTS = {
    "submit": 4,
    "create_session": 0.3,
    "sync": 6,
    "ready": 14,
    "announce": 16,
    "send": 10,
    "arrive": 6,
    "confirm": 10,
    "contradict": 3,
    "exit": 5,
    "resume": 12,
    "reconcile": 8,
    "reconciler_ready": 8,
    "reconciler_answer": 5,
    "asker_dies": 8,
    "resolve": 3,
    "wait": 5,
    "die": 6,
    "crash": 2,
    "disk_fails": 1,
    "days_pass": 0.5,
    "crash_while_asking": 3,
    "lose": 3,
    "jump": 2,
    "cancel": 0.7,
    "extend": 2,
    "time_out": 0.5,
    "wait_long": 0.5,
    "withhold": 0.5,
    "change_artifacts": 0.3,
}


NAMES = list(STEPS)
TRIES = 12


def script(seed: int, length: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2**32) for _ in range(length)]


def shortest(seeds: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """A failing run without the steps that do not matter to its failing."""
    kept = list(seeds)
    size = max(len(kept) // 2, 1)
    while size:
        index = 0
        while index < len(kept):
            tried = kept[:index] + kept[index + size :]
            if fails(tried):
                kept = tried
            else:
                index += size
        size //= 2
    return kept
