"""Planted bugs in programs and approvals: each has the test that notices it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from supervisor.core import packing, projection, standing, whole
from supervisor.core.decide import attempt as decide_attempt
from supervisor.core.decide import message as decide_message
from supervisor.core.decide import operation as decide_operation
from supervisor.core.decide import program as decide_program
from supervisor.core.decide.onward import Walk, _may_move, onward
from supervisor.core.evolve import attempt as evolve_attempt
from supervisor.core.evolve import epoch as evolve_epoch
from supervisor.core.evolve import operation as evolve_operation
from supervisor.core.evolve import program as evolve_program
from tests.core import cuts, test_cuts, test_program_machine
from tests.core import test_programs as programs
from tests.core.driven import DrivenProgram
from tests.core.programs import Programs
from tests.mutants.planting import NOTICED, Edit, planted, rows

IN_TIME = programs.test_what_is_not_answered_in_time_stops
MISFIT = programs.test_a_branch_that_does_not_fit_its_values_begins_nothing_beside_it
NOT_KEPT = programs.test_a_value_that_was_not_kept_and_that_nobody_can_supply_ends_the_program
REPAIRED = programs.test_a_program_whose_records_may_be_lost_goes_no_further
WAITS = programs.test_a_branch_waits_for_running_siblings_and_is_refused_when_none_runs

Test = Callable[..., None]
PLANTED: dict[str, tuple[Test, list[Edit]]] = {
    # Where it goes on.
    "a resumed program starts at the node after": (
        programs.test_a_restart_begins_nothing_and_a_resume_goes_on_at_the_interrupted_node,
        [Edit(Walk._call, "return result is not None", "return True")],
    ),
    "a node whose value was lost is run again": (
        programs.test_a_node_whose_value_was_not_kept_is_never_run_again,
        [Edit(projection._node_plan, "is CallState.SUCCEEDED", "is None")],
    ),
    "a resume forgets the calls that are stuck": (
        programs.test_a_failed_call_leaves_it_interrupted_and_resume_retries_that_node,
        [Edit(projection.resume_plans, "if node_waits(operation, one.call_id)", "if False")],
    ),
    "every retry of a node has the first one's name": (
        programs.test_a_restart_begins_nothing_and_a_resume_goes_on_at_the_interrupted_node,
        [
            Edit(
                decide_operation._moved,
                "call_of_node(operation.operation_id, call.node, call.call_id)",
                "call_of_node(operation.operation_id, call.node)",
            )
        ],
    ),
    "a value that nobody can supply is waited for": (
        NOT_KEPT,
        [Edit(standing.node_lost, "return result.unavailable if", "return None if")],
    ),
    "an effect that was not made gives the result": (
        programs.test_a_handler_that_changed_nothing_gives_its_own_result,
        [Edit(standing.giving_effect, "effects[0].outcome is Said.APPLIED", "True")],
    ),
    "an end waits for room for what comes next": (
        programs.test_an_end_is_written_though_there_is_no_room_for_what_comes_next,
        [Edit(onward, "instead=", "instead=None and ")],
    ),
    "a group without room lets its branches run on": (
        programs.test_fail_fast_ends_what_runs_where_there_is_no_room_to_say_what_waits,
        [Edit(onward, "(*decision.directives, *ends)", "decision.directives")],
    ),
    "an ended program goes on": (
        programs.test_reject_stops,
        [Edit(_may_move, "program.end is None and ", "")],
    ),
    "a cancelled program goes on": (
        programs.test_a_cancelled_program_begins_nothing_more,
        [Edit(_may_move, "operation.cancel_requested or ", "")],
    ),
    "a program that cannot be resumed is only interrupted": (
        programs.test_a_program_that_cannot_be_resumed_fails_and_says_why,
        [Edit(standing._program_at_rest, "program.known and program.not_resumable", "False")],
    ),
    "an unknown effect of one that cannot be resumed is tried again": (
        programs.test_an_unknown_effect_of_what_cannot_be_resumed_is_settled_and_never_tried_again,
        [Edit(projection.resume_plans, "if operation.program.obstacles", "if False")],
    ),
    "what asks for raw inputs is evaluated without them": (
        programs.test_raw_inputs_stay_names_in_all_that_is_folded,
        [Edit(Walk._filled, "raw=bool(self._program.inputs)", "raw=False")],
    ),
    "the first sender's authority counts": (
        programs.test_who_resumed_it_is_whose_authority_counts_from_then_on,
        [Edit(Walk._call, "self._operation.requester", "self._operation.by")],
    ),
    "a node's own deadline is forgotten": (
        programs.test_who_resumed_it_is_whose_authority_counts_from_then_on,
        [Edit(Walk._call, "node.timeout_ms or terms.timeout_ms", "terms.timeout_ms")],
    ),
    "another program is taken for the same message": (
        programs.test_the_same_message_is_the_same_program,
        [
            Edit(
                decide_message._same_message,
                "known.request_digest != event.request_digest",
                "False",
            )
        ],
    ),
    # Branches.
    "fail_fast leaves a sibling admitted": (
        programs.test_fail_fast_ends_what_changes_nothing_and_lets_the_rest_end,
        [Edit(Walk._stop_all, "if newest.queued is not None", "if False")],
    ),
    "fail_fast ends what is changing something": (
        programs.test_fail_fast_ends_what_changes_nothing_and_lets_the_rest_end,
        [Edit(Walk._stop_all, " and not self._has_leave(newest)", "")],
    ),
    "fail_fast lets everything run on": (
        programs.test_fail_fast_ends_what_changes_nothing_and_lets_the_rest_end,
        [Edit(Walk._stop_all, "elif newest.live is not None", "elif False")],
    ),
    "collect gives up like fail_fast": (
        programs.test_collect_runs_all,
        [Edit(Walk._parallel, "if node.fail_fast and any(", "if any(")],
    ),
    "a group is done when its first branch is": (
        programs.test_collect_runs_all,
        [Edit(Walk._parallel, "return len(values) == len(node.branches)", "return bool(values)")],
    ),
    "a branch's reservation is counted once": (
        WAITS,
        [
            Edit(
                evolve_attempt.reserved,
                "operation.budget.reserve(record.reservation_ms)",
                "operation.budget if operation.budget.reserved_ms "
                "else operation.budget.reserve(record.reservation_ms)",
            )
        ],
    ),
    "a branch that must wait for two siblings is refused": (
        programs.test_a_branch_waits_for_as_many_siblings_as_it_takes,
        [
            Edit(
                decide_attempt._fits_later,
                "sum(one.reservation_ms for one in lives if one is not None)",
                "max((one.reservation_ms for one in lives if one is not None), default=0)",
            )
        ],
    ),
    "a branch that can never fit waits for ever": (
        WAITS,
        [Edit(decide_attempt._fits_later, "if not running_ms or ", "if ")],
    ),
    "what was begun before the program failed is launched": (
        MISFIT,
        [Edit(Walk._fail, "self.directives = []", "pass")],
    ),
    "what was begun before the program failed stays accepted": (
        MISFIT,
        [Edit(Walk._fail, "if not isinstance(one, CallAccepted)", "")],
    ),
    "the siblings of what does not fit go on": (
        programs.test_a_branch_that_does_not_fit_its_values_ends_its_siblings,
        [Edit(Walk._fail, "self._stop_all(", "(lambda *_: None)(")],
    ),
    # Approvals.
    "an approval is consumed twice": (
        programs.test_an_answer_is_accepted_once,
        [
            Edit(decide_program.approval_asked, "if not approval.pending", "if approval.expired"),
            Edit(evolve_program._pending, " or not approval.pending", ""),
        ],
    ),
    "anybody's answer is the one that was given": (
        programs.test_an_answer_is_accepted_once,
        [
            Edit(
                decide_program._answered, "by.uid, approval.choice", "event.by.uid, approval.choice"
            )
        ],
    ),
    "any choice is one": (
        programs.test_an_answer_is_accepted_once,
        [Edit(decide_program.approval_asked, "event.choice not in approval.choices", "False")],
    ),
    "an answer after its time counts": (
        IN_TIME,
        [Edit(projection.approval_barred, "now.wall >= approval.expires_at", "False")],
    ),
    "time ends an approval a moment early": (
        IN_TIME,
        [
            Edit(
                decide_program.approvals_time_passed,
                ">= approval.expires_at",
                "+ 10**6 >= approval.expires_at",
            )
        ],
    ),
    "what nobody answered is only interrupted": (
        IN_TIME,
        [
            Edit(
                decide_program.approvals_time_passed,
                "Decision(records, ",
                "Decision(records[:1], ",
            )
        ],
    ),
    "what was rejected goes on": (
        programs.test_reject_stops,
        [Edit(decide_program.approval_asked, "event.choice == REJECT", "False")],
    ),
    "a cancelled program asks on": (
        programs.test_a_cancelled_program_asks_nobody,
        [
            Edit(
                evolve_operation.cancel_requested,
                "no_approval(put(state, operation), operation)",
                "put(state, operation)",
            )
        ],
    ),
    "a cancelled program is approved": (
        programs.test_a_cancelled_program_asks_nobody,
        [Edit(projection.approval_barred, "operation.cancel_requested", "False")],
    ),
    "what a repair lost is asked for": (
        REPAIRED,
        [
            Edit(
                evolve_epoch._doubt,
                "no_approval(put(state, operation), operation)",
                "put(state, operation)",
            )
        ],
    ),
    "what a repair lost is approved": (
        REPAIRED,
        [Edit(projection.approval_barred, "operation.lost", "False")],
    ),
    # Snapshots of them.
    "the fold read back asks for what was cancelled or lost": (
        REPAIRED,
        [Edit(packing.asked, " or operation.lost", "")],
    ),
    "the fold read back asks nobody": (
        programs.test_the_fold_of_a_program_is_carried_and_evaluates_nothing,
        [Edit(whole._approvals, "if pending is not None", "if False")],
    ),
}


def run(test: Test) -> None:
    """The test as pytest runs it, over the values that it is given."""
    for row in rows(test):
        with pytest.MonkeyPatch.context() as patch:
            lent = {"monkeypatch": patch} if "monkeypatch" in test.__code__.co_varnames else {}
            test(Programs(), **lent, **row)


@pytest.mark.parametrize("name", PLANTED)
def test_its_test_fails(name: str) -> None:
    test, edits = PLANTED[name]
    with planted(edits), pytest.raises(NOTICED):
        run(test)


@pytest.mark.parametrize("test", {test.__name__: test for test, _ in PLANTED.values()}.values())
def test_without_a_bug_it_passes(test: Test) -> None:
    run(test)


# What histories, or a crash at some moment, find by themselves.
FOUND = {
    "a resumed program starts at the node after",
    "fail_fast leaves a sibling admitted",
    "a value that nobody can supply is waited for",
}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_histories_find_it_too(name: str) -> None:
    with planted(PLANTED[name][1]), pytest.raises(NOTICED):
        for seed in range(test_program_machine.SEEDS):
            test_program_machine.history(seed)


@pytest.mark.parametrize("name", ["a resume forgets the calls that are stuck"])
def test_some_crash_finds_it_too(name: str) -> None:
    with planted(PLANTED[name][1]), pytest.raises(NOTICED):
        cuts.survives(DrivenProgram(test_cuts.EXAMPLES["key"], {}))
