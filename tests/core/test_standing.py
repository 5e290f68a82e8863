"""Where an operation and its call stand: the state tables, from the inputs that lead there."""

from __future__ import annotations

import pytest

from supervisor.core.record import Outcome, Result
from supervisor.core.standing import (
    CallState,
    OperationState,
    call_result,
    effects_applied,
    effects_unknown,
    operation_result,
)
from tests.core.made import NEVER, NONE, Core, code, effect, terms
from tests.core.situations import FREE, LOST, ONE, SITUATIONS, TWO

# situation: (operation, call, effects applied, effects unknown)
STANDS = {
    "just accepted": ("accepted", "accepted", 0, 0),
    "started": ("running", "running", 0, 0),
    "started with leave": ("running", "running", 0, 0),
    "queued when the daemon died": ("interrupted", "interrupted", 0, 0),
    "resumed before it ever ran": ("running", "accepted", 0, 0),
    "died before any leave": ("interrupted", "interrupted", 0, 0),
    "resumed and waiting for its turn": ("running", "running", 0, 0),
    "died after leave": ("unknown", "unknown", 0, 1),
    "died after leave with a key": ("unknown", "unknown", 0, 1),
    "retried with its key and waiting": ("running", "unknown", 0, 1),
    "died after leave and the provider can tell": ("unknown", "unknown", 0, 1),
    "died after leave with no contract": ("interrupted", "interrupted", 0, 0),
    "exit 0 without a confirmation": ("unknown", "unknown", 0, 1),
    "unknown and cancelled": ("unknown", "unknown", 0, 1),
    "unknown and cancelled and settled": ("cancelled", "cancelled", 1, 0),
    "cancelled before it started": ("cancelled", "cancelled", 0, 0),
    "cancelled and still running": ("running", "running", 0, 0),
    "cancelled and seen to end": ("cancelled", "cancelled", 0, 0),
    "cancelled and died": ("cancelled", "cancelled", 0, 0),
    "applied and succeeded": ("succeeded", "succeeded", 1, 0),
    "applied and succeeded with its result lost": ("succeeded", "succeeded", 1, 0),
    "exit 0 after the deadline": ("succeeded", "succeeded", 1, 0),
    "exit 0 after the deadline without a confirmation": ("unknown", "unknown", 0, 1),
    "timed out before any leave": ("failed", "failed", 0, 0),
    "failed with nothing applied": ("failed", "failed", 0, 0),
    "failed with a free effect unknown": ("failed", "failed", 0, 0),
    "failed with something applied": ("interrupted", "failed", 1, 0),
    "failed with something applied and cancelled": ("cancelled", "failed", 1, 0),
    "failed with its applied result lost": ("interrupted", "failed", 1, 0),
    "refused before it started": ("failed", "refused", 0, 0),
    "a retry refused before it started": ("unknown", "unknown", 0, 1),
    "settled as applied after a failure": ("interrupted", "interrupted", 1, 0),
    "settled as not applied after a failure": ("failed", "failed", 0, 0),
    "settled as applied after a crash": ("interrupted", "interrupted", 1, 0),
    "settled as not applied after a crash": ("interrupted", "interrupted", 0, 0),
    "settled as applied after exit 0": ("succeeded", "succeeded", 1, 0),
    "restored": ("succeeded", "succeeded", 1, 0),
    "stopped by a shutdown": ("interrupted", "interrupted", 0, 0),
    "held back by the last check": ("interrupted", "interrupted", 0, 0),
    "not started by exec": ("failed", "failed", 0, 0),
    "lost and not proven dead": ("unknown", "unknown", 0, 1),
    "being reconciled": ("unknown", "unknown", 0, 1),
}


@pytest.mark.guarantee("E14", "E17", "R1", "R14")
@pytest.mark.parametrize("name", SITUATIONS)
def test_an_operation_and_its_call_stand_where_the_table_says(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    operation, call = core.operation(call_id), core.call(call_id)
    found = (
        core.stands(call_id).value,
        core.call_stands(call_id).value,
        effects_applied(operation, call),
        effects_unknown(operation, call),
    )
    assert found == STANDS[name]


def test_every_situation_has_its_row():
    assert set(STANDS) == set(SITUATIONS)


def test_the_rows_reach_every_state_that_a_dispatch_can_have():
    assert {row[0] for row in STANDS.values()} == {
        one.value
        for one in OperationState
        if one not in {OperationState.STOPPED, OperationState.WAITING}
    }
    assert {row[1] for row in STANDS.values()} == {one.value for one in CallState}


@pytest.mark.guarantee("R1")
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_restart_starts_nothing_and_moves_nothing_that_is_at_rest(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    before = core.operation(call_id)
    moved = call_id in core.state.moving or core.newest(call_id) in core.state.moving
    assert core.restart().directives == ()
    after = core.operation(call_id)
    if moved or name == "being reconciled":
        assert after.revision == before.revision + 1
    else:
        assert after == before
    assert dict(core.state.moving) == {}


@pytest.mark.parametrize(
    ("settle", "state"),
    [("applied", "interrupted"), ("not applied", "interrupted")],
)
def test_a_second_unknown_effect_keeps_the_operation_unknown(settle, state):
    core = Core()
    call_id = core.begin(TWO)
    core.announce(call_id)
    core.announce(call_id, "mail")
    core.restart()
    core.resolve(call_id, 0, applied=settle == "applied")
    assert core.stands(call_id).value == "unknown"
    core.resolve(call_id, 1, applied=settle == "applied")
    assert core.stands(call_id).value == state


@pytest.mark.guarantee("R10")
def test_a_session_counts_what_is_unfinished_and_no_more():
    core = Core()
    first = core.submit(ONE, "r1", operations_max=2)
    core.submit(ONE, "r2", operations_max=2)
    third = core.submitted(ONE, "r3", operations_max=2)
    assert code(core.do(third)) == "LimitExceeded"
    other = core.submitted(ONE, "r3", operations_max=2, session_id="uid:1001")
    assert core.do(other).refusal is None
    core.cancel(first)
    assert core.do(third).refusal is None
    assert dict(core.state.unfinished) == {"uid:1000": 2, "uid:1001": 1}


# --- results -----------------------------------------------------------------------------


def value_of(core, call_id):
    operation = core.operation(call_id)
    shown = operation_result(operation)
    return call_result(operation, core.call(call_id)), shown.value if shown is not None else None


@pytest.mark.guarantee("E16")
def test_a_sole_effects_result_is_the_calls_and_the_handlers_own_is_ignored():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.confirm(call_id, result=Result("the effect's"))
    core.exit(call_id, value=Result("the handler's"))
    assert value_of(core, call_id) == (Result("the effect's"), "the effect's")


@pytest.mark.guarantee("E16")
@pytest.mark.parametrize(
    "declared",
    [(effect(), effect("mail")), (effect(many=True),), ()],
    ids=["two effects", "one that is many", "none"],
)
def test_without_a_sole_effect_the_handlers_result_is_the_calls(declared):
    core = Core()
    call_id = core.begin(terms(*declared))
    if declared:
        core.announce(call_id)
        core.confirm(call_id, result=Result("the effect's"))
    core.exit(call_id, value=Result("the handler's"))
    assert value_of(core, call_id) == (Result("the handler's"), "the handler's")


@pytest.mark.guarantee("E8")
def test_a_result_that_was_not_kept_is_said_to_be_unavailable():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.confirm(call_id, result=LOST)
    core.exit(call_id)
    assert value_of(core, call_id) == (LOST, None)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED])
def test_a_call_that_did_not_succeed_has_no_result(outcome):
    core = Core()
    call_id = core.begin(FREE)
    core.exit(call_id, outcome, status=0, value=Result("partial"))
    assert value_of(core, call_id) == (None, None)


@pytest.mark.guarantee("E5", "E16")
def test_the_output_of_an_attempt_that_left_out_an_ordinal_is_no_result():
    core = Core()
    declared = terms(effect("charge", NONE), effect("mail", NONE))
    call_id = core.begin(declared)
    core.announce(call_id)
    core.confirm(call_id)
    core.restart()
    core.relaunch(call_id)
    core.exit(call_id, value=Result("made without the charge"))
    assert core.attempt(call_id).code == "EffectCorrelationMismatch"
    assert core.call(call_id).result is None
    assert core.stands(call_id).value == "interrupted"


def test_a_retried_call_shows_its_successors_state_and_result():
    core = Core()
    call_id = core.begin(terms(effect(contract=NEVER)))
    core.announce(call_id)
    core.restart()
    core.resolve(call_id, applied=False)
    launched = core.relaunch(call_id)
    assert launched != call_id
    core.announce(launched)
    core.confirm(launched, result=Result("made"))
    core.exit(launched)
    assert core.call(call_id).retried_by == launched
    assert core.call_stands(call_id) is CallState.SUCCEEDED
    assert value_of(core, call_id) == (Result("made"), "made")
