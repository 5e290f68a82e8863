"""Programs in the core: what comes next, what waits, what is kept, and what a resume does."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor.core.evolve import fold
from supervisor.core.ids import CallId
from supervisor.core.projection import project
from supervisor.core.record import By, JournalRepaired, Outcome, Result, Terms
from supervisor.core.standing import OperationState, operation_result
from supervisor.core.state import State
from supervisor.core.step import CancelAsked, EndAttempt
from supervisor.core.step_programs import ApprovalsTimePassed
from supervisor.journal.records import decode
from supervisor.program import parse
from tests.core.made import (
    CLIENT,
    MS,
    NEVER,
    OPERATOR,
    code,
    directives,
    kinds,
    unchanged,
)
from tests.core.programs import (
    APPROVE,
    CHARGE,
    GIVE,
    Programs,
    call,
    parallel,
)
from tests.core.test_whole import is_the_fold_everywhere


@pytest.fixture
def core() -> Programs:
    return Programs()


@pytest.mark.guarantee("P3", "P4")
def test_a_node_begins_in_the_frame_that_ends_the_one_before(core: Programs) -> None:
    sent = core.send(
        {"id": "due", "bind": "input[0]"},
        call("first", given={"amount": {"$": "due"}}),
        call("second", "mail", {"of": {"$": "first.id"}}),
        {"id": "out", "give": {"$": "[first.id, second]"}},
        given=[7, 8],
    )
    assert kinds(sent) == ["OperationAccepted", "ProgramAccepted", "NodeBound", "CallAccepted"]
    assert directives(sent) == ["Launch"]
    assert core.call(core.of("first")).input == {"amount": 7}
    assert core.standing is OperationState.ACCEPTED
    ended = core.finish("first", {"id": "ch_1"})
    assert kinds(ended) == ["AttemptEnded", "CallAccepted"]
    assert core.standing is OperationState.RUNNING
    assert core.call(core.of("second")).input == {"of": "ch_1"}
    last = core.finish("second", "sent")
    assert kinds(last)[-1] == "ProgramEnded"
    assert core.standing is OperationState.SUCCEEDED
    assert operation_result(core.program) == Result(["ch_1", "sent"])


@pytest.mark.guarantee("R8")
def test_the_same_message_is_the_same_program(core: Programs) -> None:
    first = core.send(call("a"), GIVE)
    again = core.send(call("a"), GIVE)
    assert again.operation_id == first.operation_id
    assert unchanged(again)
    assert code(core.send(call("b"), GIVE)) == "RequestConflict"


@pytest.mark.guarantee("P4", "R1")
def test_a_restart_begins_nothing_and_a_resume_goes_on_at_the_interrupted_node(
    core: Programs,
) -> None:
    core.send(call("first"), call("second"), GIVE)
    core.finish("first")
    second = core.of("second")
    core.ready(second)
    core.announce(second)
    assert directives(core.restart()) == []
    assert core.standing is OperationState.UNKNOWN
    resumed = core.resume(second)
    assert kinds(resumed) == ["ResumeAccepted", "CallAccepted"]
    assert core.newest(second) != second
    assert len(core.call(core.of("first")).attempts) == 1
    core.finish("second")
    assert core.standing is OperationState.SUCCEEDED


@pytest.mark.guarantee("P4")
def test_a_failed_call_leaves_it_interrupted_and_resume_retries_that_node(core: Programs) -> None:
    core.send(call("first"), call("second"), GIVE)
    core.finish("first")
    one = core.of("second")
    core.ready(one)
    failed = core.exit(one, Outcome.FAILED)
    assert kinds(failed) == ["AttemptEnded"]
    assert core.standing is OperationState.INTERRUPTED
    assert kinds(core.resume(one)) == ["ResumeAccepted", "CallQueued"]
    core.finish("second")
    assert core.standing is OperationState.SUCCEEDED


@pytest.mark.guarantee("P2")
def test_a_program_that_cannot_be_resumed_fails_and_says_why(core: Programs) -> None:
    core.send(call("first"), GIVE, not_resumable=("handler 'x' declares no contracts",))
    one = core.of("first")
    core.ready(one)
    core.exit(one, Outcome.FAILED)
    assert core.standing is OperationState.FAILED
    assert code(core.resume(one)) == "NotResumable"


@pytest.mark.guarantee("P3")
def test_an_expression_that_does_not_fit_its_values_ends_the_program(core: Programs) -> None:
    core.send(call("first"), {"id": "sum", "bind": "sum(first)"}, call("second"), GIVE)
    ended = core.finish("first", "no list")
    assert kinds(ended) == ["AttemptEnded", "ProgramEnded"]
    assert core.standing is OperationState.FAILED
    assert core.program.program is not None
    assert core.program.program.end is not None
    assert "sum" in core.program.program.end.detail


@pytest.mark.guarantee("E8", "P4")
@pytest.mark.parametrize("handler", ["mail", "look"])
def test_a_node_whose_value_was_not_kept_is_never_run_again(core: Programs, handler: str) -> None:
    core.send(call("first", handler), call("second"), GIVE)
    one = core.of("first")
    core.ready(one)
    core.announce(one, handler)
    core.confirm(one, result=Result(unavailable="too_large"))
    core.exit(one)
    assert core.standing is OperationState.INTERRUPTED
    refused = core.resume(one)
    assert code(refused) == "EffectResultUnavailable"
    core.resolve(one, applied=True, result=Result("m_1"))
    assert kinds(core.resume(one)) == ["ResumeAccepted", "CallAccepted"]
    assert core.call(core.of("second")).queued is not None


@pytest.mark.guarantee("P4", "R11")
@pytest.mark.parametrize("announces", [False, True])
def test_a_handler_that_changed_nothing_gives_its_own_result(
    core: Programs, announces: bool
) -> None:
    core.send(call("first"), {"id": "out", "give": {"$": "first"}})
    one = core.of("first")
    core.ready(one)
    if announces:
        core.announce(one)
        core.confirm(one, applied=False)
    core.exit(one, value=Result("nothing was due"))
    assert operation_result(core.program) == Result("nothing was due")


@pytest.mark.guarantee("P4", "E9")
def test_a_change_that_was_found_not_made_gives_no_value(core: Programs) -> None:
    """The handler ended well and never confirmed; what it printed may say that it is done."""
    core.send(call("first", "mail"), {"id": "out", "give": {"$": "first"}})
    one = core.of("first")
    core.ready(one)
    core.announce(one, "mail")
    core.exit(one, value=Result("sent"))
    assert core.standing is OperationState.UNKNOWN
    core.resolve(one, applied=False)
    assert core.standing is OperationState.INTERRUPTED
    core.resume(one)
    assert core.standing is OperationState.FAILED
    assert operation_result(core.program) is None


@pytest.mark.guarantee("E8", "P4", "R11")
@pytest.mark.parametrize("resumed", [False, True])
def test_a_value_that_was_not_kept_and_that_nobody_can_supply_ends_the_program(
    core: Programs, resumed: bool
) -> None:
    """No one effect has it, so no operator can say what it was."""
    core.send(parallel("collect", a=[call("x")], b=[call("x", "both")]), GIVE)
    other, one = core.of("both.a.x"), core.of("both.b.x")
    core.ready(one)
    core.announce(one, "first")
    core.confirm(one)
    core.announce(one, "second")
    core.confirm(one, 1)
    event = core.exiting(one, value=Result(unavailable="too_large"))
    if resumed:
        core.without_room(event)
        core.restart()
        assert core.standing is OperationState.INTERRUPTED
        ended = core.resume(one)
    else:
        ended = core.do(event)
    assert kinds(ended)[-2:] == ["CallRefused", "ProgramEnded"]
    assert core.call(other).queued is None
    assert core.standing is OperationState.FAILED
    assert core.program.program is not None
    assert core.program.program.end is not None
    assert core.program.program.end.code == "EffectResultUnavailable"


# --- parallel -----------------------------------------------------------------------------


@pytest.mark.guarantee("P5")
def test_finished_branches_come_back_without_new_calls(core: Programs) -> None:
    core.send(parallel(a=[call("x"), call("y")], b=[call("x")]), {"id": "o", "give": {"$": "both"}})
    core.finish("both.a.x", "ax")
    core.finish("both.b.x", "bx")
    core.ready(core.of("both.a.y"))
    core.restart()
    assert core.standing is OperationState.INTERRUPTED
    before = core.program.call_order
    core.resume(core.of("both.a.y"))
    core.finish("both.a.y", "ay")
    assert core.program.call_order == before
    assert operation_result(core.program) == Result({"a": "ay", "b": "bx"})


@pytest.mark.guarantee("P5")
def test_fail_fast_ends_what_changes_nothing_and_lets_the_rest_end(core: Programs) -> None:
    branches = {name: [call("x"), call("y")] for name in "abcd"}
    core.send(parallel(**branches), GIVE)
    a, b, c, d = (core.of(f"both.{name}.x") for name in "abcd")
    for one in (a, b, c):
        core.ready(one)
    core.announce(b)
    failed = core.exit(a, Outcome.FAILED)
    assert kinds(failed) == ["AttemptEnded", "CallRefused"]
    assert failed.directives == (EndAttempt(c, 0),)
    assert core.call(d).queued is None
    core.confirm(b)
    assert kinds(core.exit(b)) == ["AttemptEnded"]
    core.exit(c, Outcome.CANCELLED)
    assert core.standing is OperationState.INTERRUPTED
    resumed = core.resume(a)
    assert kinds(resumed) == ["ResumeAccepted", *["CallQueued"] * 3, "CallAccepted"]
    assert core.of("both.b.y") in {one.call_id for one in resumed.directives}  # type: ignore[union-attr]  # Launch


@pytest.mark.guarantee("P5")
def test_fail_fast_ends_what_runs_where_there_is_no_room_to_say_what_waits(core: Programs) -> None:
    core.send(parallel(a=[call("x")], b=[call("x")], c=[call("x")]), GIVE)
    a, b, c = (core.of(f"both.{name}.x") for name in "abc")
    for one in (a, b):
        core.ready(one)
    failed = core.without_room(core.exiting(a, Outcome.FAILED))
    assert failed.directives == (EndAttempt(b, 0),)
    assert core.call(c).queued is not None
    ended = core.exit(b, Outcome.CANCELLED)
    assert kinds(ended) == ["AttemptEnded", "CallRefused"]
    assert core.call(c).queued is None


@pytest.mark.guarantee("P5")
def test_collect_runs_all(core: Programs) -> None:
    core.send(parallel("collect", a=[call("x")], b=[call("x"), call("y")]), GIVE)
    core.ready(core.of("both.a.x"))
    assert kinds(core.exit(core.of("both.a.x"), Outcome.FAILED)) == ["AttemptEnded"]
    core.finish("both.b.x")
    core.finish("both.b.y")
    assert core.standing is OperationState.INTERRUPTED
    core.resume(core.of("both.a.x"))
    core.finish("both.a.x")
    assert core.standing is OperationState.SUCCEEDED


@pytest.mark.guarantee("B9", "R13")
def test_a_branch_waits_for_running_siblings_and_is_refused_when_none_runs(core: Programs) -> None:
    core.send(
        parallel("collect", **{f"b{n}": [call("x")] for n in range(10)}), GIVE, max_run_ms=20_500
    )
    calls = [core.of(f"both.b{n}.x") for n in range(10)]
    assert core.ready(calls[0]).refusal is None
    assert core.ready(calls[1]).refusal is None
    waits = core.ready(calls[2])
    assert waits.waits
    assert unchanged(waits)
    assert core.program.budget.reserved_ms == 20_000
    core.exit(calls[0], active_ms=300, value=Result(1))
    assert core.ready(calls[2]).refusal is None
    core.exit(calls[1], active_ms=9_000, value=Result(1))
    core.exit(calls[2], active_ms=9_000, value=Result(1))
    refused = core.ready(calls[3])
    assert code(refused) == "RunTimeBudgetExceeded"
    assert "CallRefused" in kinds(refused)


@pytest.mark.guarantee("B9", "R13")
def test_a_branch_waits_for_as_many_siblings_as_it_takes(core: Programs) -> None:
    sooner = [call("x", timeout_ms=5_000)]
    late = [call("x", timeout_ms=9_000)]
    core.send(parallel("collect", a=sooner, b=sooner, c=late), GIVE, max_run_ms=10_500)
    assert core.ready(core.of("both.a.x")).refusal is None
    assert core.ready(core.of("both.b.x")).refusal is None
    assert core.program.budget.reserved_ms == 10_000
    assert core.ready(core.of("both.c.x")).waits


@pytest.mark.guarantee("P5")
def test_a_branch_that_does_not_fit_its_values_begins_nothing_beside_it(core: Programs) -> None:
    misfit: Any = {"id": "sum", "bind": "sum(first)"}
    core.send(call("first"), parallel(a=[call("x")], b=[misfit]), GIVE)
    ended = core.finish("first", "no list")
    assert kinds(ended) == ["AttemptEnded", "ProgramEnded"]
    assert directives(ended) == []


@pytest.mark.guarantee("P5")
def test_a_branch_that_does_not_fit_its_values_ends_its_siblings(core: Programs) -> None:
    misfit: Any = {"id": "sum", "bind": "sum(x)"}
    branches = {name: [call("x")] for name in "ab"}
    core.send(parallel("collect", **branches, c=[call("x"), misfit]), GIVE)
    core.ready(core.of("both.a.x"))
    ended = core.finish("both.c.x", "no list")
    assert kinds(ended) == ["AttemptEnded", "CallRefused", "ProgramEnded"]
    assert directives(ended) == ["EndAttempt"]
    core.exit(core.of("both.a.x"), Outcome.CANCELLED)
    assert core.standing is OperationState.FAILED


@pytest.mark.guarantee("P5")
def test_a_program_that_fails_ends_the_retry_of_a_call_and_refuses_one_once(core: Programs) -> None:
    misfit: Any = {"id": "sum", "bind": "sum(x)"}
    branches = {name: [call("x")] for name in "ab"}
    core.send(parallel("collect", **branches, c=[call("x"), misfit]), GIVE)
    for name in "abc":
        one = core.of(f"both.{name}.x")
        core.ready(one)
        core.announce(one)
        core.exit(one, Outcome.FAILED)
    core.resume(one)
    running, waiting = (core.newest(core.of(f"both.{name}.x")) for name in "ab")
    assert core.call(running).retry_of == core.of("both.a.x")
    core.ready(running)
    ended = core.finish("both.c.x", "no list")
    assert kinds(ended) == ["AttemptEnded", "CallRefused", "ProgramEnded"]
    assert ended.directives == (EndAttempt(running, 0),)
    assert core.call(waiting).queued is None


@pytest.mark.guarantee("P4")
def test_a_cancelled_program_begins_nothing_more(core: Programs) -> None:
    core.send(call("first"), call("second"), GIVE)
    core.ready(core.of("first"))
    core.do(CancelAsked(core.now, core.one, CLIENT, ""))
    assert kinds(core.exit(core.of("first"), value=Result(1))) == ["AttemptEnded"]
    assert core.standing is OperationState.CANCELLED


@pytest.mark.guarantee("P4", "R5")
def test_who_resumed_it_is_whose_authority_counts_from_then_on(core: Programs) -> None:
    core.send(call("first", timeout_ms=3_000), call("second"), GIVE)
    core.restart()
    assert core.resume(core.of("first"), by=By(7, 7)).refusal is None
    core.finish("first")
    assert core.call(core.of("second")).by == By(7, 7)
    first, second = (core.attempt(core.of("first")), core.call(core.of("second")))
    assert (first.reservation_ms, second.timeout_ms) == (3_000, 10_000)


@pytest.mark.guarantee("J6", "P4", "P6", "R1")
def test_a_program_whose_records_may_be_lost_goes_no_further(core: Programs) -> None:
    """It may have been answered, and have gone on, in what the repair gave up."""
    core.send(APPROVE, call("first"), GIVE)
    core.put(JournalRepaired(core.now.wall, 3, 4, OPERATOR, "test"))
    assert core.standing is OperationState.UNKNOWN
    assert not core.state.approvals
    answered = core.answer_approval("approve")
    assert code(answered) == "EffectOutcomeUnknown"
    assert unchanged(answered)
    core.wait(600_000)
    assert core.do(ApprovalsTimePassed(core.now)).repeated
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("J6", "P4", "R1")
def test_what_runs_in_a_repaired_program_ends_and_begins_nothing(core: Programs) -> None:
    core.send(call("first"), call("second"), GIVE)
    one = core.of("first")
    core.ready(one)
    core.put(JournalRepaired(core.now.wall, 4, 5, OPERATOR, "test"))
    assert kinds(core.exit(one, value=Result(1))) == ["AttemptEnded"]
    assert code(core.resume(one)) == "EffectOutcomeUnknown"


@pytest.mark.guarantee("P4")
def test_an_end_is_written_though_there_is_no_room_for_what_comes_next(core: Programs) -> None:
    core.send(call("first"), call("second"), GIVE)
    one = core.of("first")
    core.ready(one)
    core.announce(one)
    core.confirm(one, result=Result(1))
    assert kinds(core.without_room(core.exiting(one))) == ["AttemptEnded"]
    assert core.standing is OperationState.INTERRUPTED
    assert kinds(core.resume(one)) == ["ResumeAccepted", "CallAccepted"]


# --- approvals ----------------------------------------------------------------------------


@pytest.mark.guarantee("P6", "R1")
def test_an_approval_costs_no_budget_and_outlives_restarts(core: Programs) -> None:
    asked = core.send(APPROVE, call("first", given={"$": "ok.choice"}), GIVE)
    assert kinds(asked)[-1] == "ApprovalRequested"
    assert core.standing is OperationState.WAITING
    core.restart(boot_id="boot-2")
    core.restart()
    assert core.standing is OperationState.WAITING
    assert core.program.budget.charged_ms == 0
    allowed = project(core.program, core.now, margin_ms=0, digests={})
    assert {one.action for one in allowed.actions} == {"approve", "cancel", "extend"}
    answered = core.answer_approval("approve")
    assert kinds(answered) == ["ApprovalAnswered", "CallAccepted"]
    assert core.call(core.of("first")).input == "approve"


@pytest.mark.guarantee("P6")
def test_an_answer_is_accepted_once(core: Programs) -> None:
    core.send(APPROVE, call("first"), GIVE)
    assert code(core.answer_approval("perhaps")) == "InvalidInput"
    assert code(core.answer_approval("approve", "no")) == "NotFound"
    core.answer_approval("approve")
    assert unchanged(core.answer_approval("approve"))
    assert core.answer_approval("approve").repeated
    for late in (core.answer_approval("reject"), core.answer_approval("approve", by=By(7, 7))):
        assert code(late) == "RequestConflict"
        assert unchanged(late)


@pytest.mark.guarantee("P6")
def test_reject_stops(core: Programs) -> None:
    core.send(APPROVE, call("first"), GIVE)
    assert kinds(core.answer_approval("reject")) == ["ApprovalAnswered", "ProgramEnded"]
    assert core.standing is OperationState.STOPPED


@pytest.mark.guarantee("P6")
@pytest.mark.parametrize("answers", [True, False])
def test_what_is_not_answered_in_time_stops(core: Programs, answers: bool) -> None:
    core.send(APPROVE, call("first"), GIVE)
    core.wait(59_999)
    assert core.do(ApprovalsTimePassed(core.now)).repeated
    core.wall += 1 * MS
    late = core.answer_approval("approve") if answers else core.do(ApprovalsTimePassed(core.now))
    assert kinds(late) == ["ApprovalExpired", "ProgramEnded"]
    assert core.standing is OperationState.STOPPED
    assert code(core.answer_approval("approve")) == "DecisionExpired"
    assert core.do(ApprovalsTimePassed(core.now)).repeated


@pytest.mark.guarantee("P6")
def test_a_cancelled_program_asks_nobody(core: Programs) -> None:
    core.send(APPROVE, GIVE)
    core.do(CancelAsked(core.now, core.one, CLIENT, ""))
    assert core.standing is OperationState.CANCELLED
    assert code(core.answer_approval("approve")) == "OperationCancelled"
    core.wait(600_000)
    assert core.do(ApprovalsTimePassed(core.now)).repeated


# --- the whole ----------------------------------------------------------------------------


@pytest.mark.guarantee("P3", "J9")
def test_the_fold_of_a_program_is_carried_and_evaluates_nothing(
    core: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.send(
        {"id": "due", "bind": "input"},
        parallel("collect", a=[call("x")], b=[call("x")]),
        APPROVE,
        {"id": "out", "give": {"$": "both"}},
        given=3,
    )
    core.finish("both.a.x")
    core.restart()
    core.resume(core.of("both.b.x"))
    core.finish("both.b.x")
    core.answer_approval("approve")
    assert core.standing is OperationState.SUCCEEDED
    monkeypatch.setattr("supervisor.program.expression.evaluate", None)
    monkeypatch.setattr("supervisor.program.reading.parse", None)
    is_the_fold_everywhere(core.frames)
    state = State()
    for position, payload in enumerate(core.frames, 1):
        state = fold(state, position, decode(payload))
    assert state == core.state


def test_a_long_program_is_read_once_and_not_in_every_frame(
    core: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def counted(value: Any, inputs: tuple[str, ...]) -> Any:
        nonlocal reads
        reads += 1
        return parse(value, inputs)

    monkeypatch.setattr("supervisor.program.reading.parse", counted)
    core.send(*[call(f"n{number}") for number in range(30)], GIVE)
    for number in range(30):
        core.finish(f"n{number}")
    assert core.standing is OperationState.SUCCEEDED
    assert reads == 1


@pytest.mark.guarantee("P4", "R1", "R4")
def test_from_every_frame_a_restart_and_resumes_end_it_and_run_no_finished_node_again() -> None:
    """A crash behind any frame: what was finished keeps its calls, and the end is reached."""
    whole = _run_through(Programs())
    for cut in range(2, len(whole.frames)):
        core = Programs()
        core.state, core.frames, core.position = State(), [], 0
        for payload in whole.frames[:cut]:
            core.put(*decode(payload))
        core.one, core.made = whole.one, 10_000 + cut
        before = {
            call_id: len(one.attempts)
            for call_id, one in core.program.calls.items()
            if one.succeeded
        }
        core.restart()
        _to_the_end(core)
        assert core.standing is OperationState.SUCCEEDED, cut
        for call_id, attempts in before.items():
            assert len(core.program.calls[call_id].attempts) == attempts, cut


def _run_through(core: Programs) -> Programs:
    core.send(call("one"), parallel("collect", a=[call("x")], b=[call("x", "mail")]), APPROVE, GIVE)
    core.finish("one")
    core.finish("both.b.x")
    core.finish("both.a.x")
    core.answer_approval("approve")
    return core


def _to_the_end(core: Programs) -> None:
    for _ in range(10):
        match core.standing:
            case OperationState.WAITING:
                core.answer_approval("approve")
            case OperationState.UNKNOWN | OperationState.INTERRUPTED:
                for one in core.program.ordered_effects():
                    if one.outcome.value == "unknown" and one.declared.contract is NEVER:
                        number = one.newest.call_id
                        core.resolve(number, applied=True, result=Result(1))
                any_call = core.program.call_order[0]
                decision = core.resume(any_call)
                assert decision.refusal is None, decision.refusal
            case OperationState.ACCEPTED | OperationState.RUNNING:
                queued = [c for c in core.program.ordered_calls() if c.queued is not None]
                for one in queued:
                    _play(core, one.call_id)
            case _:
                return


def _play(core: Programs, one: CallId) -> None:
    core.ready(one)
    answered = core.announce(one, core.call(one).terms.effects[0].name)
    if directives(answered) == ["GiveLeave"]:
        core.confirm(one, result=Result(1))
    core.exit(one)


def test_terms_are_those_of_acceptance(core: Programs) -> None:
    core.send(call("one"), GIVE)
    changed: Terms = attrs.evolve(CHARGE, digest="e" * 64)
    refused = core.ready(core.of("one"), digest=changed.digest)
    assert code(refused) == "HandlerArtifactChanged"


@pytest.mark.guarantee("P3")
@pytest.mark.parametrize("deep", [135, 190, 240])
def test_a_value_that_the_journal_cannot_carry_ends_the_program(core: Programs, deep: int) -> None:
    """Each of the two is well below what a message may have; one within the other is not."""
    given: Any = {"$": "first"}
    for _ in range(deep):
        given = [given]
    value: Any = 1
    for _ in range(60):
        value = [value]
    core.send(call("first"), call("second", given=given), {"id": "out", "give": given})
    ended = core.finish("first", value)
    fits = deep + 60 <= 200
    assert kinds(ended)[-1] == ("CallAccepted" if fits else "ProgramEnded")
    if fits:
        core.finish("second")
    assert core.standing is (OperationState.SUCCEEDED if fits else OperationState.FAILED)


# --- what cannot be resumed ---------------------------------------------------------------


@pytest.mark.guarantee("P2")
def test_raw_inputs_stay_names_in_all_that_is_folded(core: Programs) -> None:
    given = {"t": {"$": "inputs.token"}, "x": {"$": "input"}}
    sent = core.send(
        call("first", given=given), call("second", given={"$": "first"}), GIVE,
        given=3, inputs=("token",), not_resumable=("input 'token' is raw",),
    )  # fmt: skip
    assert kinds(sent)[-1] == "CallAccepted"
    assert core.call(core.of("first")).input == {**given, "x": 3}
    # A value that looks like an expression is a value.
    core.finish("first", {"$": "inputs.token"})
    assert core.call(core.of("second")).input == {"$": "inputs.token"}
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("P2")
def test_an_unknown_effect_of_what_cannot_be_resumed_is_settled_and_never_tried_again(
    core: Programs,
) -> None:
    core.send(call("first"), GIVE, not_resumable=("input 'token' is raw",))
    one = core.of("first")
    core.ready(one)
    core.announce(one)
    core.restart()
    assert core.standing is OperationState.UNKNOWN
    allowed = project(core.program, core.now, margin_ms=0, digests={"charge": CHARGE.digest})
    assert {"resolve"} <= {a.action for a in allowed.actions}
    assert "resume" not in {a.action for a in allowed.actions}
    assert [(r.code, r.detail) for r in allowed.refusals] == [
        ("NotResumable", "input 'token' is raw")
    ]
    assert code(core.resume(one)) == "NotResumable"
    core.resolve(one, applied=True, result=Result(1))
    assert core.standing is OperationState.FAILED
