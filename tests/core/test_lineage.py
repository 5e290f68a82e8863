"""How a call's lineage goes on: the relaunch table, row by row, ordinal by ordinal."""

from __future__ import annotations

import pytest

from supervisor.core.contract import Verdict
from supervisor.core.errors import Refusal
from supervisor.core.lineage import call_verdict, effect_verdict, plan
from supervisor.core.record import Outcome, Result
from supervisor.core.step import AnswerApplied, GiveLeave, RefuseAnnouncement
from tests.core.made import ASK, KEY, MS, NEVER, NONE, OPERATOR, Core, effect, terms

CONTRACTS = {"none": NONE, "key": KEY, "ask": ASK, "never": NEVER}
DAY_MS = 86_400_000


def history(core, words, *, ending="crash"):
    """A call whose effects stand as `words` say, each `contract:evidence`, then its end.

    Evidence: a (applied with result), l (applied, result lost), n (not applied), u (unknown).
    """
    pairs = [word.split(":") for word in words]
    declared = [effect(f"e{i}", CONTRACTS[c]) for i, (c, _) in enumerate(pairs)]
    # One more that was never announced: the sole-effect rule is out of the way.
    call_id = core.begin(terms(*declared, effect("extra", NONE)))
    for i, (_, evidence) in enumerate(pairs):
        core.announce(call_id, f"e{i}")
        if evidence == "a":
            core.confirm(call_id, i, result=Result(f"made {i}"))
        elif evidence == "l":
            core.confirm(call_id, i, result=Result(unavailable="too_large"))
        elif evidence == "n":
            core.confirm(call_id, i, applied=False)
    if ending == "crash":
        core.restart()
    else:
        core.exit(call_id, Outcome.FAILED, value=Result("partial"))
    return call_id


# words: (verdict, relaunch, a new call?, what each ordinal is answered)
ROWS = {
    # nothing announced
    "": ("repeat", "repeat", False, ["leave"]),
    # everything applied, the call's result missing
    "never:a": ("restore", "finish", False, ["applied", "leave"]),
    "key:a ask:a none:a": ("restore", "finish", False, ["applied"] * 3 + ["leave"]),
    # some `none` unknown, not applied or without result, the rest applied
    "none:u": ("repeat", "repeat", False, ["leave", "leave"]),
    "none:n": ("repeat", "repeat", False, ["leave", "leave"]),
    "none:l": ("repeat", "repeat", False, ["leave", "leave"]),
    "never:a none:u": ("repeat", "repeat", False, ["applied", "leave", "leave"]),
    "none:u key:a none:l": ("repeat", "repeat", False, ["leave", "applied", "leave", "leave"]),
    # an unknown effect whose key is valid, or one that was not applied
    "key:u": ("retry", "retry", True, ["leave", "leave"]),
    "key:n": ("retry", "retry", True, ["leave", "leave"]),
    "ask:n": ("retry", "retry", True, ["leave", "leave"]),
    "never:n": ("retry", "retry", True, ["leave", "leave"]),
    "never:a key:u": ("retry", "retry", True, ["applied", "leave", "leave"]),
    "none:u never:n": ("retry", "retry", True, ["leave", "leave", "leave"]),
    "none:a never:n none:l": ("retry", "retry", True, ["applied", "leave", "leave", "leave"]),
    # refused as a whole, by the strictest
    "ask:u": ("ReconciliationRequired", None, None, None),
    "never:u": ("EffectOutcomeUnknown", None, None, None),
    "key:l": ("EffectResultUnavailable", None, None, None),
    "ask:l": ("EffectResultUnavailable", None, None, None),
    "never:l": ("EffectResultUnavailable", None, None, None),
    "key:u ask:u": ("ReconciliationRequired", None, None, None),
    "ask:u never:l": ("EffectResultUnavailable", None, None, None),
    "ask:u never:u key:l": ("EffectOutcomeUnknown", None, None, None),
    "none:u never:a ask:u": ("ReconciliationRequired", None, None, None),
}


def said(decision):
    match decision.directives[0]:
        case GiveLeave():
            return "leave"
        case AnswerApplied():
            return "applied"
        case RefuseAnnouncement(refusal):
            return refusal.code
    raise AssertionError(decision)


@pytest.mark.guarantee("E4")
@pytest.mark.parametrize("words", ROWS)
def test_a_lineage_is_relaunched_as_its_row_says(words):
    verdict, relaunch, new_call, answers = ROWS[words]
    core = Core()
    call_id = history(core, words.split())
    operation, call = core.operation(call_id), core.call(call_id)
    planned = plan(operation, call, core.now)
    if relaunch is None:
        assert isinstance(planned, Refusal)
        assert planned.code == verdict
        assert planned.effect_id in operation.effects
        assert call_verdict(operation, call, core.now).value == verdict
        return
    assert not isinstance(planned, Refusal)
    assert planned.relaunch is not None
    assert (planned.relaunch.value, planned.new_call) == (relaunch, new_call)
    ids = operation.lineages.get(call_id, ())
    launched = core.relaunch(call_id)
    assert (launched != call_id) is new_call
    assert core.call(launched).retry_of == (call_id if new_call else None)
    names = [f"e{i}" for i in range(len(answers) - 1)] + ["extra"]
    assert [said(core.announce(launched, name)) for name in names] == answers
    assert core.operation(call_id).lineages[call_id][: len(ids)] == ids


@pytest.mark.guarantee("E4", "E16")
def test_a_sole_effect_with_its_result_is_restored_and_nothing_is_launched():
    core = Core()
    call_id = core.begin(terms(effect()))
    core.announce(call_id)
    core.confirm(call_id)
    core.exit(call_id, Outcome.FAILED)
    planned = plan(core.operation(call_id), core.call(call_id), core.now)
    assert not isinstance(planned, Refusal)
    assert (planned.verdict.value, planned.relaunch, planned.new_call) == ("restore", None, False)


@pytest.mark.guarantee("E4")
def test_a_result_of_a_failed_attempt_does_not_stand_in_for_the_calls():
    core = Core()
    call_id = history(core, ["never:a"], ending="exit")
    planned = plan(core.operation(call_id), core.call(call_id), core.now)
    assert not isinstance(planned, Refusal)
    assert planned.verdict.value == "finish"


@pytest.mark.guarantee("E3", "E4")
def test_a_retry_keeps_the_effect_id_over_the_whole_lineage():
    core = Core()
    call_id = core.begin(terms(effect(contract=KEY)), max_run_ms=1_000_000)
    core.announce(call_id)
    first = core.effect(call_id).effect_id
    launched = call_id
    for _ in range(3):
        core.restart()
        launched = core.relaunch(launched)
        (leave,) = core.announce(launched).directives
        assert leave.effect_id == first
    assert core.call(launched).root == call_id
    assert [one.call_id for one in core.effect(call_id).tries] == list(
        core.operation(call_id).call_order
    )


@pytest.mark.guarantee("E3", "E4")
@pytest.mark.parametrize("contract", [NONE, KEY, ASK, NEVER])
def test_a_whole_call_effect_keeps_its_id_over_the_lineage(contract):
    of = terms(effect(contract=contract, whole_call=True))
    core = Core()
    call_id = core.submit(of)
    (gate,) = core.ready(call_id).directives
    core.restart()
    if contract is not NONE:
        core.resolve(call_id, applied=False)
    core.resume(call_id)
    launched = core.newest(call_id)
    (again,) = core.ready(launched).directives
    assert again.effect_id == gate.effect_id
    assert again.attempt == (1 if contract is NONE else 0)


# --- E12: the key's time -----------------------------------------------------------------

# A retry needs timeout 10 s and grace 2 s inside what is left of the key's time.
VALID_MS = 60_000
LAST_MS = VALID_MS - 12_000 - 1


def keyed(core, *, reconciler):
    members = {"key_valid_ms": VALID_MS}
    if reconciler:
        members["reconciler"] = effect(contract=ASK).reconciler
    call_id = core.begin(terms(effect(contract=KEY, **members)))
    core.announce(call_id)
    core.lose(call_id)
    return call_id


def verdict_of(core, call_id):
    return effect_verdict(core.effect(call_id), core.call(call_id), core.now).value


@pytest.mark.guarantee("E12")
@pytest.mark.parametrize(
    ("age_ms", "reconciler", "verdict"),
    [
        (0, False, "retry"),
        (LAST_MS, False, "retry"),
        (LAST_MS + 1, False, "EffectOutcomeUnknown"),
        (VALID_MS, False, "EffectOutcomeUnknown"),
        (3 * DAY_MS, False, "EffectOutcomeUnknown"),
        (LAST_MS, True, "retry"),
        (LAST_MS + 1, True, "ReconciliationRequired"),
        (3 * DAY_MS, True, "ReconciliationRequired"),
    ],
)
def test_a_retry_must_end_while_the_key_is_valid(age_ms, reconciler, verdict):
    core = Core()
    call_id = keyed(core, reconciler=reconciler)
    core.wait(age_ms)
    assert verdict_of(core, call_id) == verdict


@pytest.mark.guarantee("E12")
@pytest.mark.parametrize(
    ("wall_ms", "mono_ms", "reboot", "verdict"),
    [
        (LAST_MS + 1, 0, False, "EffectOutcomeUnknown"),  # suspended: only the wall knows
        (0, LAST_MS + 1, False, "EffectOutcomeUnknown"),  # the wall clock was set back
        (-DAY_MS, LAST_MS, False, "retry"),
        (-DAY_MS, LAST_MS + 1, False, "EffectOutcomeUnknown"),
        (LAST_MS, 99 * DAY_MS, True, "retry"),  # another boot's clock says nothing
        (LAST_MS + 1, 0, True, "EffectOutcomeUnknown"),
    ],
)
def test_a_keys_age_is_the_larger_of_both_clocks(wall_ms, mono_ms, reboot, verdict):
    core = Core()
    call_id = keyed(core, reconciler=False)
    core.wall += wall_ms * MS
    core.mono += mono_ms * MS
    if reboot:
        core.boot_id = "boot-2"
    assert verdict_of(core, call_id) == verdict


@pytest.mark.guarantee("E12")
def test_a_keys_age_counts_from_the_first_announcement_of_the_lineage():
    core = Core()
    call_id = keyed(core, reconciler=False)
    core.wait(30_000)
    launched = core.relaunch(call_id)
    core.announce(launched)
    core.lose(launched)
    core.wait(LAST_MS - 30_000)
    assert verdict_of(core, launched) == "retry"
    core.wait(1)
    assert verdict_of(core, launched) == "EffectOutcomeUnknown"


@pytest.mark.guarantee("E12")
@pytest.mark.parametrize(("evidence", "verdict"), [("a", "restore"), ("n", "retry")])
def test_an_expired_key_changes_nothing_that_is_proven(evidence, verdict):
    core = Core()
    call_id = core.begin(terms(effect(contract=KEY, key_valid_ms=1)))
    core.announce(call_id)
    core.confirm(call_id, applied=evidence == "a")
    core.lose(call_id)
    core.wait(3 * DAY_MS)
    assert verdict_of(core, call_id) == verdict


@pytest.mark.guarantee("E12")
@pytest.mark.parametrize("whole_call", [False, True])
def test_a_key_that_expires_in_the_queue_gets_no_leave(whole_call):
    core = Core()
    of = terms(effect(contract=KEY, key_valid_ms=VALID_MS, whole_call=whole_call))
    call_id = core.begin(of)
    if not whole_call:
        core.announce(call_id)
    core.lose(call_id)
    core.wait(LAST_MS)
    assert core.resume(call_id).refusal is None
    core.wait(1)
    refused = core.ready(core.newest(call_id))
    assert refused.refusal is not None
    assert refused.refusal.code == "EffectOutcomeUnknown"
    assert not refused.directives
    assert core.stands(call_id).value == "unknown"


@pytest.mark.guarantee("E12")
def test_a_key_that_expires_in_a_running_relaunch_gets_no_leave():
    core = Core()
    call_id = keyed(core, reconciler=False)
    launched = core.relaunch(call_id)
    core.wait(LAST_MS + 1)
    assert said(core.announce(launched)) == "EffectOutcomeUnknown"


# --- what happened between the resume and its turn ---------------------------------------


@pytest.mark.guarantee("E9", "E10")
@pytest.mark.parametrize("whole_call", [False, True])
def test_an_effect_resolved_as_applied_in_the_queue_is_not_made_again(whole_call):
    core = Core()
    call_id = core.begin(terms(effect(contract=KEY, whole_call=whole_call)))
    if not whole_call:
        core.announce(call_id)
    core.restart()
    core.resume(call_id)
    core.resolve(call_id, applied=True, result=Result("seen"))
    decision = core.ready(core.newest(call_id))
    assert not decision.directives
    assert decision.refusal is not None
    assert core.stands(call_id).value == "succeeded"
    assert len(core.effect(call_id).tries) == 1


@pytest.mark.guarantee("E10")
def test_nothing_is_launched_beside_a_reconciler_that_asks():
    core = Core()
    of = terms(effect(contract=KEY, reconciler=effect(contract=ASK).reconciler))
    call_id = core.begin(of)
    core.announce(call_id)
    core.restart()
    core.resume(call_id)
    assert core.reconcile(call_id).refusal is None
    refused = core.ready(core.newest(call_id))
    assert refused.refusal is not None
    assert refused.refusal.code == "PreviousAttemptAlive"
    assert not refused.directives


@pytest.mark.guarantee("E10")
def test_no_reconciler_asks_beside_a_relaunch_that_may_announce():
    core = Core()
    of = terms(effect(contract=KEY, reconciler=effect(contract=ASK).reconciler))
    call_id = core.begin(of)
    core.announce(call_id)
    core.restart()
    core.relaunch(call_id)
    refused = core.reconcile(call_id)
    assert refused.refusal is not None
    assert refused.refusal.code == "PreviousAttemptAlive"


@pytest.mark.guarantee("E10")
@pytest.mark.parametrize("by", [None, "operator"])
def test_an_attempt_in_doubt_holds_its_lineage_until_it_is_proven_dead(by):
    core = Core()
    call_id = core.begin(terms(effect(contract=KEY)))
    core.announce(call_id)
    core.restart((call_id, 0))
    refused = core.resume(call_id)
    assert refused.refusal is not None
    assert refused.refusal.code == "PreviousAttemptAlive"
    assert "process" in refused.refusal.detail
    core.restart((call_id, 0))
    core.prove_dead(call_id, by=OPERATOR if by else None)
    assert core.prove_dead(call_id).repeated
    assert core.resume(call_id).refusal is None


@pytest.mark.guarantee("E16")
def test_a_late_call_with_several_applied_effects_and_a_result_is_restored():
    core = Core()
    call_id = core.begin(terms(effect(), effect("mail")))
    for ordinal, name in enumerate(("charge", "mail")):
        core.announce(call_id, name)
        core.confirm(call_id, ordinal)
    core.exit(call_id, Outcome.TIMED_OUT, status=0, value=Result("both"))
    operation = core.operation(call_id)
    assert call_verdict(operation, core.call(call_id), core.now) is Verdict.RESTORE
