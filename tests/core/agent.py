"""A core with open operations, and what an agent asks of them, in short."""

from __future__ import annotations

from typing import Any

import attrs

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.ids import CallId, OperationId, SessionId
from supervisor.core.open_state import Asked, Continuation
from supervisor.core.record import (
    By,
    Ending,
    Outcome,
    Result,
    Terms,
    Trigger,
)
from supervisor.core.standing import OperationState, operation_state
from supervisor.core.state import Operation
from supervisor.core.step import (
    CallAsked,
    CancelAsked,
    ContinueAsked,
    Decision,
    EndAsked,
    Opened,
)
from tests.core.made import ASK, CLIENT, KEY, NEVER, NONE, Core, effect, terms

WRITE = terms(effect())
KEYED = terms(effect(contract=KEY))
ASKED = terms(effect(contract=ASK))
FREE = terms(effect(contract=NONE))
TWO = terms(effect(), effect("mail"))
READ = attrs.evolve(terms(effect("look", NONE, whole_call=True), handler="look"), read_only=True)
BY_CONTRACT = {NEVER: WRITE, KEY: KEYED, ASK: ASKED, NONE: FREE}


class Agent(Core):
    """The core, one open operation in it, and the client that drives that."""

    def __init__(self, **members: Any) -> None:
        super().__init__()
        self.op = self.message(**members)

    # --- asking -----------------------------------------------------------------------

    def message(self, session_id: str = "uid:1000", *, max_run_ms: int = 600_000) -> OperationId:
        """A new open operation, with its continuation 0."""
        event = Opened(
            now=self.now,
            operation_id=OperationId(self.name("op")),
            session_id=SessionId(session_id),
            request_id=self.name("m"),
            request_digest="d",
            by=CLIENT,
            max_run_ms=max_run_ms,
        )
        decision = self.do(event)
        assert decision.refusal is None, decision.refusal
        return event.operation_id

    def asking(self, of: Terms, value: Any = 1, request_id: str = "", **members: Any) -> CallAsked:
        return CallAsked(
            now=self.now,
            operation_id=members.pop("operation_id", self.op),
            call_id=CallId(self.name("call")),
            by=members.pop("by", CLIENT),
            request_id=request_id or self.name("t"),
            request_digest=canonical_digest([of.handler, value]),
            terms=of,
            input=value,
            timeout_ms=of.timeout_ms,
            margin_ms=self.margin_ms,
            **members,
        )

    def ask(self, of: Terms, value: Any = 1, request_id: str = "", **members: Any) -> Decision:
        return self.do(self.asking(of, value, request_id, **members))

    def called(self, of: Terms, value: Any = 1, request_id: str = "", **members: Any) -> Asked:
        """What a call that is not refused is answered with."""
        event = self.asking(of, value, request_id, **members)
        decision = self.do(event)
        assert decision.refusal is None, decision.refusal
        return self.state.operations[event.operation_id].requests[event.request_id]

    def go_on(
        self, *, trigger: Trigger = Trigger.MANUAL, after: int | None = None, request_id: str = ""
    ) -> Decision:
        after = len(self.operation_.continuations) - 1 if after is None else after
        asked = (self.op, CLIENT, trigger, after, request_id or self.name("c"))
        return self.do(ContinueAsked(self.now, *asked))

    def auto(self, **members: Any) -> Decision:
        return self.go_on(trigger=Trigger.AUTO, **members)

    def end(self, reason: Ending = Ending.TIME_LIMIT, n: int | None = None) -> Decision:
        n = len(self.operation_.continuations) - 1 if n is None else n
        return self.do(EndAsked(self.now, self.op, CLIENT, n, reason))

    def cancel_it(self) -> Decision:
        return self.do(CancelAsked(self.now, self.op, CLIENT, "no more"))

    # --- running ----------------------------------------------------------------------

    def completed(self, of: Terms, value: Any = 1, result: Any = "done") -> CallId:
        """A call that ran and succeeded, its one effect applied with this result."""
        call_id = self.called(of, value).call_id
        self.finish(call_id, result)
        return call_id

    def finish(self, call_id: CallId, result: Any = "done") -> None:
        assert self.ready(call_id).refusal is None
        given = result if isinstance(result, Result) else Result(result)
        if self.call(call_id).terms.whole_call is None:
            self.announce(call_id)
            self.confirm(call_id, result=given)
        self.exit(call_id, value=given)

    def running(self, of: Terms, value: Any = 1) -> CallId:
        """A call that runs, with leave for its first effect."""
        call_id = self.called(of, value).call_id
        assert self.ready(call_id).refusal is None
        self.announce(call_id)
        return call_id

    def unsettled(self, of: Terms, value: Any = 1) -> CallId:
        """A call that ended without saying what became of its first effect."""
        call_id = self.running(of, value)
        self.exit(call_id, Outcome.FAILED)
        return call_id

    def failed(self, of: Terms, value: Any = 1) -> CallId:
        """A call that failed with nothing applied."""
        call_id = self.running(of, value)
        self.confirm(call_id, applied=False)
        self.exit(call_id, Outcome.FAILED)
        return call_id

    # --- looking ----------------------------------------------------------------------

    @property
    def operation_(self) -> Operation:
        return self.state.operations[self.op]

    @property
    def last(self) -> Continuation:
        return self.operation_.continuations[-1]


OTHER = By(0, 9)


def stands(agent: Agent) -> OperationState:
    return operation_state(agent.operation_)
