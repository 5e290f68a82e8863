"""What agents ask of open operations, well and badly timed: a simulation with them in it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.ids import CallId, OperationId, SessionId
from supervisor.core.record import Ending, Kind, Terms, Trigger
from supervisor.core.state import Operation
from supervisor.core.step import CallAsked, ContinueAsked, EndAsked, Opened
from tests.core.disk import Disk
from tests.core.host import Host
from tests.core.machine import STEPS as OTHERS
from tests.core.machine import TRIES, WEIGHTS, Machine
from tests.core.table import BY

DEFAULT = SessionId("uid:1000")
GIVEN = [one for one in Ending if one.value not in {"continued", "cancelled", "restart"}]
# Most stretches are cut off by time; `done` ends the whole, so it is rare.
REASONS = [*GIVEN, *([Ending.TIME_LIMIT] * 6)]
Table = tuple[Mapping[str, Callable[[Any, random.Random], None]], Mapping[str, float]]


class Agents(Machine):
    """The machine, whose operations are mostly open ones."""

    def __init__(self, profile: int, disk: Disk | None = None, host: type[Host] = Host) -> None:
        super().__init__(profile, disk, host)
        rng = random.Random(profile)
        # Few writes, so that many are identical.
        self.terms = self.terms[:2]
        self.asked: list[CallAsked] = []
        self.steps, weights = self.table()
        self.chances = [weights.get(name, 1) * rng.choice([0.3, 1, 1, 2]) for name in self.steps]

    def table(self) -> Table:
        """Every step, and how often each happens."""
        return STEPS, WEIGHTS_OF

    def step(self, rng: random.Random) -> None:
        before = self.host.activity
        for name in rng.choices(list(self.steps), self.chances, k=TRIES):
            self.steps[name](self, rng)
            if self.host.activity != before:
                self.story.append(name)
                break
        if rng.random() < self.synced:
            self.host.sync(100)

    # --- what agents do -----------------------------------------------------------------

    def agent_opens(self, rng: random.Random) -> None:
        made = len(self.state.operations)
        if sum(self.state.unfinished.values()) >= 2 and rng.random() < 0.9:
            return
        event = Opened(
            now=self.now,
            operation_id=OperationId(self.host.name("op")),
            session_id=DEFAULT,
            request_id=f"m{made if rng.random() < 0.9 else rng.randrange(made + 1)}",
            request_digest="open",
            by=BY,
            max_run_ms=rng.choice([45_000, 200_000, 900_000]),
            operations_max=4,
        )
        self.host.commit(event)

    def an_open_one(self, rng: random.Random) -> Operation | None:
        found = [one for one in self.operations() if one.kind is Kind.OPEN]
        unfinished = [one for one in found if not one.finished]
        found = unfinished if unfinished and rng.random() < 0.95 else found
        return rng.choice(found) if found else None

    def agent_calls(self, rng: random.Random) -> None:
        operation = self.an_open_one(rng)
        if operation is not None and (not self._runs(operation) or rng.random() < 0.2):
            value = int(rng.random() < 0.2)
            self.call(operation, rng.choice(self.terms), value, self.host.name("t"), rng)

    def call(
        self, operation: Operation, of: Terms, value: int, request_id: str, rng: random.Random
    ) -> None:
        event = CallAsked(
            now=self.now,
            operation_id=operation.operation_id,
            call_id=CallId(self.host.name("call")),
            by=BY,
            request_id=request_id,
            request_digest=canonical_digest([of.handler, value]),
            terms=of,
            input=value,
            timeout_ms=of.timeout_ms,
            margin_ms=0,
            continuation=rng.choice([None, None, None, 0, 1]),
        )
        if self.host.commit(event).records:
            self.asked.append(event)

    def agent_calls_again(self, rng: random.Random) -> None:
        """The very same request; or its id with another body."""
        known = [one for one in self.asked if one.operation_id in self.state.operations]
        if known:
            old = rng.choice(known)
            operation = self.state.operations[old.operation_id]
            value = old.input if rng.random() < 0.8 else 1 - old.input
            self.call(operation, old.terms, value, old.request_id, rng)

    def agent_continues(self, rng: random.Random) -> None:
        operation = self.an_open_one(rng)
        if operation is None or (operation.continuation is not None and rng.random() < 0.7):
            return
        after = len(operation.continuations) - rng.choice([1, 1, 1, 1, 2, 0])
        trigger = rng.choice([Trigger.AUTO, Trigger.MANUAL])
        request_id = self.host.name("c") if rng.random() < 0.9 else "c"
        one = operation.operation_id
        self.host.commit(ContinueAsked(self.now, one, BY, trigger, max(after, 0), request_id))

    def agent_ends(self, rng: random.Random) -> None:
        operation = self.an_open_one(rng)
        if operation is not None:
            n = len(operation.continuations) - rng.choice([1, 1, 1, 2])
            reason = rng.choice(REASONS)
            self.host.commit(EndAsked(self.now, operation.operation_id, BY, max(n, 0), reason))


STEPS = {
    **OTHERS,
    **{name: getattr(Agents, name) for name in sorted(dir(Agents)) if name.startswith("agent_")},
}
WEIGHTS_OF = {
    **WEIGHTS,
    "submit": 0.3,
    "resume": 1,
    "cancel": 0.2,
    "crash": 1,
    "crash_while_asking": 1,
    "ready": 30,
    "announce": 30,
    "send": 20,
    "confirm": 30,
    "exit": 20,
    "agent_opens": 2,
    "agent_calls": 16,
    "agent_calls_again": 3,
    "agent_continues": 10,
    "agent_ends": 4,
}
