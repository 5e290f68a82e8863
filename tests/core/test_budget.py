"""The time budget, to the millisecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.budget import Budget
from supervisor.core.record import Outcome
from tests.core.examples import examples
from tests.core.made import NEVER, NONE, Core, code, effect, kinds, terms, unchanged

PLAIN = terms()


@pytest.mark.guarantee("B2")
@pytest.mark.parametrize(
    ("limit", "confirmed", "reserved", "reservation", "margin", "admitted"),
    [
        (15_000, 0, 10_000, 10_000, 0, False),
        (40_000, 0, 10_000, 10_000, 0, True),
        (20_000, 0, 10_000, 10_000, 0, False),  # equality refuses
        (20_001, 0, 10_000, 10_000, 0, True),
        (20_000, 10_000, 0, 10_000, 0, False),
        (20_001, 10_000, 0, 10_000, 0, True),
        (10_000, 0, 0, 10_000, 0, False),
        (10_001, 0, 0, 10_000, 0, True),
        (20_001, 0, 10_000, 10_000, 1, False),
        (20_002, 0, 10_000, 10_000, 1, True),
        (30_000, 5_000, 10_000, 10_000, 4_999, True),
        (30_000, 5_000, 10_000, 10_000, 5_000, False),
    ],
)
def test_admitted_iff_strictly_below_the_limit(
    limit, confirmed, reserved, reservation, margin, admitted
):
    assert Budget(limit, confirmed, reserved).admits(reservation, margin) is admitted


@pytest.mark.guarantee("B2", "B3")
@pytest.mark.parametrize(("limit", "resumes"), [(15_000, False), (20_000, False), (20_001, True)])
def test_an_interrupted_attempt_keeps_its_whole_reservation(limit, resumes):
    core = Core()
    call_id = core.begin(PLAIN, max_run_ms=limit)
    core.wait(3_000)
    core.restart()
    assert core.operation(call_id).budget == Budget(limit, 0, 10_000)
    assert (code(core.resume(call_id)) is None) is resumes


@pytest.mark.guarantee("B3", "B6")
def test_two_crashes_charge_twice_and_a_long_down_time_charges_nothing():
    core = Core()
    call_id = core.begin(PLAIN, max_run_ms=40_000)
    core.restart()
    core.wait(3 * 86_400_000)
    core.relaunch(call_id)
    core.restart(boot_id="boot-2")
    core.restart(boot_id="boot-3")
    assert core.operation(call_id).budget == Budget(40_000, 0, 20_000)


@pytest.mark.guarantee("B6")
@pytest.mark.parametrize("jump_ms", [-10 * 365 * 86_400_000, 10 * 365 * 86_400_000])
def test_a_jump_of_the_wall_clock_changes_no_budget(jump_ms):
    core = Core()
    call_id = core.begin(PLAIN, max_run_ms=40_000)
    core.wall += jump_ms * 1_000_000
    core.exit(call_id, Outcome.FAILED, active_ms=2_500)
    assert core.operation(call_id).budget == Budget(40_000, 2_500, 0)


@pytest.mark.guarantee("B5")
@pytest.mark.parametrize(
    ("outcome", "active_ms", "confirmed"),
    [
        (Outcome.SUCCEEDED, 1_234, 1_234),
        (Outcome.FAILED, 0, 0),
        (Outcome.TIMED_OUT, 10_000, 10_000),
        (Outcome.TIMED_OUT, 12_000, 10_000),  # never more than was reserved
        (Outcome.CANCELLED, 700, 700),
        (Outcome.NOT_STARTED, 900, 0),
    ],
)
def test_an_attempt_that_was_seen_to_end_is_settled_at_its_active_time(
    outcome, active_ms, confirmed
):
    core = Core()
    call_id = core.begin(PLAIN)
    core.exit(call_id, outcome, active_ms=active_ms)
    assert core.operation(call_id).budget == Budget(600_000, confirmed, 0)


@pytest.mark.guarantee("B5")
def test_an_end_is_settled_once():
    core = Core()
    call_id = core.begin(PLAIN)
    core.exit(call_id, Outcome.FAILED, active_ms=10)
    again = core.exit(call_id, Outcome.SUCCEEDED, active_ms=10_000)
    assert unchanged(again)
    assert code(again) == "NotFound"
    assert core.operation(call_id).budget == Budget(600_000, 10, 0)


@pytest.mark.guarantee("B4")
@pytest.mark.parametrize(
    ("declared", "relaunch"), [((effect(contract=NONE),), "repeat"), ((effect(),), "retry")]
)
def test_a_relaunch_reserves_its_own_timeout_in_addition(declared, relaunch):
    core = Core()
    call_id = core.begin(terms(*declared), max_run_ms=30_001)
    core.announce(call_id)
    core.restart()
    if relaunch == "retry":
        core.resolve(call_id, applied=False)
    launched = core.relaunch(call_id)
    assert core.attempt(launched).relaunch.value == relaunch
    assert core.attempt(launched).reservation_ms == 10_000
    assert core.operation(call_id).budget.reserved_ms == 20_000


@pytest.mark.guarantee("B4")
def test_a_finish_reserves_its_own_timeout_in_addition():
    core = Core()
    two = terms(effect("charge"), effect("mail", NONE))
    call_id = core.begin(two, max_run_ms=30_001)
    core.announce(call_id)
    core.confirm(call_id)
    core.restart()
    launched = core.relaunch(call_id)
    assert core.attempt(launched).relaunch.value == "finish"
    assert core.operation(call_id).budget.reserved_ms == 20_000


@pytest.mark.guarantee("B7")
def test_a_dispatch_that_does_not_fit_is_failed_and_says_the_numbers():
    core = Core()
    call_id = core.submit(PLAIN, max_run_ms=10_000)
    refused = core.ready(call_id)
    assert kinds(refused) == ["DispatchRefusedBudgetExceeded", "CallRefused"]
    assert not refused.directives
    assert refused.refusal is not None
    assert refused.refusal.code == "RunTimeBudgetExceeded"
    assert refused.refusal.extra == {
        "activeElapsedMs": 0,
        "reservationMs": 10_000,
        "remainingMs": 10_000,
        "active_elapsed_ms": 0,
        "reservation_ms": 10_000,
        "remaining_ms": 10_000,
        "limit_value": 10_000,
    }
    event = refused.records[0]
    assert (event.active_elapsed_ms, event.reservation_ms) == (0, 10_000)
    assert (event.remaining_ms, event.limit_value) == (10_000, 10_000)
    assert core.stands(call_id).value == "failed"
    assert core.call_stands(call_id).value == "refused"
    assert core.call(call_id).attempts == ()


@pytest.mark.guarantee("B7")
@pytest.mark.parametrize(("contract", "state"), [(NONE, "interrupted"), (NEVER, "interrupted")])
def test_a_resume_that_does_not_fit_leaves_the_operation_as_it_is(contract, state):
    core = Core()
    call_id = core.begin(terms(effect(contract=contract)), max_run_ms=15_000)
    core.restart()
    refused = core.resume(call_id)
    assert code(refused) == "RunTimeBudgetExceeded"
    assert kinds(refused) == ["DispatchRefusedBudgetExceeded"]
    assert not refused.directives
    assert core.stands(call_id).value == state
    assert core.extend(call_id, 20_001).refusal is None
    assert core.resume(call_id).refusal is None


@pytest.mark.guarantee("B7")
def test_a_retry_that_no_longer_fits_when_its_turn_comes_stays_unknown():
    core = Core()
    call_id = core.begin(terms(effect(contract=NEVER)), max_run_ms=20_001)
    core.announce(call_id)
    core.restart()
    core.resolve(call_id, applied=False)
    core.margin_ms = 0
    core.resume(call_id)
    core.margin_ms = 1
    refused = core.ready(core.newest(call_id))
    assert code(refused) == "RunTimeBudgetExceeded"
    assert core.stands(call_id).value == "interrupted"


@pytest.mark.guarantee("B8")
def test_a_restore_works_with_the_budget_exhausted_and_costs_nothing():
    core = Core()
    call_id = core.begin(terms(effect()), max_run_ms=10_001)
    core.announce(call_id)
    core.confirm(call_id)
    core.restart()
    before = core.operation(call_id).budget
    assert not before.admits(10_000)
    restored = core.resume(call_id)
    assert kinds(restored) == ["ResumeAccepted", "CallRestored"]
    assert not restored.directives
    assert core.stands(call_id).value == "succeeded"
    assert core.operation(call_id).budget == before
    assert len(core.operation(call_id).calls) == 1


@pytest.mark.guarantee("R11")
@pytest.mark.parametrize(
    ("asked", "expected", "written"),
    [
        (20_002, None, True),
        (20_001, None, False),
        (20_000, "InvalidInput", False),
    ],
)
def test_a_budget_can_only_be_raised(asked, expected, written):
    core = Core()
    call_id = core.begin(PLAIN, max_run_ms=20_001)
    decision = core.extend(call_id, asked)
    assert code(decision) == expected
    assert bool(decision.records) is written
    assert decision.repeated is (not written and expected is None)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(1, 50_000)),
        st.tuples(st.just("settle"), st.integers(0, 90_000)),
        st.tuples(st.just("interrupt"), st.just(0)),
    ),
    max_size=30,
)


@pytest.mark.guarantee("B2", "B3", "B5")
@examples(60, 5_000)
@given(st.integers(1, 200_000), st.integers(0, 1_000), STEPS)
def test_what_is_charged_stays_below_the_limit_and_only_an_end_lowers_it(limit, margin, steps):
    budget, running = Budget(limit), []
    for what, ms in steps:
        before = budget.charged_ms
        if what == "reserve" and budget.admits(ms, margin):
            budget = budget.reserve(ms)
            running.append(ms)
            assert budget.charged_ms == before + ms
        elif what == "settle" and running:
            promised = running.pop()
            budget = budget.settle(promised, ms)
            assert budget.charged_ms == before - promised + min(ms, promised)
        elif what == "interrupt" and running:
            running.pop()  # nothing is given back
            assert budget.charged_ms == before
        assert 0 <= budget.charged_ms < max(limit, 1)
        assert budget.remaining_ms == limit - budget.charged_ms
