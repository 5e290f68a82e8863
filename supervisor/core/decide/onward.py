"""What a program does next: the one place that decides it.

A program moves in the frame of what moved it: the end of a call, an answer, a resume. So no
crash and no reader can come between a node's end and the beginning of the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, NoReturn, assert_never

import attrs

from supervisor.core.evolve import fold
from supervisor.core.ids import call_of_node
from supervisor.core.moment import Moment
from supervisor.core.program_state import ProgramState
from supervisor.core.record import (
    ApprovalRequested,
    CallAccepted,
    CallRefused,
    Ended,
    NodeBound,
    ProgramEnded,
    Record,
)
from supervisor.core.standing import node_lost, node_value, node_waits
from supervisor.core.state import Call, Operation, Said, State
from supervisor.core.step import (
    Decision,
    Directive,
    EndAttempt,
    Exited,
    Input,
    Launch,
    Lost,
    Ready,
    ResumeAsked,
    Withheld,
)
from supervisor.core.step_programs import ApprovalAsked, ProgramSubmitted
from supervisor.program import (
    Approve,
    Bind,
    CallTool,
    End,
    Faulty,
    Meter,
    Node,
    Parallel,
    program_of,
    template,
)

_NS_PER_MS = 1_000_000
# What moves a program on. A restart, a settled effect and time do not: they wait for a resume.
_MOVES = (ProgramSubmitted, Ready, Withheld, Exited, Lost, ResumeAsked, ApprovalAsked)


def onward(state: State, event: Input, decision: Decision) -> Decision:
    """The decision with what its program does next, in the same frame. `instead` is the
    decision without that, for when there is no room: only attempts that the program has no
    use for any more are ended all the same, which takes no record."""
    if not isinstance(event, _MOVES) or not decision.records or decision.operation_id is None:
        return decision
    if isinstance(event, Ready) and decision.refusal is None:
        return decision  # its start moves nothing else
    known = state.operations.get(decision.operation_id)
    if known is not None and known.program is None:
        return decision
    after = fold(state, state.position + 1, decision.records)
    operation = after.operations[decision.operation_id]
    if operation.program is None or not _may_move(operation, operation.program):
        return decision
    walk = Walk(operation, operation.program, event.now)
    walk.whole()
    if not walk.records and not walk.directives:
        return decision
    ends = tuple(one for one in walk.directives if isinstance(one, EndAttempt))
    return attrs.evolve(
        decision,
        records=(*decision.records, *walk.records),
        directives=(*decision.directives, *walk.directives),
        instead=attrs.evolve(decision, directives=(*decision.directives, *ends)),
    )


def _may_move(operation: Operation, program: ProgramState) -> bool:
    stopped = operation.cancel_requested or operation.lost
    return program.known and program.end is None and not stopped


class _Ended(Exception):  # noqa: N818  # leaves the walk from anywhere in it
    """The program has ended in this walk."""


class Walk:
    """One pass over the nodes, in order, as far as they go; collects what is to be done."""

    def __init__(self, operation: Operation, program: ProgramState, now: Moment) -> None:
        self.records: list[Record] = []
        self.directives: list[Directive] = []
        self._operation = operation
        self._program = program
        self._now = now
        self._base = (now.wall, operation.operation_id)
        self._terms = {one.handler: one for one in program.terms}
        self._meter = Meter()

    def whole(self) -> None:
        scope: dict[str, Any] = {"input": self._program.input}
        nodes = program_of(self._program.document, self._program.inputs).nodes
        with contextlib.suppress(_Ended):
            all(self._passed(node, node.id, scope) for node in nodes)  # up to one that has no value

    def _passed(self, node: Node, path: str, scope: dict[str, Any]) -> bool:
        """Whether the node has its value, which is in `scope` then; else it is begun, once."""
        match node:
            case Bind():
                self._bind(node, path, scope)
                return True
            case CallTool():
                return self._call(node, path, scope)
            case Approve():
                return self._approve(node, scope)
            case Parallel():
                return self._parallel(node, scope)
            case End():
                return self._end(node, scope)
            case _:
                assert_never(node)

    def _filled(self, node: str, value: Any, scope: dict[str, Any]) -> Any:
        try:
            return template.filled(value, scope, self._meter, raw=bool(self._program.inputs))
        except Faulty as faulty:
            code = "LimitExceeded" if faulty.limit else "InvalidInput"
            return self._fail(node, code, str(faulty))

    def _fail(self, node: str, code: str, why: str) -> NoReturn:
        detail = f"node {node!r}: {why}"
        self.records = [one for one in self.records if not isinstance(one, CallAccepted)]
        self.directives = []
        calls = (one for one in self._operation.ordered_calls() if one.retry_of is None)
        self._stop_all(calls, "the program has failed")
        self.records.append(ProgramEnded(*self._base, node, Ended.FAILED, None, code, detail))
        raise _Ended from None

    def _bind(self, node: Bind, path: str, scope: dict[str, Any]) -> None:
        if path not in self._program.bound:
            value = self._filled(path, {template.MARK: node.expression}, scope)
            self.records.append(NodeBound(*self._base, path, value))
            scope[node.id] = value
        else:
            scope[node.id] = self._program.bound[path]

    def _call(self, node: CallTool, path: str, scope: dict[str, Any]) -> bool:
        if path in self._program.calls:
            known = self._program.calls[path]
            lost = node_lost(self._operation, known)
            if lost is not None:
                why = f"it succeeded, and its value was not kept ({lost})"
                self._fail(path, "EffectResultUnavailable", why)
            result = node_value(self._operation, known)
            if result is not None:
                scope[node.id] = result.value
            return result is not None
        given = self._filled(path, node.input, scope)
        terms = self._terms[node.handler]
        call_id = call_of_node(self._operation.operation_id, path)
        by = self._operation.requester
        timeout_ms = node.timeout_ms or terms.timeout_ms
        self.records.append(
            CallAccepted(*self._base, call_id, terms, given, timeout_ms, by, node=path)
        )
        self.directives.append(Launch(call_id))
        return False

    def _approve(self, node: Approve, scope: dict[str, Any]) -> bool:
        known = self._program.approvals.get(node.id)
        if known is None:
            expires_at = self._now.wall + node.expires_ms * _NS_PER_MS
            self.records.append(
                ApprovalRequested(
                    *self._base, node.id, node.by, node.prompt, node.choices, expires_at
                )
            )
            return False
        if known.choice is None or known.answered_by is None:
            return False
        scope[node.id] = {
            "choice": known.choice,
            "comment": known.comment,
            "uid": known.answered_by.uid,
        }
        return True

    def _parallel(self, node: Parallel, scope: dict[str, Any]) -> bool:
        calls = self._calls_in(node)
        if node.fail_fast and any(node_waits(self._operation, one.call_id) for one in calls):
            self._stop_all(calls, f"another branch of {node.id!r} failed")
            return False
        values: dict[str, Any] = {}
        for name, branch in node.branches.items():
            inner = dict(scope)
            if all(self._passed(one, f"{node.id}.{name}.{one.id}", inner) for one in branch):
                values[name] = inner[branch[-1].id]
        scope[node.id] = values
        return len(values) == len(node.branches)

    def _calls_in(self, node: Parallel) -> list[Call]:
        """The first calls of the lineages of the group's nodes."""
        prefix = node.id + "."
        paths = (path for path in self._program.calls if path.startswith(prefix))
        return [self._operation.calls[self._program.calls[path]] for path in sorted(paths)]

    def _stop_all(self, calls: Iterable[Call], why: str) -> None:
        """Nothing that waits is started; what runs is ended, unless it is changing something.
        `calls` are the first ones of their lineages."""
        for call in calls:
            newest = self._operation.newest(call)
            if newest.queued is not None:
                refused = CallRefused(*self._base, newest.call_id, "OperationCancelled", why)
                self.records.append(refused)
            elif newest.live is not None and not self._has_leave(newest):
                self.directives.append(EndAttempt(newest.call_id, newest.live.number))

    def _has_leave(self, call: Call) -> bool:
        return any(
            one.outcome is Said.ANNOUNCED and one.call_id == call.call_id
            for effect in self._operation.lineage(call)
            for one in effect.tries
        )

    def _end(self, node: End, scope: dict[str, Any]) -> bool:
        value = self._filled(node.id, node.value, scope)
        ended = Ended.GAVE if node.gives else Ended.STOPPED
        self.records.append(ProgramEnded(*self._base, node.id, ended, value))
        return False
