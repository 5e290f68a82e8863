"""An open operation, and the worst of agents: it forgets what it did whenever it is cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.ids import CallId, OperationId, SessionId
from supervisor.core.matching import Class, class_of
from supervisor.core.record import Ending, Trigger
from supervisor.core.standing import OperationState, call_result, operation_state
from supervisor.core.state import Call, Operation
from supervisor.core.step import CallAsked, ContinueAsked, EndAsked, Opened
from tests.core.cuts import HANDLERS, Driven
from tests.core.made import CLIENT

ONE = OperationId("op_1")
AT_ONCE = 2


class LedAgent(Driven):
    """It wants one call of each handler; its first `limits` stretches end after some turns."""

    def __init__(self, wants: Sequence[str], limits: Sequence[int], fails: Mapping[str, str]):
        self.wants, self.limits = wants, limits
        self.asked: dict[str, str] = {}  # its newest request for each, in this continuation
        self.turns = 0
        super().__init__(fails)

    def restart(self, *alive: Any, **members: Any) -> Any:
        self.asked, self.turns = {}, 0
        return super().restart(*alive, **members)

    @property
    def it(self) -> Operation | None:
        return self.state.operations.get(ONE)

    def what(self, call: Call) -> str:
        return call.terms.handler

    def send(self) -> None:
        session_id = SessionId("uid:1000")
        event = Opened(
            now=self.now,
            operation_id=ONE,
            session_id=session_id,
            request_id="m1",
            request_digest="open",
            by=CLIENT,
            max_run_ms=900_000,
        )
        assert self.do(event).refusal is None

    def turn(self, operation: Operation) -> None:
        self.handlers()
        if operation.continuation is None:
            self.settle()
            self._goes_on(operation)
        elif all(self._has(want) for want in self.wants):
            self._ends(Ending.DONE)
        elif self._is_cut_off(operation):
            self._ends(Ending.TIME_LIMIT)
        else:
            self.turns += 1
            self._asks()

    def _goes_on(self, operation: Operation) -> None:
        self.asked, self.turns = {}, 0
        last = operation.continuations[-1]
        by_itself = last.reason is Ending.TIME_LIMIT
        trigger = Trigger.AUTO if by_itself else Trigger.MANUAL
        asked = (ONE, CLIENT, trigger, last.n, self.name("c"))
        decision = self.do(ContinueAsked(self.now, *asked))
        assert decision.refusal is None, decision.refusal

    def _is_cut_off(self, operation: Operation) -> bool:
        cut = sum(one.reason is Ending.TIME_LIMIT for one in operation.continuations)
        return cut < len(self.limits) and self.turns >= self.limits[cut]

    def _ends(self, reason: Ending) -> None:
        n = len(self.known.continuations) - 1
        decision = self.do(EndAsked(self.now, ONE, CLIENT, n, reason))
        assert decision.refusal is None, decision.refusal

    def _asks(self) -> None:
        """For what it does not have, a few at once; again, when it hears that it failed."""
        waits = [want for want in self.asked if self._stands(want) is Class.OPEN]
        for want in self.wants:
            if not self._has(want) and want not in waits and len(waits) < AT_ONCE:
                self._call(want)
                waits.append(want)

    def _call(self, want: str) -> None:
        terms, request_id = HANDLERS[want], self.name("t")
        event = CallAsked(
            now=self.now,
            operation_id=ONE,
            call_id=CallId(self.name("call")),
            by=CLIENT,
            request_id=request_id,
            request_digest=canonical_digest([want, 1]),
            terms=terms,
            input=1,
            timeout_ms=terms.timeout_ms,
            margin_ms=0,
        )
        if self.do(event).refusal is None:
            self.asked[want] = request_id
        else:
            self.settle()

    def _answered(self, want: str) -> Call | None:
        known = self.known.requests.get(self.asked.get(want, ""))
        return self.known.calls[known.call_id] if known is not None else None

    def _stands(self, want: str) -> Class | None:
        call = self._answered(want)
        return class_of(self.known, call) if call is not None else None

    def _has(self, want: str) -> bool:
        return self._stands(want) is Class.COMPLETED

    def result(self) -> tuple[OperationState, Any]:
        """What each that is completed gives."""
        calls = [c for c in self.known.ordered_calls() if self._is_done(c)]
        return operation_state(self.known), {
            self.what(c): call_result(self.known, c) for c in calls
        }

    def _is_done(self, call: Call) -> bool:
        return class_of(self.known, call) is Class.COMPLETED

    def attempts(self) -> dict[str, int]:
        """Of what is completed, all tries of all calls for it."""
        if self.it is None:
            return {}
        calls = list(self.known.ordered_calls())
        done = {self.what(c) for c in calls if self._is_done(c)}
        return {w: sum(len(c.attempts) for c in calls if self.what(c) == w) for w in done}
