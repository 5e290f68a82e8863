"""Effects settled from outside: by the provider's word, and by an operator's."""

from __future__ import annotations

import pytest

from supervisor.core.errors import IllegalTransition
from supervisor.core.projection import project
from supervisor.core.record import (
    DeclaredEffect,
    Result,
    Settler,
)
from supervisor.core.state import Effect, Said, Try
from tests.core.made import (
    ASK,
    KEY,
    MS,
    NEVER,
    OPERATOR,
    Core,
    code,
    effect,
    kinds,
    terms,
    unchanged,
)
from tests.core.situations import ASKED, KEYED, LOST, ONE


def outcome(core, call_id, ordinal=0):
    return core.effect(call_id, ordinal).outcome.value


def unknown(core, *, settled_ms=6_000):
    call_id = core.begin(ASKED)
    core.announce(call_id)
    core.lose(call_id)
    core.wait(settled_ms)
    return call_id


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize(
    ("applied", "stands", "settled_by"),
    [
        (True, "applied", Settler.RECONCILER),
        (False, "not_applied", Settler.RECONCILER),
        (None, "unknown", None),
    ],
)
def test_a_reconcilers_answer_settles_and_not_knowing_is_evidence_only(applied, stands, settled_by):
    core = Core()
    call_id = unknown(core)
    core.reconcile(call_id)
    before = core.effect(call_id).revision
    core.answer(call_id, applied=applied, detail="said so")
    known = core.effect(call_id)
    assert (known.outcome.value, known.settled_by) == (stands, settled_by)
    assert known.revision == before + (applied is not None)
    assert known.reconciling is None


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize(
    ("asked_after_ms", "applied", "settles"),
    [
        (5_000, False, True),
        (4_999, False, False),
        (0, False, False),
        (0, True, True),
    ],
)
def test_not_applied_counts_only_from_settle_ms_after_the_last_death(
    asked_after_ms, applied, settles
):
    core = Core()
    call_id = unknown(core, settled_ms=asked_after_ms)
    core.reconcile(call_id)
    core.wait(60_000)  # when it answers does not matter
    (record,) = core.answer(call_id, applied=applied).records
    assert record.settles is settles
    assert outcome(core, call_id) == (
        "unknown" if not settles else "applied" if applied else "not_applied"
    )


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize(
    ("wall_ms", "mono_ms", "reboot", "settles"),
    [
        (5_000, 5_000, False, True),
        (86_400_000, 4_999, False, False),  # the wall clock jumped
        (4_999, 86_400_000, False, False),
        (5_000, 0, True, True),  # another boot's clock says nothing
        (4_999, 86_400_000, True, False),
    ],
)
def test_settle_ms_is_waited_for_on_every_clock_that_can_tell(wall_ms, mono_ms, reboot, settles):
    core = Core()
    call_id = unknown(core, settled_ms=0)
    core.wall += wall_ms * MS
    core.mono += mono_ms * MS
    if reboot:
        core.boot_id = "boot-2"
    core.reconcile(call_id)
    (record,) = core.answer(call_id, applied=False).records
    assert record.settles is settles


@pytest.mark.guarantee("E9")
def test_an_answer_that_does_not_count_can_be_asked_again():
    core = Core()
    call_id = unknown(core, settled_ms=0)
    core.reconcile(call_id)
    core.answer(call_id, applied=False)
    core.wait(5_000)
    core.reconcile(call_id)
    core.answer(call_id, applied=False)
    assert outcome(core, call_id) == "not_applied"


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize("resolved", [True, False])
@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_bound_to_a_moved_revision_settles_nothing(resolved, answered):
    core = Core()
    call_id = unknown(core)
    core.reconcile(call_id)
    core.resolve(call_id, applied=resolved)
    (record,) = core.answer(call_id, applied=answered).records
    assert not record.settles
    assert outcome(core, call_id) == ("applied" if resolved else "not_applied")
    assert core.effect(call_id).settled_by is Settler.OPERATOR


@pytest.mark.guarantee("E10")
def test_one_reconciler_of_an_effect_at_a_time_and_none_after_a_restart():
    core = Core()
    call_id = unknown(core)
    core.reconcile(call_id)
    assert code(core.reconcile(call_id)) == "PreviousAttemptAlive"
    core.restart()
    assert core.effect(call_id).reconciling is None
    late = core.answer(call_id, applied=False)
    assert unchanged(late)
    assert code(late) == "NotFound"
    assert core.reconcile(call_id).refusal is None


def survived(core):
    """An unknown effect whose reconciler outlived the daemon that had started it."""
    call_id = unknown(core)
    core.reconcile(call_id)
    core.restart(asking=[core.effect(call_id).effect_id])
    return call_id


@pytest.mark.guarantee("E10", "R2")
def test_a_reconciler_that_outlived_its_daemon_refuses_its_lineage_until_it_is_proven_dead():
    core = Core()
    call_id = survived(core)
    other = core.begin(ONE, "r2")
    refused = core.reconcile(call_id)
    assert code(refused) == "PreviousAttemptAlive"
    assert "is not proven dead (init is process 9000)" in refused.refusal.detail
    assert code(core.resume(call_id)) == "PreviousAttemptAlive"
    # Another restart that cannot end it either changes nothing; what is not concerned goes on.
    core.restart(asking=[core.effect(call_id).effect_id])
    assert code(core.resume(call_id)) == "PreviousAttemptAlive"
    assert core.resume(other).refusal is None
    assert kinds(core.prove_asker_dead(call_id)) == ["ReconcilerDeathProven"]
    assert core.effect(call_id).reconciling is None
    assert code(core.resume(call_id)) == "ReconciliationRequired"
    assert core.reconcile(call_id).refusal is None


@pytest.mark.guarantee("E10")
def test_nobody_hears_what_a_reconciler_says_that_outlived_its_daemon():
    core = Core()
    call_id = survived(core)
    late = core.answer(call_id, applied=True)
    assert unchanged(late)
    assert code(late) == "NotFound"
    assert outcome(core, call_id) == "unknown"


@pytest.mark.guarantee("E10")
def test_a_restart_that_ends_the_reconciler_frees_its_lineage():
    core = Core()
    call_id = survived(core)
    core.restart()
    assert not core.state.reconciling
    assert core.reconcile(call_id).refusal is None


@pytest.mark.guarantee("E10")
def test_a_reconciler_that_runs_is_not_called_dead_and_one_that_does_not_is_so_already():
    core = Core()
    call_id = unknown(core)
    assert core.prove_asker_dead(call_id).repeated
    core.reconcile(call_id)
    running = core.prove_asker_dead(call_id)
    assert code(running) == "PreviousAttemptAlive"
    assert unchanged(running)
    assert core.answer(call_id, applied=True).refusal is None


@pytest.mark.guarantee("E10", "R3")
def test_the_projection_says_that_a_reconciler_is_not_proven_dead_and_how_to_go_on():
    core = Core()
    call_id = survived(core)
    found = project(core.operation(call_id), core.now, margin_ms=0, digests={"h": "d"})
    offered = {(action.action, action.effect_id) for action in found.actions}
    effect_id = core.effect(call_id).effect_id
    assert ("attest-dead", effect_id) in offered
    assert "reconcile" not in {action for action, _ in offered}
    (refusal,) = found.refusals
    assert (refusal.code, refusal.effect_id) == ("PreviousAttemptAlive", effect_id)


@pytest.mark.guarantee("R6")
def test_a_restart_that_names_a_reconciler_nobody_started_is_an_altered_journal():
    core = Core()
    call_id = unknown(core)
    with pytest.raises(IllegalTransition, match="no reconciler"):
        core.restart(asking=[core.effect(call_id).effect_id])


@pytest.mark.guarantee("E12")
def test_an_expired_keys_reconciler_settles_it_and_a_valid_keys_may_as_well():
    core = Core()
    of = terms(effect(contract=KEY, reconciler=effect(contract=ASK).reconciler))
    call_id = core.begin(of)
    core.announce(call_id)
    core.lose(call_id)
    core.wait(6_000)
    core.reconcile(call_id)
    core.answer(call_id, applied=False)
    assert outcome(core, call_id) == "not_applied"


# --- operators --------------------------------------------------------------------------------


@pytest.mark.guarantee("E9")
def test_an_operator_states_the_outcome_of_the_revision_that_was_looked_at():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.restart()
    stale = core.resolve(call_id, applied=True, if_revision=core.effect(call_id).revision - 1)
    assert unchanged(stale)
    assert code(stale) == "DurableResumeConflict"
    (record,) = core.resolve(call_id, applied=True, evidence="receipt 7").records
    assert (record.by, record.evidence) == (OPERATOR, "receipt 7")
    assert core.effect(call_id).settled_by is Settler.OPERATOR


@pytest.mark.guarantee("E9")
def test_the_same_statement_again_gets_its_record_also_on_an_old_revision():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.restart()
    revision = core.effect(call_id).revision
    core.resolve(call_id, applied=False, if_revision=revision)
    again = core.resolve(call_id, applied=False, if_revision=revision)
    assert again.repeated
    assert unchanged(again)


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize(
    ("moment", "applied", "refusal"),
    [
        ("running", True, None),
        ("running", False, "PreviousAttemptAlive"),
        ("in doubt", True, None),
        ("in doubt", False, "PreviousAttemptAlive"),
        ("dead", True, None),
        ("dead", False, None),
        ("attested", False, None),
    ],
)
def test_applied_may_be_stated_any_time_and_not_applied_only_of_the_dead(moment, applied, refusal):
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    if moment != "running":
        core.lose(call_id, dead=moment == "dead")
    if moment == "attested":
        core.prove_dead(call_id, by=OPERATOR)
    assert code(core.resolve(call_id, applied=applied)) == refusal


@pytest.mark.guarantee("E9")
def test_every_try_must_be_dead_before_not_applied_is_believed():
    core = Core()
    call_id = core.begin(KEYED)
    core.announce(call_id)
    core.lose(call_id)
    launched = core.relaunch(call_id)
    core.announce(launched)
    core.lose(launched, dead=False)
    assert code(core.resolve(call_id, applied=False)) == "PreviousAttemptAlive"
    core.prove_dead(launched)
    core.resolve(call_id, applied=False)
    assert [one.outcome.value for one in core.effect(call_id).tries] == ["not_applied"] * 2


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize(
    ("said", "truth"),
    [
        (["applied", "unknown"], "applied"),
        (["unknown", "applied"], "applied"),
        (["not_applied", "applied"], "applied"),
        (["not_applied", "unknown"], "unknown"),
        (["unknown", "not_applied"], "unknown"),
        (["not_applied", "not_applied"], "not_applied"),
        (["unknown", "announced"], "announced"),
        (["applied", "announced"], "applied"),
    ],
)
def test_the_truth_of_an_effect_is_over_all_its_tries(said, truth):
    tries = tuple(Try("call_1", n, Said(one)) for n, one in enumerate(said))
    declared = DeclaredEffect("charge", NEVER)
    known = Effect("eff_1", 0, declared, None, "", "", 0, 0, "boot-1", tries)
    assert known.outcome.value == truth


@pytest.mark.guarantee("E9")
def test_an_effects_revision_counts_the_records_that_name_it_in_any_call():
    core = Core()
    call_id = core.begin(KEYED)
    core.announce(call_id)
    assert core.effect(call_id).revision == 1
    core.lose(call_id)
    launched = core.relaunch(call_id)
    core.announce(launched)
    assert core.effect(call_id).revision == 2
    core.confirm(launched)
    assert core.effect(call_id).revision == 3
    core.confirm(launched, applied=False)
    assert core.effect(call_id).revision == 4


@pytest.mark.guarantee("E8")
def test_a_lost_result_never_leads_to_a_second_launch():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.confirm(call_id, result=LOST)
    core.lose(call_id)
    assert code(core.resume(call_id)) == "EffectResultUnavailable"
    core.resolve(call_id, applied=True, result=Result("found"))
    assert kinds(core.resume(call_id)) == ["ResumeAccepted", "CallRestored"]
