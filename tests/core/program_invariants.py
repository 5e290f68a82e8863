"""What must hold of programs, judged by their documents and not by what walks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from supervisor.core.ids import CallId, OperationId
from supervisor.core.program_state import ProgramState
from supervisor.core.record import (
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalRequested,
    AttemptReserved,
    CallAccepted,
    CallQueued,
    DaemonStarted,
    Ended,
    NodeBound,
    OperationRecord,
    ProgramEnded,
    Record,
)
from supervisor.core.standing import node_value, node_waits
from supervisor.core.state import Operation, Said, State
from supervisor.core.step import Decision, EndAttempt, Launch
from tests.core.invariants import Invariants

NONE_YET = object()


class ProgramInvariants(Invariants):
    def watch(self, before: State, decision: Decision, after: State) -> None:
        super().watch(before, decision, after)
        if any(isinstance(one, DaemonStarted) for one in decision.records):
            assert not decision.directives, "a restart began something"
        ended = False
        for record in decision.records:
            assert not ended or _begun(record) is None, f"{record} after the end"
            ended = ended or isinstance(record, ProgramEnded)
            if isinstance(record, OperationRecord):
                was = before.operations.get(record.operation_id)
                now = after.operations.get(record.operation_id)
                if now is not None and now.program is not None:
                    self._node(was, record, Walked(now))
                    self._answer(was, record)
        one = decision.operation_id
        known = after.operations.get(one) if one is not None else None
        if known is not None and known.program is not None and decision.records:
            self._launches(decision)
            self._fails_fast(before.operations.get(known.operation_id), known, decision)

    def overdue(self) -> list[OperationId]:
        """Operations that wait for an approval that comes too late."""
        state, wall = self.host.state, self.host.now.wall
        found = [(one, state.operations[one].program) for one in state.approvals]
        pending = [(one, known.pending) for one, known in found if known is not None]
        return [one for one, asked in pending if asked and asked.expires_at <= wall]

    def _node(self, was: Operation | None, record: OperationRecord, walked: Walked) -> None:
        """Each node is begun once, after all that stand before it, with their values."""
        before = was.program if was is not None else None
        if isinstance(record, AttemptReserved) and was is not None and before is not None:
            node = was.calls[record.call_id].node
            assert node_value(was, before.calls[node]) is None, f"{node} has its value, and runs"
        path = _begun(record)
        if path is None and not isinstance(record, ProgramEnded):
            return
        assert before is None or before.end is None, f"{record} after the end"
        if path is not None:
            known = {*before.bound, *before.calls, *before.approvals} if before else set()
            assert path not in known, f"{path} was begun twice"
            scope = walked.scope(path)
            assert NONE_YET not in scope.values(), f"{path} was begun before its turn"
            if isinstance(record, CallAccepted):
                name = walked.node(path)["call_tool"]["input"]["of"]["$"]
                assert record.input == {"of": scope[name]}, f"{path} was given {record.input}"
        elif isinstance(record, ProgramEnded):
            walked.ended(record)

    def _answer(self, was: Operation | None, record: OperationRecord) -> None:
        if not isinstance(record, ApprovalAnswered | ApprovalExpired):
            return
        assert was is not None
        assert was.program is not None
        approval = was.program.approvals[record.node]
        assert approval.pending, "answered twice"
        assert not was.cancel_requested
        late = record.at >= approval.expires_at
        assert late is isinstance(record, ApprovalExpired)
        assert isinstance(record, ApprovalExpired) or record.choice in approval.choices

    def _launches(self, decision: Decision) -> None:
        """What is queued is launched, and nothing else is."""
        queued = {r.call_id for r in decision.records if isinstance(r, CallAccepted | CallQueued)}
        assert queued == {d.call_id for d in decision.directives if isinstance(d, Launch)}

    def _fails_fast(self, was: Operation | None, now: Operation, decision: Decision) -> None:
        """What waits in a group that failed is not started; what changes nothing is ended."""
        assert now.program is not None
        if was is None or self.host.full or now.program.end is not None or now.cancel_requested:
            return
        ends = {d.call_id for d in decision.directives if isinstance(d, EndAttempt)}
        for calls in Walked(now).failing():
            stuck = {one for one in calls if node_waits(now, one)}
            if not {one for one in stuck if one not in was.calls or not node_waits(was, one)}:
                continue
            newest = [now.newest(now.calls[one]) for one in calls]
            assert not [one for one in newest if one.queued is not None], "a sibling is admitted"
            idle = {one.call_id for one in newest if one.live and not _has_leave(now, one.call_id)}
            assert idle <= ends, "a sibling that changes nothing goes on"


class Walked:
    """A program's document, and what came of its nodes so far."""

    def __init__(self, operation: Operation) -> None:
        assert operation.program is not None
        self.operation = operation
        self.program: ProgramState = operation.program
        self.nodes: list[dict[str, Any]] = self.program.document["nodes"]

    def value(self, node: dict[str, Any], path: str) -> Any:
        if "bind" in node:
            return self.program.bound.get(path, NONE_YET)
        if "call_tool" in node:
            call_id = self.program.calls.get(path)
            result = node_value(self.operation, call_id) if call_id is not None else None
            return NONE_YET if result is None else result.value
        if "approve" in node:
            known = self.program.approvals.get(path)
            by = known.answered_by if known is not None else None
            if known is None or by is None:
                return NONE_YET
            return {"choice": known.choice, "comment": known.comment, "uid": by.uid}
        return self._group(node, path)

    def _group(self, node: dict[str, Any], path: str) -> Any:
        found = {
            name: [self.value(one, f"{path}.{name}.{one['id']}") for one in branch]
            for name, branch in node["parallel"]["branches"].items()
        }
        if any(NONE_YET in values for values in found.values()):
            return NONE_YET
        return {name: values[-1] for name, values in found.items()}

    def node(self, path: str) -> dict[str, Any]:
        return next(
            one for one in self._siblings(path)[1] if one["id"] == path.rsplit(".", maxsplit=1)[-1]
        )

    def _siblings(self, path: str) -> tuple[str, list[dict[str, Any]]]:
        """The nodes of its branch, or of the whole, and what their paths begin with."""
        top, *inner = path.split(".")
        if not inner:
            return "", self.nodes
        group = next(one for one in self.nodes if one["id"] == top)
        return f"{top}.{inner[0]}.", group["parallel"]["branches"][inner[0]]

    def scope(self, path: str) -> dict[str, Any]:
        """What the node may see: the value of each that stands before it, if it has one."""
        found: dict[str, Any] = {"input": self.program.input}
        prefix, siblings = self._siblings(path)
        if prefix:
            found |= self.scope(path.split(".", maxsplit=1)[0])
        for one in siblings:
            if prefix + one["id"] == path:
                return found
            found[one["id"]] = self.value(one, prefix + one["id"])
        raise AssertionError(path)

    def ended(self, record: ProgramEnded) -> None:
        """It gives what its nodes came to, was rejected or was not answered, or says why not."""
        if record.ended is Ended.FAILED:
            assert record.code
        elif record.node in self.program.approvals:
            approval = self.program.approvals[record.node]
            assert approval.expired or approval.choice == "reject", "it stopped for nothing"
        else:
            scope = self.scope(record.node)
            assert NONE_YET not in scope.values(), "it ended before all was done"
            values = {name: value for name, value in scope.items() if name != "input"}
            assert record.value == {"all": values}, f"it gives {record.value}, and not {values}"

    def failing(self) -> Iterator[list[CallId]]:
        """The first calls of each fail_fast group."""
        for node in self.nodes:
            if "parallel" in node and node["parallel"]["on_failure"] == "fail_fast":
                calls = self.program.calls.items()
                yield [one for path, one in calls if path.startswith(f"{node['id']}.")]


def _begun(record: Record) -> str | None:
    if isinstance(record, CallAccepted):
        return record.node if record.retry_of is None else None
    return record.node if isinstance(record, NodeBound | ApprovalRequested) else None


def _has_leave(operation: Operation, call_id: CallId) -> bool:
    tries = (one for e in operation.lineage(operation.calls[call_id]) for one in e.tries)
    return any(one.outcome is Said.ANNOUNCED and one.call_id == call_id for one in tries)
