"""The continuations of an open operation: who opens the next one, when, and what it ends."""

from __future__ import annotations

import pytest

from supervisor.core.record import Answer, Ending, Outcome, Trigger
from supervisor.core.standing import OperationState
from tests.core.agent import (
    READ,
    WRITE,
    Agent,
    stands,
)
from tests.core.made import (
    MS,
    code,
    directives,
    kinds,
    unchanged,
)

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
@pytest.mark.parametrize(("minutes", "answer"), [(9, None), (11, "ContinuationRefused")])
def test_across_a_reboot_the_wall_clock_alone_tells_how_long_ago_it_was_cut_off(minutes, answer):
    """The monotonic clock began anew: what it showed before says nothing."""
    agent = Agent()
    agent.end()
    agent.wall += minutes * 60_000 * MS
    agent.restart(boot_id="boot-2")
    assert code(agent.auto()) == answer


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
