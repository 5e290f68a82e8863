"""Open operations: where they stand, how long they stay, what recovery says of them."""

from __future__ import annotations

import pytest

from supervisor.core.errors import CODES
from supervisor.core.ids import CallId
from supervisor.core.projection import project
from supervisor.core.record import Ending, Outcome
from supervisor.core.standing import OperationState, Waits, operation_result, waits_for
from supervisor.core.step import TimePassed
from tests.core.agent import (
    KEYED,
    OTHER,
    READ,
    WRITE,
    Agent,
    stands,
)
from tests.core.made import (
    code,
    kinds,
)
from tests.core.test_whole import is_the_fold_everywhere

DAY_MS = 86_400_000


# --- standing, going, recovering -----------------------------------------------------------


STANDS = {
    "accepted": (lambda a: None, "running"),
    "a call runs": (lambda a: a.running(WRITE), "running"),
    "all calls are done": (lambda a: a.completed(WRITE), "running"),
    "a call is unknown": (lambda a: a.unsettled(WRITE), "unknown"),
    "a call failed": (lambda a: a.failed(WRITE), "running"),
    "out of time": (lambda a: a.end(), "interrupted"),
    "done": (lambda a: a.end(Ending.DONE), "succeeded"),
    "cancelled": (lambda a: a.cancel_it(), "cancelled"),
    "restarted": (lambda a: a.restart(), "interrupted"),
    "done and unknown": (lambda a: (a.unsettled(WRITE), a.end(Ending.DONE)), "unknown"),
    "cancelled and unknown": (lambda a: (a.unsettled(WRITE), a.cancel_it()), "unknown"),
    "out of time and running": (lambda a: (a.running(WRITE), a.end()), "running"),
    "continued": (lambda a: (a.end(), a.go_on()), "running"),
    "waiting after an unknown": (lambda a: (a.unsettled(WRITE), a.called(WRITE, 2)), "running"),
}


@pytest.mark.guarantee("A7")
@pytest.mark.parametrize("name", STANDS)
def test_an_open_operation_stands_where_the_table_says(name):
    agent = Agent()
    make, expected = STANDS[name]
    make(agent)
    assert stands(agent).value == expected
    assert agent.operation_.finished is (expected in {"succeeded", "cancelled"})


def test_it_has_no_result_of_its_own_whatever_its_calls_gave():
    agent = Agent()
    agent.completed(WRITE, result="sent")
    agent.end(Ending.DONE)
    assert operation_result(agent.operation_) is None


def test_what_was_done_with_something_unknown_succeeds_when_that_is_settled():
    agent = Agent()
    call_id = agent.unsettled(WRITE)
    agent.end(Ending.DONE)
    agent.resolve(call_id, applied=False)
    assert stands(agent) is OperationState.SUCCEEDED
    assert code(agent.go_on()) == "ContinuationRefused"


@pytest.mark.guarantee("R11")
def test_one_that_nobody_continues_is_abandoned_and_one_that_moves_or_is_unknown_is_not():
    agent = Agent()
    assert waits_for(agent.operation_) is Waits.ABANDONMENT
    call_id = agent.running(WRITE)
    assert waits_for(agent.operation_) is None
    agent.exit(call_id, Outcome.FAILED)
    assert waits_for(agent.operation_) is None  # unknown
    agent.resolve(call_id, applied=False)
    agent.wait(30 * DAY_MS)
    decision = agent.do(TimePassed(agent.now, 200_000, 30, 400, 30))
    assert kinds(decision) == ["OperationAbandoned"]
    assert stands(agent) is OperationState.CANCELLED
    assert agent.last.reason is Ending.CANCELLED
    assert not agent.state.continued


@pytest.mark.guarantee("R11")
def test_the_newest_of_a_session_is_forgotten_with_its_operation():
    agent = Agent()
    agent.end(Ending.DONE)
    agent.wait(40 * DAY_MS)
    assert kinds(agent.do(TimePassed(agent.now, 200_000, 30, 400, 30))) == ["OperationEvicted"]
    assert not agent.state.newest_open
    assert code(agent.ask(WRITE)) == "NotFound"
    agent.op = agent.message()
    assert agent.operation_.follows is None


def projected(agent):
    handlers = {call.terms.handler for call in agent.operation_.ordered_calls()}
    digests = dict.fromkeys(handlers, "d" * 64)
    return project(agent.operation_, agent.now, margin_ms=0, digests=digests)


@pytest.mark.guarantee("R3", "A6", "A9")
def test_recovery_offers_to_continue_and_says_what_an_identical_call_would_meet():
    agent = Agent()
    call_id = agent.unsettled(WRITE)
    agent.restart()
    found = projected(agent)
    assert {one.action for one in found.actions} == {"continue", "resolve", "cancel", "extend"}
    assert [one.code for one in found.refusals] == ["NotResumable", "EffectOutcomeUnknown"]
    assert "operations continue" in found.refusals[0].remedy
    assert found.refusals[1].call_id == call_id
    agent.message()
    found = projected(agent)
    assert "continue" not in {one.action for one in found.actions}
    assert found.refusals[0].code == "ContinuationRefused"


@pytest.mark.guarantee("A9", "R4")
def test_a_resume_is_refused_and_says_what_to_do_instead():
    agent = Agent()
    call_id = agent.unsettled(WRITE)
    agent.end()
    decision = agent.resume(call_id)
    assert code(decision) == "NotResumable"
    assert "operations continue" in decision.refusal.remedy


@pytest.mark.guarantee("R5")
def test_whoever_asked_last_is_whose_authority_counts():
    agent = Agent()
    agent.called(WRITE, by=OTHER)
    assert agent.operation_.requester == OTHER


@pytest.mark.guarantee("J9")
def test_a_snapshot_anywhere_in_its_life_goes_on_as_if_nothing_had_been():
    agent = Agent()
    agent.completed(WRITE)
    agent.unsettled(KEYED)
    agent.running(WRITE, 2)
    agent.end()
    agent.auto(request_id="c1")
    agent.called(WRITE, request_id="t1")
    agent.called(KEYED)
    agent.called(WRITE, 2)
    agent.end(Ending.STOP)
    agent.message()
    agent.restart()
    agent.end(Ending.DONE)
    agent.cancel_it()
    is_the_fold_everywhere(agent.frames)


def test_calls_of_one_operation_are_bounded(monkeypatch):
    monkeypatch.setattr("supervisor.core.decide.open.CALLS_MOST", 2)
    agent = Agent()
    agent.called(READ, 1)
    agent.called(READ, 2)
    decision = agent.ask(READ, 3)
    assert code(decision) == "LimitExceeded"
    assert CODES["LimitExceeded"].http_status == 429
    assert CallId("none") not in agent.operation_.calls


@pytest.mark.guarantee("A7", "R1", "R11")
def test_done_in_doubt_and_continued_is_finished_only_when_that_one_is_done():
    agent = Agent()
    call_id = agent.unsettled(WRITE)
    agent.end(Ending.DONE)
    assert stands(agent) is OperationState.UNKNOWN
    agent.go_on()
    agent.resolve(call_id, applied=True)
    # It is open: whoever continued it still works in it, and nothing may be evicted.
    assert stands(agent) is OperationState.RUNNING
    agent.completed(WRITE, 2)
    agent.end(Ending.DONE)
    assert stands(agent) is OperationState.SUCCEEDED
    agent.wait(31 * DAY_MS)
    assert kinds(agent.do(TimePassed(agent.now, 1_000, 30, 400, 30))) == ["OperationEvicted"]
    agent.restart()
    is_the_fold_everywhere(agent.frames)
