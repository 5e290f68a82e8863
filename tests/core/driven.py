"""A program that somebody brings to its end: resumes it, answers, and looks what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.checkpoint import canonical_digest, checkpoint_digest
from supervisor.core.ids import CallId, OperationId, SessionId
from supervisor.core.standing import OperationState, node_value, operation_result, operation_state
from supervisor.core.state import Call, Operation
from supervisor.core.step import ResumeAsked
from supervisor.core.step_programs import ApprovalAsked, ProgramSubmitted
from supervisor.program.document import SCHEMA
from tests.core.cuts import HANDLERS, Driven
from tests.core.made import CLIENT, code

ONE = OperationId("op_1")


class DrivenProgram(Driven):
    def __init__(self, nodes: Sequence[Any], fails: Mapping[str, str]) -> None:
        self.document = {"schema_version": SCHEMA, "nodes": list(nodes)}
        super().__init__(fails)

    @property
    def it(self) -> Operation | None:
        return self.state.operations.get(ONE)

    def what(self, call: Call) -> str:
        return call.node

    def send(self) -> None:
        event = ProgramSubmitted(
            now=self.now,
            operation_id=ONE,
            session_id=SessionId("uid:1000"),
            request_id="m1",
            request_digest=canonical_digest(self.document),
            by=CLIENT,
            max_run_ms=100_000,
            document=self.document,
            input=None,
            terms=tuple(HANDLERS.values()),
        )
        assert self.do(event).refusal is None

    def turn(self, operation: Operation) -> None:
        match operation_state(operation):
            case OperationState.WAITING:
                assert operation.program is not None
                assert operation.program.pending is not None
                asked = (ONE, operation.program.pending.node, "approve", "", CLIENT)
                assert self.do(ApprovalAsked(self.now, *asked)).refusal is None
            case OperationState.UNKNOWN | OperationState.INTERRUPTED:
                self.settle()
                self._resume()
            case _:
                self.handlers()

    def _resume(self) -> None:
        operation, new = self.known, CallId(self.name("call"))
        checkpoint = (operation.revision, checkpoint_digest(operation))
        asked = (ONE, CLIENT, self.name("resume"), *checkpoint, new, 0)
        decision = self.do(ResumeAsked(self.now, *asked))
        if code(decision) == "RunTimeBudgetExceeded":
            limit = operation.budget.max_run_ms + 60_000
            decision = self.extend(operation.call_order[0], limit)
        assert decision.refusal is None, decision.refusal

    def result(self) -> tuple[OperationState, Any]:
        return operation_state(self.known), operation_result(self.known)

    def attempts(self) -> dict[str, int]:
        """Of each node that has its value."""
        operation = self.it
        if operation is None or operation.program is None:
            return {}
        calls = operation.program.calls.items()
        done = [(p, c) for p, c in calls if node_value(operation, c) is not None]
        return {path: _tried(operation, call_id) for path, call_id in done}


def _tried(operation: Operation, call_id: CallId) -> int:
    root = operation.calls[call_id].root
    return sum(len(one.attempts) for one in operation.calls.values() if one.root == root)
