"""The real core with a clock and names of its own: what benchmarks make their operations with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.contract import Contract
from supervisor.core.decide import decide
from supervisor.core.evolve import fold
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId
from supervisor.core.moment import Moment
from supervisor.core.record import (
    By,
    DeclaredEffect,
    Exit,
    Identity,
    Outcome,
    Record,
    Result,
    Terms,
)
from supervisor.core.state import State
from supervisor.core.step import Announced, Confirmed, Exited, Input, Ready, Restarted, Submitted

BOOT = "00000000-0000-0000-0000-000000000000"
BY = By(1000, 42)
SESSION = SessionId("uid:1000")
MS = 1_000_000
INPUT = {"account": "acct_1029384756", "amount": 1299, "currency": "EUR", "note": "invoice 7"}
RESULT = Result({"id": "ch_3PqR8s2eZvKYlo2C", "status": "succeeded", "amount": 1299})
_LAYERS = ("namespaces", "seccomp", "landlock")


def terms(contract: Contract) -> Terms:
    """Of a handler that makes one change."""
    return Terms(
        handler="charge",
        digest="d" * 64,
        timeout_ms=10_000,
        grace_ms=2_000,
        read_only=False,
        effects=(DeclaredEffect("charge", contract),),
    )


class Deciding:
    """A state, and what can be done in it; a decision moves the clock on by 1 ms.

    Names end in 20 digits, those after `named`. `on_frame` is given what was folded, a frame at
    a time; `members` are what every message has besides.
    """

    def __init__(
        self,
        made_of: Terms,
        state: State,
        *,
        at: int,
        named: int = 0,
        on_frame: Callable[[tuple[Record, ...]], None] = lambda _records: None,
        **members: Any,
    ) -> None:
        self.terms = made_of
        self.state = state
        self.at = at
        self._named = named
        self._on_frame = on_frame
        self._members = members

    @property
    def now(self) -> Moment:
        return Moment(self.at, self.at, BOOT)

    def name(self, prefix: str) -> str:
        self._named += 1
        return f"{prefix}_{self._named:020}"

    def do(self, event: Input) -> None:
        decision = decide(self.state, event)
        assert decision.refusal is None, decision.refusal
        self.state = fold(self.state, self.state.position + 1, decision.records)
        self.at += MS
        self._on_frame(decision.records)

    def message(self) -> dict[str, Any]:
        """What each message is decided with, whatever it asks for."""
        return {
            "now": self.now,
            "operation_id": OperationId(self.name("op")),
            "session_id": SESSION,
            "request_id": self.name("turn"),
            "request_digest": canonical_digest([self.terms.handler, INPUT]),
            "by": BY,
            "max_run_ms": 600_000,
            **self._members,
        }

    def restart(self) -> None:
        self.do(Restarted(self.now, self.state.epoch + 1, "0.1.0", frozenset(), frozenset()))

    def submitted(self) -> CallId:
        call = CallId(self.name("call"))
        self.do(
            Submitted(
                **self.message(),
                call_id=call,
                terms=self.terms,
                input=INPUT,
                timeout_ms=self.terms.timeout_ms,
            )
        )
        return call

    def began(self, call: CallId) -> CallId:
        """It has leave for its effect."""
        effect, identity = EffectId(self.name("eff")), Identity(100, 5, BOOT)
        self.do(Ready(self.now, call, self.terms.digest, identity, _LAYERS, 0, effect))
        name, digest = self.terms.effects[0].name, canonical_digest(INPUT)
        self.do(Announced(self.now, call, 0, name, INPUT, digest, effect))
        return call

    def finished(self, call: CallId) -> None:
        self.began(call)
        self.do(Confirmed(self.now, call, 0, 0, applied=True, result=RESULT))
        ended = (Outcome.SUCCEEDED, 1_000, Exit(code=0))
        self.do(Exited(self.now, call, 0, *ended, value=RESULT))
