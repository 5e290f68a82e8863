"""Every verb in every state: an observable transition, `repeated`, or a refusal's code.

`-` stands for a verb that the situation has no object for (no effect was announced).
"""

from __future__ import annotations

import pytest

from supervisor.core.record import Result
from supervisor.core.state import UNSETTLED
from tests.core.made import Core, code, directives, kinds, unchanged
from tests.core.situations import SITUATIONS

# The answer to each verb, asked of the situation as it stands:
# resume | cancel | reconcile | resolve applied | resolve not_applied
REPEAT, RETRY, RESTORE = "CallQueued", "CallAccepted", "CallRestored"
CANCEL, ASKS, SETTLES, AGAIN = "CancelRequested", "ReconcilerStarted", "EffectResolved", "again"
STALE, OVER, GONE = "DurableResumeConflict", "NotResumable", "OperationCancelled"
ALIVE, FLIP, NOBODY = "PreviousAttemptAlive", "RequestConflict", "ReconciliationRequired"
NEVER, LOST = "EffectOutcomeUnknown", "EffectResultUnavailable"

VERBS = {
    "just accepted": (STALE, CANCEL, "-", "-", "-"),
    "started": (STALE, CANCEL, "-", "-", "-"),
    "started with leave": (STALE, CANCEL, NOBODY, SETTLES, ALIVE),
    "queued when the daemon died": (REPEAT, CANCEL, "-", "-", "-"),
    "resumed before it ever ran": (STALE, CANCEL, "-", "-", "-"),
    "died before any leave": (REPEAT, CANCEL, "-", "-", "-"),
    "resumed and waiting for its turn": (STALE, CANCEL, "-", "-", "-"),
    "died after leave": (NEVER, CANCEL, NOBODY, SETTLES, SETTLES),
    "died after leave with a key": (RETRY, CANCEL, NOBODY, SETTLES, SETTLES),
    "retried with its key and waiting": (STALE, CANCEL, NOBODY, SETTLES, SETTLES),
    "died after leave and the provider can tell": (NOBODY, CANCEL, ASKS, SETTLES, SETTLES),
    "died after leave with no contract": (REPEAT, CANCEL, NOBODY, SETTLES, SETTLES),
    "exit 0 without a confirmation": (NEVER, CANCEL, NOBODY, SETTLES, SETTLES),
    "unknown and cancelled": (GONE, AGAIN, NOBODY, SETTLES, SETTLES),
    "unknown and cancelled and settled": (OVER, AGAIN, NOBODY, AGAIN, FLIP),
    "cancelled before it started": (OVER, AGAIN, "-", "-", "-"),
    "cancelled and still running": (GONE, AGAIN, "-", "-", "-"),
    "cancelled and seen to end": (OVER, AGAIN, "-", "-", "-"),
    "cancelled and died": (OVER, AGAIN, "-", "-", "-"),
    "applied and succeeded": (OVER, AGAIN, OVER, AGAIN, FLIP),
    "applied and succeeded with its result lost": (OVER, AGAIN, ASKS, AGAIN, FLIP),
    "exit 0 after the deadline": (OVER, AGAIN, OVER, AGAIN, FLIP),
    "exit 0 after the deadline without a confirmation": (NEVER, CANCEL, NOBODY, SETTLES, SETTLES),
    "timed out before any leave": (OVER, AGAIN, "-", "-", "-"),
    "failed with nothing applied": (OVER, AGAIN, OVER, FLIP, AGAIN),
    "failed with a free effect unknown": (OVER, AGAIN, OVER, OVER, OVER),
    "failed with something applied": ("CallQueued", CANCEL, OVER, AGAIN, FLIP),
    "failed with something applied and cancelled": (OVER, AGAIN, OVER, AGAIN, FLIP),
    "failed with its applied result lost": (LOST, CANCEL, ASKS, AGAIN, FLIP),
    "refused before it started": (OVER, AGAIN, "-", "-", "-"),
    "a retry refused before it started": ("CallQueued", CANCEL, NOBODY, SETTLES, SETTLES),
    "settled as applied after a failure": (RESTORE, CANCEL, OVER, AGAIN, FLIP),
    "settled as not applied after a failure": (OVER, AGAIN, OVER, FLIP, AGAIN),
    "settled as applied after a crash": (RESTORE, CANCEL, OVER, AGAIN, FLIP),
    "settled as not applied after a crash": (RETRY, CANCEL, OVER, FLIP, AGAIN),
    "settled as applied after exit 0": (OVER, AGAIN, OVER, AGAIN, FLIP),
    "restored": (OVER, AGAIN, OVER, AGAIN, FLIP),
    "stopped by a shutdown": (REPEAT, CANCEL, "-", "-", "-"),
    "held back by the last check": (RETRY, CANCEL, OVER, FLIP, AGAIN),
    "not started by exec": (OVER, AGAIN, OVER, FLIP, AGAIN),
    "lost and not proven dead": (ALIVE, CANCEL, NOBODY, SETTLES, ALIVE),
    "being reconciled": (ALIVE, CANCEL, ALIVE, SETTLES, SETTLES),
}
NAMES = ("resume", "cancel", "reconcile", "resolve applied", "resolve not applied")


def ask(core, call_id, verb):
    match verb:
        case "resume":
            return core.resume(call_id)
        case "cancel":
            return core.cancel(call_id)
        case "reconcile":
            return core.reconcile(call_id)
        case _:
            return core.resolve(call_id, applied=verb == "resolve applied")


def answered(decision):
    if decision.refusal is not None:
        assert unchanged(decision)
        return decision.refusal.code
    if decision.repeated:
        assert unchanged(decision)
        return AGAIN
    return kinds(decision)[-1]


CELLS = [
    pytest.param(name, verb, row[column], id=f"{name}, {verb}")
    for name, row in VERBS.items()
    for column, verb in enumerate(NAMES)
    if row[column] != "-"
]


@pytest.mark.guarantee("E4", "E9", "E10", "R4", "R11")
@pytest.mark.parametrize(("name", "verb", "expected"), CELLS)
def test_each_verb_in_each_state_moves_it_or_says_why_not_and_nothing_flips(name, verb, expected):
    core = Core()
    call_id = SITUATIONS[name](core)
    operation, before = core.operation(call_id), core.stands(call_id)
    settled = {
        one.effect_id: one.outcome
        for one in operation.effects.values()
        if one.outcome not in UNSETTLED
    }
    decision = ask(core, call_id, verb)
    assert answered(decision) == expected
    # Only a resume that needs an attempt launches, and nothing starts one.
    launches = verb == "resume" and expected in {"CallQueued", "CallAccepted"}
    assert ("Launch" in directives(decision)) is launches
    assert "OpenGate" not in directives(decision)
    # Neither a finished operation nor a settled effect is anything else afterwards.
    if operation.finished:
        assert core.stands(call_id) is before
    for effect_id, outcome in settled.items():
        assert core.state.effect(effect_id).outcome is outcome


def test_every_situation_has_its_row_and_only_effects_lack_a_cell():
    assert set(VERBS) == set(SITUATIONS)
    for name, row in VERBS.items():
        core = Core()
        call_id = SITUATIONS[name](core)
        has_effect = bool(core.operation(call_id).effects)
        assert [cell == "-" for cell in row] == [False, False, *[not has_effect] * 3]


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_cancel_ends_exactly_what_runs(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    live = core.call(core.newest(call_id)).live is not None
    first = not core.operation(call_id).cancel_requested and not core.operation(call_id).finished
    assert directives(core.cancel(call_id)) == ["EndAttempt"] * (live and first)


@pytest.mark.guarantee("E8", "E9")
@pytest.mark.parametrize(
    "name", ["applied and succeeded with its result lost", "failed with its applied result lost"]
)
def test_a_missing_result_is_supplied_once_by_an_operator(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    supplied = core.resolve(call_id, applied=True, result=Result({"id": "ch_9"}))
    assert kinds(supplied) == ["EffectResolved"]
    assert core.effect(call_id).result == Result({"id": "ch_9"})
    again = core.resolve(call_id, applied=True, result=Result({"id": "ch_9"}))
    assert again.repeated
    other = core.resolve(call_id, applied=True, result=Result({"id": "ch_8"}))
    assert code(other) == FLIP
    assert core.effect(call_id).result == Result({"id": "ch_9"})


@pytest.mark.guarantee("E8")
@pytest.mark.parametrize(
    "name", ["applied and succeeded with its result lost", "failed with its applied result lost"]
)
def test_a_missing_result_may_come_from_the_provider(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    core.reconcile(call_id)
    core.answer(call_id, applied=True, result=Result({"id": "ch_9"}))
    assert core.effect(call_id).result == Result({"id": "ch_9"})


def test_a_provider_that_denies_what_is_recorded_as_applied_is_evidence_only():
    core = Core()
    call_id = SITUATIONS["applied and succeeded with its result lost"](core)
    core.wait(60_000)
    core.reconcile(call_id)
    answer = core.answer(call_id, applied=False)
    assert not answer.records[0].settles
    assert core.stands(call_id).value == "succeeded"
    assert core.effect(call_id).outcome.value == "applied"
