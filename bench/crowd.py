"""A state with many operations: a few that the real core brings about, and copies of them.

Ten have 100 calls together: four open operations that are done, one that a restart interrupted
with an effect unknown, and five dispatches, of which two are done, two are unknown and one runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from bench.deciding import BY, INPUT, Deciding, terms
from supervisor.core.contents import Put, in_memory
from supervisor.core.contract import Contract
from supervisor.core.ids import CallId, OperationId
from supervisor.core.record import Ending
from supervisor.core.state import State
from supervisor.core.step import CallAsked, EndAsked, Opened
from supervisor.core.text import text_of
from supervisor.core.whole import Kept, lines, state_from

TEN = 10
_BEGIN = 1_790_000_000_000_000_000
_NAME = re.compile(rb"_([0-9]{20})(?![0-9])")
_COPY = 10**6  # more names than ten operations have


class Crowd(Deciding):
    """Operations of both kinds; what happens comes after all that has happened in `state`."""

    def __init__(self, state: State | None = None, named: int = 10**18) -> None:
        state = state or State()
        made_of = terms(Contract.IDEMPOTENCY_KEY)
        super().__init__(made_of, state, at=max(state.latest, _BEGIN), named=named)

    def opened(self) -> OperationId:
        members = self.message()
        self.do(Opened(**members))
        one: OperationId = members["operation_id"]
        return one

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
                terms=self.terms,
                input={**INPUT, "note": call},
                timeout_ms=self.terms.timeout_ms,
                margin_ms=0,
                continuation=None,
            )
        )
        return call

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


def crowd(operations: int, put: Put = in_memory) -> Crowd:
    """With so many operations, a multiple of ten, and ten times as many calls; those that are
    finished are filed, where `put` puts them."""
    first = Crowd()
    first.ten()
    times = operations // TEN
    head, *_ = map(orjson.loads, lines(first.state))
    # As the first version had it, with an operation in each line.
    head = {**head, "whole": 1, "operations": operations, "accepted": operations}
    del head["left"]
    for line in ("next_finished", "next_interrupted"):
        head[line] = head.get(line, 0) * times
    texts = [*map(text_of, _kept(first.state))]
    copies = (_copy(text, n, head, times) for n in range(times) for text in texts)
    loose = state_from([orjson.dumps(head), *copies])
    return Crowd(state_from(lines(loose), put), named=2 * 10**18)


def _kept(state: State) -> Iterator[Kept]:
    assert not state.operations.filed
    for operation in state.operations.values():
        one = operation.operation_id
        places = {**state.loose_finished.places, **state.interrupted.places}
        yield Kept(operation, places.get(one, -1))


def _copy(text: bytes, n: int, head: dict[str, Any], times: int) -> bytes:
    """The n-th copy of a line: other names, its own serial and place."""
    made: dict[str, Any] = orjson.loads(
        _NAME.sub(lambda name: b"_%020d" % (int(name[1]) + n * _COPY), text)
    )
    operation = made["operation"]
    operation["serial"] = operation.get("serial", 0) + n * TEN
    if "place" in made:
        line = "next_finished" if operation.get("finished") else "next_interrupted"
        made["place"] += n * head[line] // times
    return orjson.dumps(made, option=orjson.OPT_SORT_KEYS)
