"""Each planted bug is caught, and the unedited code passes what catches it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.core import (
    test_budget,
    test_contract_table,
    test_effects,
    test_ends,
    test_lineage,
    test_machine,
    test_repaired,
    test_resume,
    test_retention,
    test_settling,
    test_standing,
    test_verbs,
)
from tests.core.host import Host
from tests.core.machine import TERMS, Machine, script
from tests.mutants.core_edits import EDITS, HOSTS
from tests.mutants.planting import NOTICED, planted, rows

VERBS = test_verbs.test_each_verb_in_each_state_moves_it_or_says_why_not_and_nothing_flips
EVICTION = test_retention.test_at_operations_kept_the_oldest_finished_one_goes_and_its_message_never_runs_again  # noqa: E501
TABLES: dict[str, Callable[..., None]] = {
    "a no_safe_retry effect is retried": (VERBS),
    "an effect that only its provider knows is retried": (
        test_contract_table.test_each_evidence_meets_each_contract_with_the_verdict_of_the_table
    ),
    "the budget's last millisecond is spent": (
        test_budget.test_admitted_iff_strictly_below_the_limit
    ),
    "an interrupted attempt is refunded": (
        test_budget.test_an_interrupted_attempt_keeps_its_whole_reservation
    ),
    "an answer about an older revision settles": (
        test_settling.test_an_answer_bound_to_a_moved_revision_settles_nothing
    ),
    "not applied is believed of a try that lives": (
        test_settling.test_applied_may_be_stated_any_time_and_not_applied_only_of_the_dead
    ),
    "a provider is believed before its requests have settled": (
        test_settling.test_not_applied_counts_only_from_settle_ms_after_the_last_death
    ),
    "the time to settle is taken from the wall clock only": (
        test_settling.test_settle_ms_is_waited_for_on_every_clock_that_can_tell
    ),
    "correlation is by name only": (test_effects.test_a_known_ordinal_answers_only_to_what_it_was),
    "a key is trusted for ever": (test_lineage.test_a_retry_must_end_while_the_key_is_valid),
    "a key's age is the wall clock's": (test_lineage.test_a_keys_age_is_the_larger_of_both_clocks),
    "an operator's word flips an outcome": (VERBS),
    "leave without a word is taken for not applied": (
        test_ends.test_however_an_attempt_ends_leave_without_confirmation_is_unknown
    ),
    "a crash is taken for not applied": (
        test_ends.test_however_an_attempt_ends_leave_without_confirmation_is_unknown
    ),
    "a relaunch starts beside an old tree": (
        test_lineage.test_an_attempt_in_doubt_holds_its_lineage_until_it_is_proven_dead
    ),
    "a survivor is taken for dead": (
        test_lineage.test_an_attempt_in_doubt_holds_its_lineage_until_it_is_proven_dead
    ),
    "a reconciler that outlives its daemon is forgotten": (
        test_settling.test_a_reconciler_that_outlived_its_daemon_refuses_its_lineage_until_it_is_proven_dead
    ),
    "an answer for a key speaks of later tries too": (
        test_effects.test_an_answer_for_a_key_speaks_of_no_later_try
    ),
    "the supervisor's word about one try speaks of all": (
        test_effects.test_what_the_supervisor_knows_of_a_try_says_nothing_of_the_earlier_ones
    ),
    "what was let into the queue is not judged again": (
        test_lineage.test_an_effect_resolved_as_applied_in_the_queue_is_not_made_again
    ),
    "an applied ordinal gets leave again": (
        test_lineage.test_a_lineage_is_relaunched_as_its_row_says
    ),
    "no handler is asked for the ordinals that it left out": (
        test_effects.test_a_relaunch_that_leaves_out_a_known_ordinal_has_not_succeeded
    ),
    "a late exit hides what was left out": (
        test_effects.test_a_relaunch_that_leaves_out_a_known_ordinal_has_not_succeeded
    ),
    "a resume is not remembered": (test_resume.test_the_same_resume_again_is_the_same_resume),
    "any checkpoint may be resumed": (
        test_resume.test_a_resume_of_another_checkpoint_is_a_conflict
    ),
    "an unknown effect lets the operation be finished": (
        test_standing.test_an_operation_and_its_call_stand_where_the_table_says
    ),
    "a finished operation is finished once more, otherwise": (VERBS),
    "leave is given after a cancel": (
        test_effects.test_after_a_cancel_or_the_deadline_no_leave_is_given_but_confirmations_count
    ),
    "an end is settled at its whole reservation": (
        test_budget.test_an_attempt_that_was_seen_to_end_is_settled_at_its_active_time
    ),
    "the same message is accepted again": (
        test_resume.test_fifty_equal_messages_at_once_are_one_operation_and_one_launch
    ),
    "a reconciler asks beside a live relaunch": (
        test_lineage.test_no_reconciler_asks_beside_a_relaunch_that_may_announce
    ),
    "what is not proven dead may be evicted": (
        test_retention.test_an_unknown_none_holds_nothing_and_a_tree_not_proven_dead_does
    ),
    "what was evicted is accepted again": (EVICTION),
    "the fold read back has forgotten what was evicted": (EVICTION),
    "a request that a repair gave up is taken for a new one": (
        test_repaired.test_a_request_that_is_known_to_be_lost_is_refused_and_not_taken_for_a_new_one
    ),
    "what a repair may have lost is still known as not applied": (
        test_repaired.test_nothing_that_may_have_gone_on_in_lost_records_is_started_again
    ),
    "a cancel from before a repair closes what the repair lost": (
        test_repaired.test_who_cancelled_before_the_repair_did_not_know_and_has_to_say_it_again
    ),
    "what a repair lost is never closed": (
        test_repaired.test_who_settles_what_is_known_and_cancels_closes_an_operation_for_good
    ),
    "words after the end are believed": (
        test_effects.test_what_comes_after_the_end_was_settled_is_evidence_only
    ),
}


def passes(test: Callable[..., None]) -> bool:
    """Whether every row holds."""
    try:
        for row in rows(test):
            test(**row)
    except NOTICED:
        return False
    return True


@pytest.mark.parametrize("name", EDITS)
def test_a_planted_bug_is_caught_by_its_table(name):
    with planted(EDITS[name]):
        assert not passes(TABLES[name]), f"nothing notices that {name}"
    assert passes(TABLES[name])


def test_every_planted_bug_has_its_table():
    assert set(TABLES) == set(EDITS)


# --- the order of things ------------------------------------------------------------------


def survives(seed: int, host: type[Host] = Host, length: int = test_machine.LENGTH) -> bool:
    try:
        Machine(seed, host=host).run(script(seed, length))
    except NOTICED:
        return False
    return True


@pytest.mark.parametrize("name", HOSTS)
def test_a_shell_with_another_order_does_not_survive_a_history(name):
    assert not all(survives(seed, HOSTS[name]) for seed in range(8))
    assert survives(0)


def fifty(host: type[Host]) -> int:
    """How many launches fifty equal messages come to, sent before the disk has the first."""
    machine = Machine(0, host=host)
    machine.host.watch = lambda _before, _decision, _after: None
    for _ in range(50):
        machine.host.commit(machine.message(TERMS[0], "the same", 45_000))
    return sum(len(waiting.directives) for waiting in machine.host.waiting)


@pytest.mark.guarantee("R8", "R13")
def test_fifty_equal_messages_are_fifty_launches_when_state_is_folded_after_the_sync():
    assert fifty(Host) == 1
    assert fifty(HOSTS["state is folded after the sync"]) == 50


# Which of the bugs whole histories find by themselves, and within how many of them.
FOUND = {
    "a no_safe_retry effect is retried": 8,
    "a key is trusted for ever": 13,
    "an interrupted attempt is refunded": 4,
    "leave without a word is taken for not applied": 8,
    "a crash is taken for not applied": 8,
    "a survivor is taken for dead": 4,
    "the same message is accepted again": 4,
}


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_bug_is_found_by_histories_too(name):
    with planted(EDITS[name]):
        assert not all(survives(seed) for seed in range(FOUND[name])), f"{name}: not found"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "name",
    [
        "an effect that only its provider knows is retried",
        "an applied ordinal gets leave again",
        "not applied is believed of a try that lives",
        "a provider is believed before its requests have settled",
        "the time to settle is taken from the wall clock only",
        "a relaunch starts beside an old tree",
        "a resume is not remembered",
        "what was let into the queue is not judged again",
    ],
)
def test_a_planted_bug_is_found_by_many_histories(name):
    with planted(EDITS[name]):
        assert not all(survives(seed, length=250) for seed in range(600)), f"{name}: not found"
