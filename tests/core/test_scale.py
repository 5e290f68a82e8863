"""What is done to one operation costs the same however many others, or calls of it, there are."""

from __future__ import annotations

import copy

import pytest

from supervisor.api.recovery_view import recovery_view
from supervisor.core.projection import project
from supervisor.core.record import Ending, Outcome
from tests.core.agent import KEYED, READ, WRITE, Agent
from tests.core.crowd import Crowd, crowd, work
from tests.core.made import KEY, code


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
    assert work(lambda: verb(many)) <= 1.1 * work(lambda: verb(few))
