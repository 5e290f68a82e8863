"""Short ways to bring a program into a state: nodes of each kind, and the core with one in it."""

from __future__ import annotations

from typing import Any

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.decide import decide
from supervisor.core.ids import CallId, OperationId, SessionId
from supervisor.core.record import By, Outcome, Result
from supervisor.core.standing import OperationState, operation_state
from supervisor.core.state import Operation
from supervisor.core.step import Decision, Input
from supervisor.core.step_programs import ApprovalAsked, ProgramSubmitted
from tests.core.made import (
    CLIENT,
    KEY,
    NEVER,
    NONE,
    Core,
    effect,
    terms,
)

CHARGE = terms(effect("charge", KEY), handler="charge")
MAIL = terms(effect("mail", NEVER), handler="mail")
LOOK = terms(effect("look", NONE), handler="look")
BOTH = terms(effect("first", KEY), effect("second", KEY), handler="both")
HANDLERS = (BOTH, CHARGE, LOOK, MAIL)


def call(name: str, handler: str = "charge", given: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": name, "call_tool": {"handler": handler, "input": given, **more}}


def parallel(how: str = "fail_fast", **branches: Any) -> dict[str, Any]:
    return {"id": "both", "parallel": {"on_failure": how, "branches": branches}}


GIVE = {"id": "out", "give": "done"}
APPROVE = {
    "id": "ok",
    "approve": {"by": ["group:finance"], "expires_ms": 60_000, "prompt": "Ship it?"},
}


class Programs(Core):
    """The core with one program in it."""

    def send(self, *nodes: Any, name: str = "m1", **members: Any) -> Decision:
        document = {"schema_version": "effectd-program-v1", "nodes": list(nodes)}
        self.one = OperationId(self.name("op"))
        return self.do(
            ProgramSubmitted(
                now=self.now,
                operation_id=self.one,
                session_id=SessionId("uid:1000"),
                request_id=name,
                request_digest=canonical_digest(document),
                by=CLIENT,
                max_run_ms=members.pop("max_run_ms", 600_000),
                document=document,
                input=members.pop("given", None),
                terms=members.pop("terms", HANDLERS),
                **members,
            )
        )

    @property
    def program(self) -> Operation:
        return self.state.operations[self.one]

    @property
    def standing(self) -> OperationState:
        return operation_state(self.program)

    def of(self, path: str) -> CallId:
        known = self.program.program
        assert known is not None
        return known.calls[path]

    def finish(self, path: str, value: Any = 1, outcome: Outcome = Outcome.SUCCEEDED) -> Decision:
        """Start the node's newest call, announce, confirm and end it."""
        one = self.newest(self.of(path))
        assert self.ready(one).refusal is None
        name = self.call(one).terms.effects[0].name
        self.announce(one, name)
        self.confirm(one, result=Result(value))
        return self.exit(one, outcome)

    def without_room(self, event: Input) -> Decision:
        """What is written of it when there is no room for what the program would begin."""
        decision = decide(self.state, event).instead
        assert decision is not None
        self.put(*decision.records)
        return decision

    def answer_approval(self, choice: str, node: str = "ok", by: By = CLIENT) -> Decision:
        return self.do(ApprovalAsked(self.now, self.one, node, choice, "", by))
