"""What clients send as programs, and people answer: a simulation with both in it."""

from __future__ import annotations

import random

import attrs

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.ids import OperationId
from supervisor.core.program_state import Approval
from supervisor.core.record import By, Result
from supervisor.core.state import Operation
from supervisor.core.step_programs import ApprovalAsked, ApprovalsTimePassed, ProgramSubmitted
from tests.core.agents import STEPS as OTHERS
from tests.core.agents import WEIGHTS_OF, Agents, Table
from tests.core.clients import DEFAULT
from tests.core.disk import Disk
from tests.core.documents import CHOICES, INPUT, document
from tests.core.host import Host
from tests.core.program_invariants import ProgramInvariants
from tests.core.table import BY

UNRESUMABLE = ("handler 'x' declares no contracts",)


class Programmers(Agents):
    """The machine, whose operations are mostly programs."""

    invariants = ProgramInvariants

    def __init__(self, profile: int, disk: Disk | None = None, host: type[Host] = Host) -> None:
        super().__init__(profile, disk, host)
        self.programs: list[ProgramSubmitted] = []

    def table(self) -> Table:
        return STEPS, WEIGHTS

    def step(self, rng: random.Random) -> None:
        """Now and then there is no room for what a program would begin."""
        self.host.full = rng.random() < 0.03
        super().step(rng)

    def printed(self, rng: random.Random) -> Result:
        return Result(unavailable="too_large") if rng.random() < 0.1 else Result("printed")

    def crowded(self, rng: random.Random) -> bool:
        return sum(self.state.unfinished.values()) >= 2 and rng.random() < 0.95

    # --- programs -----------------------------------------------------------------------

    def program_sent(self, rng: random.Random) -> None:
        if self.crowded(rng):
            return
        asked = document(rng, self.terms)
        event = ProgramSubmitted(
            now=self.now,
            operation_id=OperationId(self.host.name("op")),
            session_id=rng.choice([DEFAULT, *sorted(self.state.sessions)]),
            request_id=self.host.name("p"),
            request_digest=canonical_digest(asked),
            by=BY,
            max_run_ms=rng.choice([20_500, 45_000, 200_000, 900_000]),
            document=asked,
            input=INPUT,
            terms=tuple(self.terms),
            not_resumable=UNRESUMABLE if rng.random() < 0.1 else (),
            operations_max=4,
            operations_kept=6,
        )
        if self.host.commit(event).records:
            self.programs.append(event)

    def program_sent_again(self, rng: random.Random) -> None:
        """The same message, which is the same program; or its id with another body."""
        if not self.programs:
            return
        old = rng.choice(self.programs)
        other = {} if rng.random() < 0.8 else {"request_digest": "another"}
        event = attrs.evolve(old, now=self.now, operation_id=self.host.name("op"), **other)
        decision = self.host.commit(event)
        known = self.state.messages.get((old.session_id, old.request_id))
        assert not decision.records or known == event.operation_id

    def a_program(self, rng: random.Random) -> Operation | None:
        found = [one for one in self.operations() if one.program is not None]
        unfinished = [one for one in found if not one.finished]
        found = unfinished if unfinished and rng.random() < 0.9 else found
        return rng.choice(found) if found else None

    # --- people -------------------------------------------------------------------------

    def approval_answered(self, rng: random.Random) -> None:
        """One that waits, mostly; well, wrongly, late, twice, or by another person."""
        operation = self.a_program(rng)
        if operation is None or operation.program is None:
            return
        known = list(operation.program.approvals.values())
        waits = [one for one in known if one.pending and rng.random() < 0.9]
        if waits or known:
            self.answer(operation, rng.choice(waits or known), rng)

    def answer(self, operation: Operation, approval: Approval, rng: random.Random) -> None:
        choice = rng.choice(["approve"] * 8 + [*CHOICES, "later", "perhaps"])
        node = approval.node if rng.random() < 0.95 else "input"
        by = BY if rng.random() < 0.8 else By(7, 7)
        asked = (operation.operation_id, node, choice, "", by)
        decision = self.host.commit(ApprovalAsked(self.now, *asked))
        if decision.repeated:
            assert (approval.choice, approval.answered_by) == (choice, by), "another answer counts"

    def approvals_expire(self, rng: random.Random) -> None:
        if self.state.approvals:
            self._wait(rng.choice([0, 5_000, 60_000]))
            while not self.host.commit(ApprovalsTimePassed(self.now)).repeated:
                pass
            assert not self.holds.overdue(), "it waits for an approval that is too late"


NEW = {
    name: getattr(Programmers, name)
    for name in sorted(dir(Programmers))
    if name.startswith(("program_", "approval"))
}
STEPS = {**OTHERS, **NEW}
WEIGHTS = {
    **WEIGHTS_OF,
    "resume": 16,
    "resolve": 5,
    "cancel": 0.3,
    "agent_opens": 0.3,
    "agent_calls": 2,
    "agent_calls_again": 1,
    "agent_continues": 2,
    "program_sent": 6,
    "program_sent_again": 2,
    "approval_answered": 12,
    "approvals_expire": 0.7,
}
