"""What every kind of step works on: one host, one world, and a choice of what to touch."""

from __future__ import annotations

import random

from supervisor.core.contract import Contract
from supervisor.core.ids import EffectId
from supervisor.core.record import (
    By,
    DeclaredEffect,
    Reconciler,
    Terms,
)
from supervisor.core.state import UNSETTLED, Effect, Operation
from supervisor.core.step import (
    ResumeAsked,
    Submitted,
)
from tests.core.host import GRACE_MS, Host, Process
from tests.core.world import KEY_VALID_MS, SETTLE_MS

BY = By(1000, 42)
ASKER = Reconciler(("/opt/find",), 1_000, SETTLE_MS)
TIMEOUT_MS = 10_000


def _terms() -> list[Terms]:
    """Handlers of one and of two effects, announced and of the whole call, under each contract."""
    kinds = [
        (Contract.NONE, None),
        (Contract.IDEMPOTENCY_KEY, None),
        (Contract.IDEMPOTENCY_KEY, ASKER),
        (Contract.RECONCILIATION, ASKER),
        (Contract.NO_SAFE_RETRY, None),
    ]
    declared = [
        DeclaredEffect(f"e{n}", contract, key_valid_ms=KEY_VALID_MS, reconciler=reconciler)
        for n, (contract, reconciler) in enumerate(kinds)
    ]
    ones = [(one,) for one in declared]
    twos = [(declared[i], declared[j]) for i in range(5) for j in range(5) if i != j]
    wholes = [
        (
            DeclaredEffect(
                "w", contract, whole_call=True, key_valid_ms=KEY_VALID_MS, reconciler=reconciler
            ),
        )
        for contract, reconciler in kinds
    ]
    return [
        Terms(f"h{n}", "d1", TIMEOUT_MS, GRACE_MS, False, effects)
        for n, effects in enumerate(ones + ones + wholes + wholes + twos)
    ]


TERMS = _terms()


class Table:
    host: Host
    terms: list[Terms]

    def __init__(self) -> None:
        self.digest = "d1"
        self.sent: list[Submitted] = []
        self.resumes: list[ResumeAsked] = []
        self.looks: dict[EffectId, bool | None] = {}

    @property
    def now(self):
        return self.host.now

    @property
    def state(self):
        return self.host.state

    def operations(self) -> list[Operation]:
        return sorted(self.state.operations.values(), key=lambda o: o.serial)

    def operation(self, rng: random.Random) -> Operation | None:
        """Any, and mostly one that is not finished."""
        found = self.operations()
        open_ = [o for o in found if not o.finished]
        found = open_ if open_ and rng.random() < 0.9 else found
        return rng.choice(found) if found else None

    def effect(self, rng: random.Random) -> Effect | None:
        """Any, and mostly one that is not settled."""
        found = [e for o in self.operations() for _, e in sorted(o.effects.items())]
        open_ = [e for e in found if e.outcome in UNSETTLED or e.result_lost]
        found = open_ if open_ and rng.random() < 0.9 else found
        return rng.choice(found) if found else None

    def processes(self, **which: bool) -> list[Process]:
        found = [self.host.processes[key] for key in sorted(self.host.processes)]
        return [p for p in found if all(getattr(p, k) is v for k, v in which.items())]
