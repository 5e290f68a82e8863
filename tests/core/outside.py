"""What comes from outside: providers' words, operators' words, time, and death."""

from __future__ import annotations

import random

from supervisor.core.record import (
    Result,
)
from supervisor.core.step import (
    ReconcileAsked,
    ReconcilerAnswered,
    ReconcilerProvenDead,
    ReconcilerReady,
    ResolveAsked,
    TimePassed,
)
from tests.core.host import GRACE_MS
from tests.core.table import BY, Table
from tests.core.world import MS

DAY_MS = 86_400_000


class Outside(Table):
    def step_sync(self, rng: random.Random) -> None:
        self.host.sync(rng.choice([1, 1, 2, 100]))

    # Providers and operators.

    def step_reconcile(self, rng: random.Random) -> None:
        effect = self.effect(rng)
        if effect is not None:
            self.host.commit(ReconcileAsked(self.now, effect.effect_id))

    def step_reconciler_ready(self, rng: random.Random) -> None:
        """It starts, and looks at once; when it answers is another matter."""
        if self.host.reconcilers:
            index = rng.randrange(len(self.host.reconcilers))
            effect_id = self.host.reconcilers.pop(index).effect_id
            event = ReconcilerReady(self.now, effect_id, BY, self.host.identity())
            if self.host.commit(event).refusal is None:
                seen = self.host.world.made(effect_id)
                self.looks[effect_id] = rng.choice([seen] * 4 + [None])

    def step_reconciler_answer(self, rng: random.Random) -> None:
        running = sorted(set(self.state.reconciling) - self.host.askers)
        if running:
            effect_id = rng.choice(running)
            seen = self.looks[effect_id]
            result = Result({"n": 1}) if seen and rng.random() < 0.7 else None
            self.host.commit(ReconcilerAnswered(self.now, effect_id, seen, result))

    def step_asker_dies(self, rng: random.Random) -> None:
        """A reconciler that outlived its daemon is gone at last, and that is seen."""
        if self.host.askers:
            effect_id = rng.choice(sorted(self.host.askers))
            self.host.askers.discard(effect_id)
            self.host.commit(ReconcilerProvenDead(self.now, effect_id, "pidfd"))

    def step_resolve(self, rng: random.Random) -> None:
        """Operators look well: they say only what stays true."""
        effect = self.effect(rng)
        if effect is None or self.host.world.on_its_way(effect.effect_id):
            return
        applied = self.host.world.made(effect.effect_id)
        stale = rng.random() < 0.1
        event = ResolveAsked(
            self.now,
            effect.effect_id,
            BY,
            applied,
            "looked",
            effect.revision - stale,
            Result({"n": 1}) if applied and rng.random() < 0.7 else None,
        )
        self.host.commit(event)

    # Time and death.

    def step_wait(self, rng: random.Random) -> None:
        self._wait(rng.choice([1, 900, 3_000, 5_000]))

    def step_wait_long(self, rng: random.Random) -> None:
        self._wait(rng.choice([20_000, 45_000, 61_000]))

    def _wait(self, ms: int) -> None:
        """A daemon that lives ends what is past its deadline and grace."""
        latest = min(
            (p.started + (p.timeout_ms + GRACE_MS) * MS for p in self.processes(undead=False)),
            default=None,
        )
        real = self.host.world.now
        if latest is not None and real + ms * MS > latest:
            ms = max(0, (latest - real) // MS)
        self.host.activity += 1
        self.host.world.wait(ms)

    def step_days_pass(self, rng: random.Random) -> None:
        """Housekeeping, at once or when the clock was set; days are short in this world."""
        self.host.set_wall(rng.choice([0, 0, DAY_MS, 2 * DAY_MS]))
        kept, days = rng.choice([1, 3, 1000]), [rng.choice([0, 1, 1, 2]) for _ in range(3)]
        self.host.commit(TimePassed(self.now, kept, *days))

    def step_jump(self, rng: random.Random) -> None:
        """The wall clock is set: forward at any time, back only within the first boot.

        What was announced in an earlier boot has no other clock than this one.
        """
        back = [-DAY_MS, -3_000] if self.host.boot == 0 else []
        self.host.set_wall(rng.choice([3_000, 10_000, DAY_MS, *back]))

    def step_crash_while_asking(self, rng: random.Random) -> None:
        """A reconciler runs for a moment only; this happens to be that moment."""
        if set(self.state.reconciling) - self.host.askers:
            self.step_crash(rng)

    def step_disk_fails(self, rng: random.Random) -> None:
        """While frames are written. Nothing is tried again: the daemon ends, and starts anew."""
        if self.host.durable < len(self.host.payloads):
            self.step_crash(rng, failed=True)

    def step_crash(self, rng: random.Random, *, failed: bool = False) -> None:
        self.host.crash(rng, reboot=not failed and rng.random() < 0.3, failed=failed)
        self.holds.begin_again()
        self.host.world.wait(rng.choice([0, 0, 1_000, 30_000]))
        self.host.restart()
        gone = {one.operation_id for one in self.state.tombstones}
        known = {*self.state.operations, *gone}
        self.sent = [e for e in self.sent if e.operation_id in known]
        self.resumes = [
            e
            for e in self.resumes
            if e.operation_id in self.state.operations
            and e.resume_request_id in self.state.operations[e.operation_id].resumes
        ]
