"""A state with many operations: a few that the real core brings about, and copies of them.

Ten have 100 calls together: four open operations that are done, one that a restart interrupted
with an effect unknown, and five dispatches, of which two are done, two are unknown and one runs.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.contract import Contract
from supervisor.core.decide import decide
from supervisor.core.evolve import fold
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId
from supervisor.core.moment import Moment
from supervisor.core.record import (
    By,
    DeclaredEffect,
    Ending,
    Exit,
    Identity,
    Outcome,
    Result,
    Terms,
)
from supervisor.core.state import State
from supervisor.core.step import (
    Announced,
    CallAsked,
    Confirmed,
    EndAsked,
    Exited,
    Input,
    Opened,
    Ready,
    Restarted,
    Submitted,
)
from supervisor.core.whole import parts, state_from

TEN = 10
BOOT = "00000000-0000-0000-0000-000000000000"
BY = By(1000, 42)
SESSION = SessionId("uid:1000")
TERMS = Terms(
    handler="charge",
    digest="d" * 64,
    timeout_ms=10_000,
    grace_ms=2_000,
    read_only=False,
    effects=(DeclaredEffect("charge", Contract.IDEMPOTENCY_KEY),),
)
_INPUT = {"account": "acct_1029384756", "amount": 1299, "currency": "EUR", "note": "invoice 7"}
_RESULT = Result({"id": "ch_3PqR8s2eZvKYlo2C", "status": "succeeded", "amount": 1299})
_MS = 1_000_000
_NAME = re.compile(rb"_([0-9]{20})(?![0-9])")
_COPY = 10**6  # more names than ten operations have


class Crowd:
    """A state, and what can be done in it; a clock that a decision moves on by 1 ms."""

    def __init__(self, state: State | None = None, named: int = 10**18) -> None:
        self.state = state or State()
        self.at = max(self.state.latest, 1_790_000_000_000 * _MS)
        self._named = named

    @property
    def now(self) -> Moment:
        return Moment(self.at, self.at, BOOT)

    def do(self, event: Input) -> None:
        decision = decide(self.state, event)
        assert decision.refusal is None, decision.refusal
        self.state = fold(self.state, self.state.position + 1, decision.records)
        self.at += _MS

    def name(self, prefix: str) -> str:
        self._named += 1
        return f"{prefix}_{self._named:020}"

    def restart(self) -> None:
        epoch = self.state.epoch + 1
        self.do(Restarted(self.now, epoch, "0.1.0", frozenset(), frozenset()))

    def submitted(self) -> CallId:
        call = CallId(self.name("call"))
        self.do(
            Submitted(
                **self._message(),
                call_id=call,
                terms=TERMS,
                input=_INPUT,
                timeout_ms=TERMS.timeout_ms,
            )
        )
        return call

    def opened(self) -> OperationId:
        members = self._message()
        self.do(Opened(**members))
        one: OperationId = members["operation_id"]
        return one

    def _message(self) -> dict[str, Any]:
        return {
            "now": self.now,
            "operation_id": OperationId(self.name("op")),
            "session_id": SESSION,
            "request_id": self.name("turn"),
            "request_digest": canonical_digest([TERMS.handler, _INPUT]),
            "by": BY,
            "max_run_ms": 600_000,
        }

    def asked(self, one: OperationId) -> CallId:
        call = CallId(self.name("call"))
        self.do(
            CallAsked(
                now=self.now,
                operation_id=one,
                call_id=call,
                by=BY,
                request_id=self.name("ask"),
                request_digest="a" * 64,
                terms=TERMS,
                input={**_INPUT, "note": call},
                timeout_ms=TERMS.timeout_ms,
                margin_ms=0,
                continuation=None,
            )
        )
        return call

    def began(self, call: CallId) -> CallId:
        effect, identity = EffectId(self.name("eff")), Identity(100, 5, BOOT)
        self.do(Ready(self.now, call, TERMS.digest, identity, ("seccomp",), 0, effect))
        digest = canonical_digest(_INPUT)
        self.do(Announced(self.now, call, 0, "charge", _INPUT, digest, effect))
        return call

    def finished(self, call: CallId) -> None:
        self.began(call)
        self.do(Confirmed(self.now, call, 0, 0, applied=True, result=_RESULT))
        ended = (Outcome.SUCCEEDED, 1_000, Exit(code=0))
        self.do(Exited(self.now, call, 0, *ended, value=_RESULT))

    def ten(self) -> None:
        interrupted = self.opened()
        for _ in range(10):
            self.finished(self.asked(interrupted))
        self.began(self.asked(interrupted))
        for _ in range(2):
            self.began(self.submitted())
        self.restart()
        for _ in range(4):
            one = self.opened()
            for _ in range(21):
                self.finished(self.asked(one))
            self.do(EndAsked(self.now, one, BY, 0, Ending.DONE))
        for _ in range(2):
            self.finished(self.submitted())
        self.began(self.submitted())


def crowd(operations: int) -> Crowd:
    """With so many operations, a multiple of ten, and ten times as many calls."""
    first = Crowd()
    first.ten()
    head, *kept = parts(first.state)
    texts = [orjson.dumps(one) for one in kept]
    times = operations // TEN
    head = {**head, "operations": operations, "accepted": operations}
    for line in ("next_finished", "next_interrupted"):
        head[line] = head.get(line, 0) * times
    copies = (_copy(text, n, head, times) for n in range(times) for text in texts)
    return Crowd(state_from([head, *copies]), named=2 * 10**18)


def _copy(text: bytes, n: int, head: dict[str, Any], times: int) -> dict[str, Any]:
    """The n-th copy of an operation: other names, its own serial and place."""
    made: dict[str, Any] = orjson.loads(
        _NAME.sub(lambda name: b"_%020d" % (int(name[1]) + n * _COPY), text)
    )
    made["operation"]["serial"] += n * TEN
    line = "next_finished" if made["operation"].get("finished") else "next_interrupted"
    if "place" in made:
        made["place"] += n * head[line] // times
    return made
