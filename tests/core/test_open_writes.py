"""The writes of an open operation: what a call that repeats one meets."""

from __future__ import annotations

import pytest

from supervisor.core.matching import Class, class_of
from supervisor.core.record import Answer, Ending, Outcome, Result
from supervisor.core.standing import OperationState
from tests.core.agent import (
    ASKED,
    BY_CONTRACT,
    FREE,
    KEYED,
    OTHER,
    READ,
    TWO,
    WRITE,
    Agent,
    stands,
)
from tests.core.made import (
    ASK,
    KEY,
    NEVER,
    NONE,
    code,
    directives,
    effect,
    kinds,
    terms,
    unchanged,
)

NAMESAKE = terms(effect(), handler="charge-other")


# --- A1: classes -------------------------------------------------------------------------


def partly(agent):
    call_id = agent.running(TWO)
    agent.confirm(call_id)
    agent.exit(call_id, Outcome.FAILED)
    return call_id


def refused(agent):
    call_id = agent.called(WRITE).call_id
    agent.ready(call_id, digest="e" * 64)
    return call_id


def cut_off(agent):
    """Nobody saw it end, and it had no leave: nothing happened."""
    call_id = agent.called(WRITE).call_id
    agent.ready(call_id)
    agent.lose(call_id)
    return call_id


CLASSES = {
    "queued": (lambda a: a.called(WRITE).call_id, Class.OPEN),
    "running": (lambda a: a.running(WRITE), Class.OPEN),
    "succeeded": (lambda a: a.completed(WRITE), Class.COMPLETED),
    "unknown": (lambda a: a.unsettled(WRITE), Class.UNSETTLED),
    "unknown with a key": (lambda a: a.unsettled(KEYED), Class.UNSETTLED),
    "some applied and failed": (partly, Class.UNSETTLED),
    "provider said no": (lambda a: a.failed(WRITE), Class.FAILED),
    "unknown and nobody's business": (lambda a: a.unsettled(FREE), Class.FAILED),
    "refused": (refused, Class.FAILED),
    "cut off before any leave": (cut_off, Class.FAILED),
}


@pytest.mark.guarantee("A1")
@pytest.mark.parametrize("name", CLASSES)
def test_each_call_has_its_class_by_its_id_whatever_came_after_it(name):
    agent = Agent()
    make, expected = CLASSES[name]
    call_id = make(agent)
    agent.completed(WRITE, 2)  # another input, another call
    assert class_of(agent.operation_, agent.call(call_id)) is expected


@pytest.mark.guarantee("A1")
def test_the_class_of_a_lineage_is_that_of_its_newest_call():
    agent = Agent()
    first = agent.unsettled(KEYED)
    second = agent.called(KEYED).call_id
    assert agent.call(second).retry_of == first
    assert class_of(agent.operation_, agent.call(first)) is Class.OPEN
    agent.finish(second)
    assert class_of(agent.operation_, agent.call(first)) is Class.COMPLETED


# --- A3, A4: completed ones ---------------------------------------------------------------


@pytest.mark.guarantee("A3")
@pytest.mark.parametrize("contract", BY_CONTRACT)
def test_a_completed_write_of_an_earlier_continuation_is_not_run_again(contract):
    agent = Agent()
    first = agent.completed(BY_CONTRACT[contract], result={"id": 7})
    agent.end()
    agent.go_on()
    decision = agent.ask(BY_CONTRACT[contract], 1, "again")
    assert kinds(decision) == ["RepeatAnswered"]
    assert not directives(decision)
    asked = agent.operation_.requests["again"]
    assert (asked.call_id, asked.answer) == (first, Answer.REPLAYED)
    assert len(agent.operation_.call_order) == 1


@pytest.mark.guarantee("A3", "A5")
@pytest.mark.parametrize(("of", "value"), [(WRITE, 2), (NAMESAKE, 1), (READ, 1)])
def test_another_input_another_handler_and_a_reader_are_fresh_calls(of, value):
    agent = Agent()
    agent.completed(WRITE, 1)
    agent.completed(READ, 1)
    agent.end()
    agent.go_on()
    assert agent.called(of, value).answer is Answer.FRESH


@pytest.mark.guarantee("A3", "A11")
@pytest.mark.parametrize(
    ("first", "again", "same"),
    [
        ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}, True),
        ({"t": "é"}, {"t": "e\u0301"}, False),
        ({"t": "x" * 100_000 + "a"}, {"t": "x" * 100_000 + "b"}, False),
        ([1, 2], [2, 1], False),
        ({}, {"a": None}, False),
        ("1", 1, False),
    ],
)
def test_inputs_are_compared_whole_in_their_canonical_form(first, again, same):
    agent = Agent()
    agent.completed(WRITE, first)
    agent.end()
    agent.go_on()
    assert (agent.called(WRITE, again).answer is Answer.REPLAYED) is same


@pytest.mark.guarantee("A3")
@pytest.mark.parametrize("contract", BY_CONTRACT)
def test_a_completed_write_whose_result_is_lost_is_refused_until_somebody_supplies_it(contract):
    agent = Agent()
    call_id = agent.completed(BY_CONTRACT[contract], result=Result(unavailable="too_large"))
    agent.end()
    agent.go_on()
    decision = agent.ask(BY_CONTRACT[contract])
    assert code(decision) == "EffectResultUnavailable"
    assert unchanged(decision)
    assert decision.refusal.effect_id in decision.refusal.remedy
    agent.resolve(call_id, applied=True, result=Result("found"))
    assert agent.called(BY_CONTRACT[contract]).answer is Answer.REPLAYED


@pytest.mark.guarantee("A4", "A5")
def test_each_completion_answers_one_repeat_in_each_later_continuation():
    agent = Agent()
    first = agent.completed(WRITE)
    assert agent.called(WRITE).answer is Answer.FRESH  # within one continuation nothing blocks
    second = agent.operation_.call_order[-1]
    agent.finish(second)
    for _ in range(2):
        agent.end()
        agent.go_on()
        answers = [agent.called(WRITE) for _ in range(2)]
        assert [one.call_id for one in answers] == [first, second]  # oldest first
        assert {one.answer for one in answers} == {Answer.REPLAYED}
    third = agent.called(WRITE)
    assert third.answer is Answer.FRESH
    agent.finish(third.call_id)
    agent.end()
    agent.go_on()
    # A replay completed nothing: there are three to be repeated, not more.
    answers = [agent.called(WRITE).answer for _ in range(4)]
    assert answers == [Answer.REPLAYED] * 3 + [Answer.FRESH]


@pytest.mark.guarantee("A4")
def test_a_claim_outlives_a_restart_and_counts_for_every_client():
    agent = Agent()
    agent.completed(WRITE)
    agent.end()
    agent.go_on()
    assert agent.called(WRITE, request_id="t1").answer is Answer.REPLAYED
    # The same request again is the same answer, and uses nothing up.
    assert agent.ask(WRITE, request_id="t1").repeated
    assert agent.called(WRITE, by=OTHER).answer is Answer.FRESH
    agent.restart()
    assert agent.ask(WRITE, request_id="t1").repeated
    agent.go_on()
    # One completion, and the second one's call was cut off before it did anything.
    assert [agent.called(WRITE).answer for _ in range(2)] == [Answer.REPLAYED, Answer.FRESH]


# --- A5, A6: what is unsettled, what runs --------------------------------------------------


@pytest.mark.guarantee("A5")
def test_unsettled_ones_answer_before_running_before_completed_ones_oldest_first():
    agent = Agent()
    completed, running, unsettled = (
        agent.completed(KEYED),
        agent.running(KEYED),
        agent.unsettled(KEYED),
    )
    agent.end()
    agent.go_on()
    first = agent.called(KEYED)
    assert agent.call(first.call_id).retry_of == unsettled
    agent.finish(first.call_id)
    assert agent.called(KEYED).call_id == running
    agent.confirm(running)
    agent.exit(running)
    assert agent.called(KEYED).call_id == completed
    assert agent.called(KEYED).answer is Answer.FRESH  # each has answered once


@pytest.mark.guarantee("A6")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("contract", "answer"),
    [
        (NEVER, "EffectOutcomeUnknown"),
        (ASK, "ReconciliationRequired"),
        (KEY, Answer.RELAUNCHED),
        (NONE, Answer.FRESH),
    ],
)
def test_an_unsettled_write_is_decided_by_its_contract_in_every_continuation(
    contract, answer, later
):
    agent = Agent()
    call_id = agent.unsettled(BY_CONTRACT[contract])
    effect_id = agent.effect(call_id).effect_id
    if later:
        agent.end()
        agent.go_on()
    decision = agent.ask(BY_CONTRACT[contract], request_id="t9")
    if isinstance(answer, str):
        assert code(decision) == answer
        assert unchanged(decision)
        assert decision.refusal.effect_id == effect_id
        assert "t9" not in agent.operation_.requests  # a refusal binds nothing
        return
    asked = agent.operation_.requests["t9"]
    assert asked.answer is answer
    assert directives(decision) == ["Launch"]
    if answer is Answer.RELAUNCHED:
        agent.finish(asked.call_id)
        assert agent.effect(asked.call_id).effect_id == effect_id


@pytest.mark.guarantee("A6")
def test_a_settled_write_is_restored_and_one_that_did_not_happen_is_retried():
    agent = Agent()
    applied, not_applied = agent.unsettled(WRITE, 1), agent.unsettled(WRITE, 2)
    agent.resolve(applied, applied=True, result=Result("seen"))
    agent.resolve(not_applied, applied=False)
    restored = agent.called(WRITE, 1)
    assert (restored.call_id, restored.answer) == (applied, Answer.RESTORED)
    assert agent.call(applied).restored
    # Known not to have happened: there is nothing to go on with, and nothing to repeat.
    assert agent.called(WRITE, 2).answer is Answer.FRESH
    del not_applied


@pytest.mark.guarantee("A4", "A6")
@pytest.mark.parametrize("again", [False, True])
def test_what_was_found_out_since_answers_once_whoever_was_told_that_it_is_unknown(again):
    """It exited 0 without a word, so it is completed as soon as somebody knows that it was done."""
    agent = Agent()
    call_id = agent.running(KEYED)
    agent.exit(call_id)
    if again:
        call_id = agent.called(KEYED).call_id
        agent.ready(call_id)
        agent.announce(call_id)
        agent.exit(call_id)
    agent.resolve(call_id, applied=True, result=Result("seen"))
    assert class_of(agent.operation_, agent.call(call_id)) is Class.COMPLETED
    answered = agent.called(KEYED)
    assert (answered.call_id, answered.answer) == (call_id, Answer.REPLAYED)
    assert agent.called(KEYED).answer is Answer.FRESH


@pytest.mark.guarantee("A4", "A6")
def test_what_was_found_not_made_since_is_made_when_it_is_asked_for_again():
    agent = Agent()
    call_id = agent.running(WRITE)
    agent.exit(call_id, value=Result("it says that it did"))
    agent.resolve(call_id, applied=False)
    assert class_of(agent.operation_, agent.call(call_id)) is Class.FAILED
    assert agent.called(WRITE).answer is Answer.FRESH


@pytest.mark.guarantee("A6", "E10")
def test_reconciling_settles_it_and_then_the_write_goes_on():
    agent = Agent()
    call_id = agent.unsettled(ASKED)
    agent.wait(6_000)
    agent.reconcile(call_id)
    assert code(agent.ask(ASKED)) == "PreviousAttemptAlive"
    agent.answer(call_id, applied=True, result=Result({"id": 3}))
    assert agent.called(ASKED).answer is Answer.RESTORED


@pytest.mark.guarantee("A6", "B4")
def test_a_partly_applied_write_is_finished_and_what_is_applied_is_not_made_again():
    agent = Agent()
    call_id = partly(agent)
    asked = agent.called(TWO)
    assert (asked.call_id, asked.answer) == (call_id, Answer.RELAUNCHED)
    agent.ready(call_id)
    assert directives(agent.announce(call_id)) == ["AnswerApplied"]
    assert directives(agent.announce(call_id, "mail")) == ["GiveLeave"]


@pytest.mark.guarantee("A6", "E10")
def test_nothing_is_started_beside_a_tree_that_is_not_proven_dead():
    agent = Agent()
    call_id = agent.running(KEYED)
    agent.restart((call_id, 0))
    agent.go_on()
    assert code(agent.ask(KEYED)) == "PreviousAttemptAlive"
    agent.prove_dead(call_id)
    assert agent.called(KEYED).answer is Answer.RELAUNCHED


@pytest.mark.guarantee("A6")
def test_a_relaunch_without_room_in_the_budget_is_refused_with_its_numbers():
    agent = Agent(max_run_ms=20_000)
    agent.running(KEYED)
    agent.restart()
    agent.go_on()
    decision = agent.ask(KEYED)
    assert code(decision) == "RunTimeBudgetExceeded"
    assert kinds(decision) == ["DispatchRefusedBudgetExceeded"]


@pytest.mark.guarantee("A6")
def test_a_write_that_runs_since_an_earlier_continuation_is_joined_and_not_in_the_same_one():
    agent = Agent()
    first = agent.running(WRITE)
    assert agent.called(WRITE).answer is Answer.FRESH
    agent.end()
    agent.go_on()
    joined = agent.called(WRITE, request_id="t5")
    assert (joined.call_id, joined.answer) == (first, Answer.JOINED)
    agent.confirm(first)
    agent.exit(first)
    # It has answered once in this continuation, running; completed it does not again.
    second = agent.called(WRITE)
    assert (second.call_id != first, second.answer) == (True, Answer.JOINED)


@pytest.mark.guarantee("A6")
def test_a_relaunch_that_runs_is_joined_in_its_own_continuation_too():
    agent = Agent()
    agent.unsettled(KEYED)
    retry = agent.called(KEYED).call_id
    assert agent.called(KEYED).call_id == retry
    agent.ready(retry)
    assert agent.called(KEYED).call_id == retry


def lost_answer(agent: Agent) -> None:
    """The client sends its request again, because it did not hear."""
    before = agent.operation_
    decision = agent.ask(WRITE, 1, "t1")
    assert decision.repeated
    assert unchanged(decision)
    assert agent.operation_ == before


@pytest.mark.guarantee("A6", "R8")
def test_the_same_request_is_the_same_call_for_ever_and_another_body_is_a_conflict():
    agent = Agent()
    first = agent.called(WRITE, 1, "t1").call_id
    lost_answer(agent)
    agent.finish(first)
    lost_answer(agent)
    assert code(agent.ask(WRITE, 2, "t1")) == "RequestConflict"
    agent.end()
    lost_answer(agent)
    agent.go_on()
    lost_answer(agent)
    agent.end(Ending.DONE)
    assert stands(agent) is OperationState.SUCCEEDED
    lost_answer(agent)
