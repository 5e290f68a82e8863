"""Open operations: the calls of a model that cannot know what it did before."""

from __future__ import annotations

import pytest

from supervisor.core.errors import CODES
from supervisor.core.ids import CallId
from supervisor.core.matching import Class, class_of
from supervisor.core.projection import project
from supervisor.core.record import Answer, Ending, Outcome, Result, Trigger
from supervisor.core.standing import OperationState, Waits, operation_state, waits_for
from supervisor.core.step import TimePassed
from tests.core.agent import ASKED, BY_CONTRACT, FREE, KEYED, OTHER, READ, TWO, WRITE, Agent
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
from tests.core.test_whole import is_the_fold_everywhere

DAY_MS = 86_400_000
NAMESAKE = terms(effect(), handler="charge-other")


def stands(agent: Agent) -> OperationState:
    return operation_state(agent.operation_)


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


# --- A7: continuations ---------------------------------------------------------------------


@pytest.mark.guarantee("A7")
def test_a_call_belongs_to_the_continuation_that_is_open():
    agent = Agent()
    assert agent.called(READ, continuation=0).continuation == 0
    assert code(agent.ask(READ, continuation=1)) == "ContinuationRefused"
    agent.end()
    decision = agent.ask(READ)
    assert code(decision) == "ContinuationRefused"
    assert decision.refusal.remedy == f"effectctl operations continue {agent.op}"
    assert unchanged(decision)
    agent.go_on()
    assert agent.called(READ).continuation == 1
    assert code(agent.ask(READ, continuation=0)) == "ContinuationRefused"


@pytest.mark.guarantee("A7")
def test_opening_the_next_one_ends_the_one_before_in_the_same_frame():
    agent = Agent()
    decision = agent.go_on()
    assert kinds(decision) == ["ContinuationEnded", "ContinuationOpened"]
    assert [one.reason for one in agent.operation_.continuations] == [Ending.CONTINUED, None]


@pytest.mark.guarantee("A7", "R1")
def test_a_restart_ends_the_open_one_and_opens_none():
    agent = Agent()
    assert stands(agent) is OperationState.RUNNING
    revision = agent.operation_.revision
    decision = agent.restart()
    assert kinds(decision) == ["DaemonStarted"]
    assert agent.last.reason is Ending.RESTART
    assert stands(agent) is OperationState.INTERRUPTED
    assert agent.operation_.revision == revision + 1
    assert code(agent.ask(WRITE)) == "ContinuationRefused"
    agent.restart()
    assert agent.operation_.revision == revision + 1  # nothing was open any more


@pytest.mark.guarantee("A7")
def test_a_dispatch_takes_no_calls_and_has_no_continuations():
    agent = Agent()
    agent.op = agent.operation(agent.submit(WRITE)).operation_id
    for decision in (agent.ask(WRITE), agent.go_on(after=0), agent.end(n=0)):
        assert code(decision) == "ContinuationRefused"
        assert unchanged(decision)


@pytest.mark.guarantee("A7")
@pytest.mark.parametrize(
    "reason", [r for r in Ending if r.value not in {"continued", "cancelled", "restart"}]
)
def test_ending_again_for_the_same_reason_changes_nothing_and_for_another_is_refused(reason):
    agent = Agent()
    assert kinds(agent.end(reason)) == ["ContinuationEnded"]
    again = agent.end(reason)
    assert again.repeated
    assert unchanged(again)
    other = Ending.ERROR if reason is not Ending.ERROR else Ending.DONE
    assert code(agent.end(other)) == "ContinuationRefused"
    assert code(agent.end(other, n=7)) == "ContinuationRefused"


# --- A8: automatic continuation ------------------------------------------------------------


@pytest.mark.guarantee("A8")
@pytest.mark.parametrize("reason", Ending)
def test_only_what_time_alone_cut_off_goes_on_by_itself(reason):
    agent = Agent()
    if reason is Ending.RESTART:
        agent.restart()
    elif reason is Ending.CANCELLED:
        agent.cancel_it()
    elif reason is Ending.CONTINUED:
        agent.go_on()
        agent.end(Ending.ERROR)
    else:
        agent.end(reason)
    decision = agent.auto()
    if reason is Ending.TIME_LIMIT:
        assert kinds(decision) == ["ContinuationOpened"]
    else:
        expected = "OperationCancelled" if reason is Ending.CANCELLED else "ContinuationRefused"
        assert code(decision) == expected
        assert unchanged(decision)


@pytest.mark.guarantee("A8")
def test_not_while_it_is_open_nor_later_than_ten_minutes_by_either_clock():
    agent = Agent()
    assert code(agent.auto()) == "ContinuationRefused"
    agent.end()
    agent.wait(600_000)
    wall, mono = agent.wall, agent.mono
    for clock in ("wall", "mono"):
        agent.wall, agent.mono = wall, mono
        setattr(agent, clock, getattr(agent, clock) + 1_000_000)
        assert code(agent.auto()) == "ContinuationRefused"
    agent.wall, agent.mono = wall, mono
    assert kinds(agent.auto()) == ["ContinuationOpened"]


@pytest.mark.guarantee("A8")
def test_at_most_three_are_automatic_and_a_restart_does_not_forget_them():
    agent = Agent()
    for _ in range(3):
        agent.end()
        assert agent.auto().refusal is None
    agent.end()
    assert code(agent.auto()) == "ContinuationRefused"
    agent.go_on()
    agent.restart()
    agent.go_on()
    agent.end()
    assert code(agent.auto()) == "ContinuationRefused"


@pytest.mark.guarantee("A8")
@pytest.mark.parametrize("trigger", [Trigger.AUTO, Trigger.MANUAL])
def test_each_has_one_successor_and_who_comes_second_is_told_of_it(trigger):
    agent = Agent()
    agent.end()
    assert agent.auto(after=0, request_id="tab1").refusal is None
    again = agent.auto(after=0, request_id="tab1")
    assert again.repeated
    assert unchanged(again)
    second = agent.go_on(trigger=trigger, after=0, request_id="tab2")
    assert code(second) == "DurableResumeConflict"
    assert "'tab1'" in second.refusal.detail
    assert "continuation 1" in second.refusal.detail
    # The same id for another one names the same continuation.
    assert code(agent.go_on(trigger=trigger, after=1, request_id="tab1")) == "DurableResumeConflict"
    assert code(agent.go_on(after=5)) == "ContinuationRefused"


# --- A9, A10: by hand, and by a new message ------------------------------------------------


@pytest.mark.guarantee("A9")
@pytest.mark.parametrize(
    "reason", [Ending.ERROR, Ending.STOP, Ending.CREDENTIAL, Ending.RATE_LIMIT]
)
def test_a_person_may_always_continue_and_both_protections_apply(reason):
    agent = Agent()
    done, unknown = agent.completed(WRITE, 1), agent.unsettled(WRITE, 2)
    for _ in range(5):
        agent.end(reason)
        assert stands(agent) is OperationState.UNKNOWN
        assert agent.go_on().refusal is None
        assert agent.called(WRITE, 1).call_id == done
        assert code(agent.ask(WRITE, 2)) == "EffectOutcomeUnknown"
    del unknown


@pytest.mark.guarantee("A9")
def test_stop_ends_what_runs_and_withdraws_what_waits():
    agent = Agent()
    running, waiting = agent.running(WRITE, 1), agent.called(WRITE, 2).call_id
    decision = agent.end(Ending.STOP)
    assert directives(decision) == ["EndAttempt"]
    assert decision.directives[0].call_id == running
    # Before it is dead it gets no more leave; what waited does not start.
    assert code(agent.announce(running, "mail")) == "OperationCancelled"
    assert code(agent.ready(waiting)) == "OperationCancelled"
    agent.exit(running, Outcome.CANCELLED)
    assert stands(agent) is OperationState.UNKNOWN
    agent.go_on()
    assert code(agent.ask(WRITE, 1)) == "EffectOutcomeUnknown"
    assert agent.called(WRITE, 2).answer is Answer.FRESH


@pytest.mark.guarantee("A9")
def test_any_other_end_leaves_its_calls_running():
    agent = Agent()
    running = agent.running(WRITE)
    assert not directives(agent.end(Ending.ERROR))
    assert stands(agent) is OperationState.RUNNING
    agent.confirm(running)
    agent.exit(running)
    assert stands(agent) is OperationState.INTERRUPTED


@pytest.mark.guarantee("A9", "A10")
def test_a_new_message_is_a_new_operation_and_the_old_one_is_not_continued():
    agent = Agent()
    agent.completed(WRITE)
    agent.unsettled(WRITE, 2)
    old = agent.op
    agent.end()
    elsewhere = agent.message("uid:7")
    new = agent.message()
    for decision in (agent.go_on(), agent.auto()):
        assert code(decision) == "ContinuationRefused"
        assert new in decision.refusal.detail
    agent.op = new
    assert agent.operation_.follows == old
    assert agent.state.operations[elsewhere].follows is None
    # Nothing is blocked there.
    assert [agent.called(WRITE, n).answer for n in (1, 2)] == [Answer.FRESH] * 2


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
