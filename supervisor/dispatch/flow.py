"""How much a handler may say, and how fast: a quota that ends it, a pace that only slows it.

A pace costs it nothing that it may keep: what is not read yet fills its pipe, and then its next
write waits. Without one, output in small pieces would keep the daemon busy for as long as a handler
may run, whatever the quota.
"""

from __future__ import annotations

import math

import trio

# Whoever has to wait waits at least that long, and finds more at once when it goes on: a wake-up
# for each step would cost more than what it reads.
REST_S = 0.02


class Pace:
    """``burst`` steps at once, then ``per_s`` a second; shared by as many tasks as like."""

    def __init__(self, burst: int, per_s: int) -> None:
        self._step_s = 1 / per_s
        self._burst_s = burst / per_s
        # When the next step would be due if each had kept to the rate.
        self._due = -math.inf

    async def take(self, steps: int = 1) -> None:
        """Take so many steps, when they are due or up to `REST_S` later. A checkpoint always."""
        now = trio.current_time()
        self._due = max(self._due, now - self._burst_s) + steps * self._step_s
        if self._due > now:
            await trio.sleep_until(max(self._due, now + REST_S))
        else:
            await trio.lowlevel.checkpoint()


class Quota:
    """``most`` bytes over all that spend from it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def spend(self, size: int) -> bool:
        """Whether ``size`` bytes more are still within it."""
        self._left -= size
        return self._left >= 0
