"""What is done to one operation costs the same however many others, or calls of it, there are."""

from __future__ import annotations

import copy
import gc
import tracemalloc

import pytest

from supervisor.api.recovery_view import recovery_view
from supervisor.core.evolve import fold
from supervisor.core.projection import project
from supervisor.core.record import Ending, Outcome
from supervisor.core.whole import lines, state_from
from supervisor.journal.records import decode, encode
from supervisor.scratch import Scratch
from tests.core.agent import KEYED, READ, WRITE, Agent
from tests.core.crowd import Crowd, crowd, work
from tests.core.made import KEY, NONE, Core, code, effect, terms


@pytest.fixture(scope="module")
def sizes() -> tuple[Crowd, Crowd]:
    return crowd(1), crowd(10)


def dispatched(core):
    core.confirm(call_id := core.begun("charge", 1000))
    core.exit(call_id)


def resumed(core):
    core.exit(call_id := core.begun("charge", 1000, KEY), Outcome.FAILED)
    operation = core.operation(call_id)
    known = project(operation, core.now, margin_ms=0, digests={"charge": "d" * 64})
    assert recovery_view(operation, known, core.now)["allowed_actions"]
    assert code(core.resume(call_id)) is None


def cancelled(core):
    core.cancel(core.begun("charge", 1000))


def restarted(core):
    core.restart()


@pytest.mark.parametrize("verb", [dispatched, resumed, cancelled, restarted])
def test_an_operation_costs_the_same_among_many(sizes, verb):
    few, many = map(copy.copy, sizes)
    restarted(few)
    restarted(many)
    assert len(many.state.operations) > 8 * len(few.state.operations)
    no_dearer(verb, many, few)


def no_dearer(verb, many, few):
    verb(copy.copy(few))  # what is made when it is first needed is made now
    assert work(lambda: verb(many)) <= 1.1 * work(lambda: verb(few))


def with_calls(count: int) -> Agent:
    agent = Agent()
    agent.unsettled(KEYED)
    agent.failed(WRITE, -1)
    for n in range(count):
        agent.completed(WRITE, n)
    return agent


@pytest.fixture(scope="module")
def lengths() -> tuple[Agent, Agent]:
    return with_calls(10), with_calls(150)


def read(agent):
    agent.completed(READ, 7_001)


def written(agent):
    agent.completed(WRITE, 7_002)


def gone_on(agent):
    agent.called(KEYED)


def ended(agent):
    agent.running(WRITE, 7_003)
    agent.end(Ending.STOP)


def continued(agent):
    agent.end(Ending.TIME_LIMIT)
    agent.auto(request_id="c1")
    agent.called(WRITE, 3)


def interrupted(agent):
    agent.running(WRITE, 7_003)
    agent.restart()


def given_up(agent):
    agent.running(WRITE, 7_003)
    agent.cancel_it()


@pytest.mark.parametrize("verb", [read, written, gone_on, ended, continued, interrupted, given_up])
def test_a_call_of_an_open_operation_costs_the_same_after_many(lengths, verb):
    few, many = map(copy.copy, lengths)
    no_dearer(verb, many, few)


class Lean(Core):
    """Keeps no frames: what grows is the state."""

    def put(self, *records):
        self.position += 1
        self.state = fold(self.state, self.position, decode(encode(records)))

    def finished(self, kept: int) -> None:
        event = self.submitted(terms(effect()), self.name("r"), operations_kept=kept)
        assert self.do(event).refusal is None
        self.ready(event.call_id)
        self.announce(event.call_id)
        self.confirm(event.call_id)
        self.exit(event.call_id)


def test_what_an_operation_leaves_in_memory_is_small_and_smaller_when_it_is_evicted():
    """Measured: 6,000 bytes of a finished dispatch, 700 of its tombstone."""
    core, most = Lean(), 40
    first = Lean()
    for _ in range(2):  # what is made once, whoever is the first to finish and to evict
        first.finished(1)
    tracemalloc.start()
    try:
        begun = _traced()
        for _ in range(most):
            core.finished(most)
        full = _traced()
        for _ in range(most):
            core.finished(most)
        evicted = _traced()
    finally:
        tracemalloc.stop()
    assert len(core.state.operations) == len(core.state.tombstones) == most
    assert (full - begun) / most < 8_000
    assert (evicted - full) / most < 1_200


@pytest.mark.parametrize(("calls", "most"), [(1, 40), (10, 100)])
def test_of_what_is_finished_memory_knows_what_it_is_not_called(calls, most, tmp_path):
    """Measured of thousands: 12 bytes of a dispatch, 58 of an operation with ten calls. A drawer
    itself takes a few thousand, of however many."""
    core, count = Agent(), 200
    for n in range(count):
        if calls == 1:
            core.exit(core.begin(terms(effect(contract=NONE)), f"request-{n:012}"))
            continue
        core.op = core.message()
        for m in range(calls):
            core.completed(WRITE, m)
        core.end(Ending.DONE)
    whole, scratch = [*lines(core.state)], Scratch(tmp_path)
    state_from(whole)  # what is made once is made now
    tracemalloc.start()
    try:
        begun = _traced()
        filed = state_from(whole, scratch.put).operations.filed
        assert (len(filed), len(filed.drawers)) == (count, 1)
        assert (_traced() - begun - 4_096) / count < most
    finally:
        tracemalloc.stop()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
