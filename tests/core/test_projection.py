"""What recovery offers in every situation, and what it says is in the way."""

from __future__ import annotations

import pytest

from supervisor.core.lineage import needs
from supervisor.core.projection import project
from tests.core.made import ASK, KEY, NEVER, NONE, Core, effect, terms
from tests.core.situations import SITUATIONS

# situation: (what is offered, the code that is in the way of a resume)
OFFERS = {
    "just accepted": ("cancel extend", "DurableResumeConflict"),
    "started": ("cancel extend", "DurableResumeConflict"),
    "started with leave": ("cancel extend", "DurableResumeConflict"),
    "queued when the daemon died": ("resume cancel extend", None),
    "resumed before it ever ran": ("cancel extend", "DurableResumeConflict"),
    "died before any leave": ("resume cancel extend", None),
    "resumed and waiting for its turn": ("cancel extend", "DurableResumeConflict"),
    "died after leave": ("resolve cancel extend", "EffectOutcomeUnknown"),
    "died after leave with a key": ("resume resolve cancel extend", None),
    "retried with its key and waiting": ("resolve cancel extend", "DurableResumeConflict"),
    "died after leave and the provider can tell": (
        "reconcile resolve cancel extend",
        "ReconciliationRequired",
    ),
    "died after leave with no contract": ("resume cancel extend", None),
    "exit 0 without a confirmation": ("resolve cancel extend", "EffectOutcomeUnknown"),
    "unknown and cancelled": ("resolve", "OperationCancelled"),
    "unknown and cancelled and settled": ("resolve", None),
    "cancelled before it started": ("", None),
    "cancelled and still running": ("", "OperationCancelled"),
    "cancelled and seen to end": ("", None),
    "cancelled and died": ("", None),
    "applied and succeeded": ("", None),
    "applied and succeeded with its result lost": ("reconcile resolve", None),
    "exit 0 after the deadline": ("", None),
    "exit 0 after the deadline without a confirmation": (
        "resolve cancel extend",
        "EffectOutcomeUnknown",
    ),
    "timed out before any leave": ("", None),
    "failed with nothing applied": ("", None),
    "failed with a free effect unknown": ("", None),
    "failed with something applied": ("resume cancel extend", None),
    "failed with something applied and cancelled": ("", None),
    "failed with its applied result lost": (
        "reconcile resolve cancel extend",
        "EffectResultUnavailable",
    ),
    "refused before it started": ("", None),
    "a retry refused before it started": ("resume resolve cancel extend", None),
    "settled as applied after a failure": ("resume cancel extend", None),
    "settled as not applied after a failure": ("", None),
    "settled as applied after a crash": ("resume cancel extend", None),
    "settled as not applied after a crash": ("resume cancel extend", None),
    "settled as applied after exit 0": ("", None),
    "restored": ("", None),
    "stopped by a shutdown": ("resume cancel extend", None),
    "held back by the last check": ("resume cancel extend", None),
    "not started by exec": ("", None),
    "lost and not proven dead": ("resolve attest-dead cancel extend", "PreviousAttemptAlive"),
    "being reconciled": ("resolve cancel extend", "PreviousAttemptAlive"),
}


def projected(core, call_id, **members):
    operation = core.operation(call_id)
    members.setdefault("digests", {"charge": "d" * 64})
    return project(operation, core.now, margin_ms=0, **members)


@pytest.mark.guarantee("R3", "R11")
@pytest.mark.parametrize("name", SITUATIONS)
def test_recovery_offers_what_the_situation_allows_and_names_what_is_in_the_way(name):
    offered, code = OFFERS[name]
    core = Core()
    call_id = SITUATIONS[name](core)
    found = projected(core, call_id)
    assert {action.action for action in found.actions} == set(offered.split())
    assert [refusal.code for refusal in found.refusals] == ([code] if code else [])
    assert all(refusal.remedy for refusal in found.refusals)


def test_every_situation_has_its_row():
    assert set(OFFERS) == set(SITUATIONS)


@pytest.mark.guarantee("E13", "R3")
@pytest.mark.parametrize(
    ("digest", "offers", "code"),
    [
        ("d" * 64, "resume", None),
        ("e" * 64, "accept-artifacts", "HandlerArtifactChanged"),
        (None, None, "UnknownHandler"),
    ],
)
def test_a_relaunch_is_offered_only_with_the_handler_that_it_continues(digest, offers, code):
    core = Core()
    call_id = SITUATIONS["died before any leave"](core)
    found = projected(core, call_id, digests={"charge": digest})
    offered = {action.action for action in found.actions} - {"cancel", "extend"}
    assert offered == ({offers} if offers else set())
    assert [refusal.code for refusal in found.refusals] == ([code] if code else [])


@pytest.mark.guarantee("B8", "R3")
@pytest.mark.parametrize("digest", ["e" * 64, None])
def test_a_restore_is_offered_whatever_became_of_the_handler_and_the_budget(digest):
    core = Core()
    call_id = core.begin(terms(effect()), max_run_ms=10_001)
    core.announce(call_id)
    core.confirm(call_id)
    core.restart()
    found = projected(core, call_id, digests={"charge": digest})
    assert "resume" in {action.action for action in found.actions}
    assert found.refusals == ()


@pytest.mark.guarantee("B7", "R3")
def test_an_exhausted_budget_is_in_the_way_and_extending_it_is_offered():
    core = Core()
    call_id = core.begin(terms(), max_run_ms=10_001)
    core.restart()
    found = projected(core, call_id)
    assert [refusal.code for refusal in found.refusals] == ["RunTimeBudgetExceeded"]
    assert {action.action for action in found.actions} == {"cancel", "extend"}


# contract: who can move an unknown effect on, with a valid key and with an expired one
@pytest.mark.guarantee("E17", "R3")
@pytest.mark.parametrize(
    ("contract", "reconciler", "now", "later"),
    [
        (NONE, False, "nothing", "nothing"),
        (KEY, False, "client", "person"),
        (KEY, True, "client", "reconciler"),
        (ASK, True, "reconciler", "reconciler"),
        (NEVER, False, "person", "person"),
    ],
)
def test_an_unknown_effect_says_who_can_move_it_on(contract, reconciler, now, later):
    core = Core()
    asker = effect(contract=ASK).reconciler if reconciler else None
    call_id = core.begin(terms(effect(contract=contract, reconciler=asker)))
    core.announce(call_id)
    core.lose(call_id)
    assert needs(core.effect(call_id), core.call(call_id), core.now).value == now
    known, call = core.effect(call_id), core.call(call_id)
    expected = {"client": "reconciler" if reconciler else "person"}.get(now, now)
    assert needs(known, call, core.now, cancelled=True).value == expected
    core.wait(2 * 86_400_000)
    assert needs(known, call, core.now).value == later
    core.resolve(call_id, applied=True)
    assert needs(core.effect(call_id), core.call(call_id), core.now).value == "nothing"
