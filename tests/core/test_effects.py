"""Effects: leave, correlation, confirmations, ends and settlements."""

from __future__ import annotations

import attrs
import pytest

from supervisor.core.contract import Contract
from supervisor.core.errors import IllegalTransition
from supervisor.core.record import (
    AttemptReserved,
    DeclaredEffect,
    EffectAnnounced,
    Exit,
    Outcome,
    Relaunch,
    Result,
    Settler,
)
from supervisor.core.state import Effect, Said, Try
from supervisor.core.step import AnswerApplied, GiveLeave, RefuseAnnouncement, SayRecorded
from tests.core.made import (
    ASK,
    KEY,
    MS,
    NEVER,
    NONE,
    NOON,
    OPERATOR,
    Core,
    code,
    directives,
    effect,
    kinds,
    terms,
    unchanged,
)
from tests.core.situations import ASKED, FREE, KEYED, LOST, ONE, TWO, WHOLE


def outcome(core, call_id, ordinal=0):
    return core.effect(call_id, ordinal).outcome.value


# --- leave ---------------------------------------------------------------------------------


@pytest.mark.guarantee("E1", "E3")
def test_leave_comes_with_the_record_that_names_the_effect():
    core = Core()
    call_id = core.begin(ONE)
    decision = core.announce(call_id)
    (record,), (leave,) = decision.records, decision.directives
    assert isinstance(leave, GiveLeave)
    assert record.effect_id == leave.effect_id == core.effect(call_id).effect_id
    assert outcome(core, call_id) == "announced"


@pytest.mark.guarantee("E2")
def test_ordinals_are_contiguous_from_0_and_confirmations_come_in_any_order():
    core = Core()
    call_id = core.begin(terms(effect(many=True)))
    leaves = [core.announce(call_id, request={"n": n}).directives[0] for n in range(3)]
    assert [leave.ordinal for leave in leaves] == [0, 1, 2]
    for ordinal in (2, 0, 1):
        assert directives(core.confirm(call_id, ordinal)) == ["SayRecorded"]
    core.exit(call_id)
    assert core.stands(call_id).value == "succeeded"


@pytest.mark.guarantee("E2", "S6")
@pytest.mark.parametrize(
    ("of", "before", "name", "refusal", "ends"),
    [
        (ONE, [], "refund", "UndeclaredEffect", False),
        (ONE, ["charge"], "charge", "UndeclaredEffect", False),
        (terms(effect(many=True)), ["charge"], "charge", None, False),
        (WHOLE, [], "charge", "UndeclaredEffect", False),  # announced before the gate
        (terms(effect(many=True), effects_max=1), ["charge"], "charge", "LimitExceeded", True),
        (terms(), [], "charge", "UndeclaredEffect", False),
    ],
)
def test_only_what_is_declared_gets_leave_and_as_often_as_it_is(of, before, name, refusal, ends):
    core = Core()
    call_id = core.begin(of)
    for one in before:
        core.announce(call_id, one)
    decision = core.announce(call_id, name)
    assert code(decision) == refusal
    if refusal is not None:
        assert kinds(decision) == ["AnnouncementRefused"]
        (said,) = decision.directives
        assert isinstance(said, RefuseAnnouncement)
        assert said.ends is ends


@pytest.mark.guarantee("E14")
@pytest.mark.parametrize("why", ["cancel", "deadline", "secret"])
def test_after_a_cancel_or_the_deadline_no_leave_is_given_but_confirmations_count(why):
    core = Core()
    call_id = core.begin(TWO)
    core.announce(call_id)
    if why == "cancel":
        core.cancel(call_id)
        refused = core.announce(call_id, "mail")
        assert code(refused) == "OperationCancelled"
    else:
        closed = {"deadline": "RunTimeBudgetExceeded", "secret": "SecretInRequest"}[why]
        refused = core.announce(call_id, "mail", closed=closed)
        assert code(refused) == closed
    assert len(core.operation(call_id).effects) == 1
    assert directives(core.confirm(call_id)) == ["SayRecorded"]
    core.exit(call_id, Outcome.CANCELLED if why == "cancel" else Outcome.TIMED_OUT)
    assert outcome(core, call_id) == "applied"


# --- correlation ----------------------------------------------------------------------------


@pytest.mark.guarantee("E5")
@pytest.mark.parametrize(
    ("contract", "name", "request_", "refusal"),
    [
        (KEY, "charge", {"amount": 3}, None),
        (KEY, "mail", {"amount": 3}, "EffectCorrelationMismatch"),
        (KEY, "charge", {"amount": 4}, "EffectCorrelationMismatch"),
        (KEY, "refund", {"amount": 3}, "EffectCorrelationMismatch"),
        (NONE, "charge", {"amount": 4}, None),  # the digest of `none` is not compared
        (NONE, "mail", {"amount": 3}, "EffectCorrelationMismatch"),
    ],
)
def test_a_known_ordinal_answers_only_to_what_it_was(contract, name, request_, refusal):
    core = Core()
    call_id = core.begin(terms(effect(contract=contract), effect("mail", contract)))
    core.announce(call_id)
    core.restart()
    launched = core.relaunch(call_id)
    decision = core.announce(launched, name, request_)
    assert code(decision) == refusal
    given = isinstance(decision.directives[0], GiveLeave)
    assert given is (refusal is None)


@pytest.mark.guarantee("E5", "E13")
def test_a_known_ordinal_under_another_contract_is_a_mismatch():
    core = Core()
    call_id = core.begin(KEYED)
    core.announce(call_id)
    core.restart()
    launched = core.relaunch(call_id)
    # The manifest in force now says something else than the announcement did.
    operation, call = core.operation(launched), core.call(launched)
    other = attrs.evolve(call, terms=terms(effect(contract=NEVER)))
    operation = attrs.evolve(operation, calls=operation.calls.set(launched, other))
    core.state = attrs.evolve(
        core.state, operations=core.state.operations.set(operation.operation_id, operation)
    )
    assert code(core.announce(launched)) == "EffectCorrelationMismatch"


@pytest.mark.guarantee("E5")
def test_a_later_look_alike_is_never_used_for_an_earlier_ordinal():
    core = Core()
    call_id = core.begin(TWO)
    core.announce(call_id)
    core.confirm(call_id, result=Result("charged"))
    core.announce(call_id, "mail")
    core.confirm(call_id, 1, result=Result("mailed"))
    core.restart()
    launched = core.relaunch(call_id)
    assert code(core.announce(launched, "mail")) == "EffectCorrelationMismatch"
    (answer,) = core.announce(launched, "charge").directives
    assert answer == AnswerApplied(0, Result("charged"))


@pytest.mark.guarantee("E5")
@pytest.mark.parametrize("announces", [0, 1])
@pytest.mark.parametrize("late", [False, True])
def test_a_relaunch_that_leaves_out_a_known_ordinal_has_not_succeeded(announces, late):
    core = Core()
    call_id = core.begin(terms(effect("charge", NONE), effect("mail", NONE)))
    core.announce(call_id)
    core.announce(call_id, "mail")
    core.restart()
    core.relaunch(call_id)
    for name in ("charge", "mail")[:announces]:
        core.announce(call_id, name)
        core.confirm(call_id, ("charge", "mail").index(name))
    if late:
        core.exit(call_id, Outcome.TIMED_OUT, status=0)
    else:
        core.exit(call_id)
        assert core.attempt(call_id).code == "EffectCorrelationMismatch"
        assert core.attempt(call_id).outcome is Outcome.FAILED
    assert core.attempt(call_id).late is False
    assert core.call_stands(call_id).value == "failed"


@pytest.mark.guarantee("E5")
@pytest.mark.parametrize("ending", [Outcome.SUCCEEDED, Outcome.TIMED_OUT])
def test_an_attempt_that_was_refused_an_effect_has_not_succeeded(ending):
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id, "refund")
    core.exit(call_id, ending, status=0, value=Result("pretends"))
    assert core.call_stands(call_id).value == "failed"
    assert core.attempt(call_id).code == "UndeclaredEffect"
    assert core.call(call_id).result is None


# --- confirmations --------------------------------------------------------------------------


@pytest.mark.guarantee("E7")
@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ((True, "x"), (True, "x"), "again"),
        ((True, "x"), (True, None), "again"),
        ((True, "x"), (True, "y"), "disputed"),
        ((True, "x"), (False, None), "disputed"),
        ((False, None), (False, None), "again"),
        ((False, None), (True, "x"), "disputed"),
    ],
)
def test_an_equal_confirmation_changes_nothing_and_another_is_kept_as_evidence(
    first, second, answer
):
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)

    def confirm(applied, value):
        result = Result(value) if value is not None else None
        return core.confirm(call_id, applied=applied, result=result)

    confirm(*first)
    before = core.effect(call_id)
    decision = confirm(*second)
    if answer == "again":
        assert decision.records == ()
        assert decision.directives == (SayRecorded(0),)
        assert core.effect(call_id) == before
    else:
        assert kinds(decision) == ["ConfirmationDisputed"]
        assert code(decision) == "EffectCorrelationMismatch"
        after = core.effect(call_id)
        assert (after.outcome, after.result) == (before.outcome, before.result)
        assert after.disputes == before.disputes + 1


@pytest.mark.guarantee("E7", "E9")
@pytest.mark.parametrize("applied", [True, False])
def test_what_comes_after_the_end_was_settled_is_evidence_only(applied):
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.exit(call_id, Outcome.FAILED)
    decision = core.confirm(call_id, applied=applied)
    assert kinds(decision) == ["ConfirmationDisputed"]
    assert outcome(core, call_id) == "unknown"


@pytest.mark.guarantee("E7")
def test_an_answer_about_a_try_that_was_settled_meanwhile_overwrites_nothing():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.lose(call_id)
    core.resolve(call_id, applied=False)
    decision = core.confirm(call_id)
    assert kinds(decision) == ["ConfirmationDisputed"]
    assert outcome(core, call_id) == "not_applied"
    assert core.effect(call_id).disputes == 1


@pytest.mark.guarantee("E14")
def test_a_confirmation_counts_until_the_tree_is_proven_dead():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.lose(call_id, dead=False)
    assert directives(core.confirm(call_id)) == ["SayRecorded"]
    assert outcome(core, call_id) == "applied"


@pytest.mark.guarantee("E8")
def test_a_handler_supplies_the_result_that_an_operator_could_not():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.resolve(call_id, applied=True)
    decision = core.confirm(call_id, result=Result({"id": "ch_1"}))
    assert kinds(decision) == ["EffectConfirmed"]
    assert core.effect(call_id).result == Result({"id": "ch_1"})
    assert core.effect(call_id).settled_by is Settler.OPERATOR
    core.exit(call_id)
    assert core.stands(call_id).value == "succeeded"


def test_a_confirmation_without_leave_is_refused():
    core = Core()
    call_id = core.begin(ONE)
    for ordinal in (-1, 0, 7):
        decision = core.confirm(call_id, ordinal)
        assert unchanged(decision)
        assert code(decision) == "EffectCorrelationMismatch"


@pytest.mark.guarantee("E4")
@pytest.mark.parametrize(
    ("contract", "settles"), [(KEY, True), (ASK, False), (NEVER, False), (NONE, False)]
)
def test_a_provider_that_answers_for_the_key_answers_for_the_earlier_tries(contract, settles):
    core = Core()
    call_id = core.begin(terms(effect(contract=contract)))
    core.announce(call_id)
    core.restart()
    launched = call_id
    if contract in {KEY, NONE}:
        launched = core.relaunch(call_id)
        core.announce(launched)
        core.confirm(launched, applied=False)
        first, second = core.effect(call_id).tries
        assert second.settled_by is Settler.HANDLER
        assert first.outcome.value == ("not_applied" if settles else "unknown")
        assert first.settled_by is (Settler.CONTRACT if settles else None)
    else:
        # Without a key an unknown try allows no second one.
        assert core.resume(call_id).refusal is not None


@pytest.mark.guarantee("E4")
@pytest.mark.parametrize("why", ["leave was not given", "the gate stayed closed"])
def test_what_the_supervisor_knows_of_a_try_says_nothing_of_the_earlier_ones(why):
    core = Core()
    whole = why == "the gate stayed closed"
    call_id = core.begin(terms(effect(contract=KEY, whole_call=whole)))
    if not whole:
        core.announce(call_id)
    core.restart()
    launched = core.relaunch(call_id)
    if whole:
        core.exit(launched, Outcome.NOT_STARTED, how=None, code="AuthorityRevoked")
    else:
        core.announce(launched)
        core.confirm(launched, applied=False, reason=why, settled_by=Settler.SUPERVISOR)
    first, second = core.effect(call_id).tries
    assert (second.outcome.value, second.settled_by) == ("not_applied", Settler.SUPERVISOR)
    assert first.outcome.value == "unknown"
    assert outcome(core, call_id) == "unknown"


@pytest.mark.guarantee("E4")
def test_a_late_word_about_an_old_try_does_not_settle_the_one_that_runs():
    core = Core()
    call_id = core.begin(KEYED)
    core.announce(call_id)
    core.lose(call_id, dead=False)
    core.prove_dead(call_id)
    launched = core.relaunch(call_id)
    core.announce(launched)
    core.confirm(call_id, applied=False, attempt=0)
    assert [one.outcome.value for one in core.effect(call_id).tries] == ["unknown", "announced"]


# --- ends -----------------------------------------------------------------------------------

ENDINGS = {
    "exit 0": (Outcome.SUCCEEDED, Exit(code=0)),
    "exit 1": (Outcome.FAILED, Exit(code=1)),
    "signal": (Outcome.FAILED, Exit(signal=9)),
    "deadline": (Outcome.TIMED_OUT, Exit(signal=15)),
    "deadline, exit 0": (Outcome.TIMED_OUT, Exit(code=0)),
    "cancelled": (Outcome.CANCELLED, Exit(signal=15)),
    "lost": None,
    "lost alive": None,
    "crash": None,
    "crash, still alive": None,
}


def end(core, call_id, how):
    if how == "lost":
        core.lose(call_id)
    elif how == "lost alive":
        core.lose(call_id, dead=False)
    elif how == "crash":
        core.restart()
    elif how == "crash, still alive":
        core.restart((call_id, 0))
    else:
        seen, status = ENDINGS[how]
        core.exit(call_id, seen, how=status)


@pytest.mark.guarantee("E6")
@pytest.mark.parametrize("how", ENDINGS)
@pytest.mark.parametrize("contract", list(Contract))
def test_however_an_attempt_ends_leave_without_confirmation_is_unknown(how, contract):
    core = Core()
    call_id = core.begin(terms(effect(contract=contract), effect("mail")))
    core.announce(call_id)
    core.announce(call_id, "mail")
    core.confirm(call_id, 1)
    end(core, call_id, how)
    assert outcome(core, call_id, 0) == "unknown"
    assert outcome(core, call_id, 1) == "applied"
    assert core.state.leaves == 0


@pytest.mark.guarantee("E1", "E6")
@pytest.mark.parametrize("how", ENDINGS)
def test_an_attempt_without_any_leave_has_applied_nothing(how):
    core = Core()
    call_id = core.begin(ONE)
    end(core, call_id, how)
    assert not core.operation(call_id).effects
    assert core.stands(call_id).value != "unknown"


# how: (outcome, settled by) of a whole-call effect with not_applied_exits = [3]
WHOLE_CALL = {
    (Outcome.SUCCEEDED, Exit(code=0)): ("applied", Settler.HANDLER),
    (Outcome.FAILED, Exit(code=3)): ("not_applied", Settler.HANDLER),
    (Outcome.FAILED, Exit(code=1)): ("unknown", None),
    (Outcome.FAILED, Exit(signal=9)): ("unknown", None),
    (Outcome.TIMED_OUT, Exit(code=0)): ("applied", Settler.HANDLER),
    (Outcome.TIMED_OUT, Exit(signal=15)): ("unknown", None),
    (Outcome.CANCELLED, Exit(code=0)): ("applied", Settler.HANDLER),
    (Outcome.CANCELLED, Exit(signal=15)): ("unknown", None),
    (Outcome.NOT_STARTED, None): ("not_applied", Settler.SUPERVISOR),
}


@pytest.mark.guarantee("E6", "E15")
@pytest.mark.parametrize(("ending", "expected"), WHOLE_CALL.items(), ids=str)
def test_a_whole_call_effect_is_judged_by_how_its_handler_ended(ending, expected):
    core = Core()
    call_id = core.begin(WHOLE)
    seen, how = ending
    core.exit(call_id, seen, how=how, value=Result("printed"))
    known = core.effect(call_id)
    assert (known.outcome.value, known.settled_by) == expected
    if expected[0] == "applied":
        assert known.result == Result("printed")


@pytest.mark.guarantee("E15")
@pytest.mark.parametrize("how", ["crash", "lost"])
def test_a_whole_call_effect_without_a_durable_start_never_ran(how):
    core = Core()
    call_id = core.submit(WHOLE)
    base = (NOON, core.operation(call_id).operation_id, call_id, 0)
    core.put(AttemptReserved(*base, 10_000, Relaunch.FIRST, "d"))
    # No frame of this version announces before the start; the fold decides it all the same.
    announced = EffectAnnounced(*base, 0, "eff_1", WHOLE.effects[0], None, "", "d", 0)
    with pytest.raises(IllegalTransition, match="reserved"):
        core.put(announced)
    end(core, call_id, how)
    assert core.stands(call_id).value == "interrupted"
    assert not core.operation(call_id).effects
    assert core.operation(call_id).budget.reserved_ms == 10_000


@pytest.mark.guarantee("E14")
@pytest.mark.parametrize("seen", [Outcome.SUCCEEDED, Outcome.TIMED_OUT])
def test_exit_0_is_late_when_the_deadline_was_seen_first(seen):
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.confirm(call_id)
    core.exit(call_id, seen, status=0, value=Result("done"))
    assert core.attempt(call_id).outcome is seen
    assert core.attempt(call_id).late is (seen is Outcome.TIMED_OUT)


@pytest.mark.guarantee("E17")
@pytest.mark.parametrize("how", ENDINGS)
def test_an_unknown_effect_without_a_contract_makes_nothing_unknown(how):
    core = Core()
    call_id = core.begin(FREE)
    core.announce(call_id)
    end(core, call_id, how)
    assert outcome(core, call_id) == "unknown"
    assert core.stands(call_id).value != "unknown"
    assert core.call_stands(call_id).value != "unknown"


# --- reconcilers ------------------------------------------------------------------------------


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
def test_a_reconcilers_answer_settles_and_not_knowing_is_evidence_only(
    applied, stands, settled_by
):
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
def test_applied_may_be_stated_any_time_and_not_applied_only_of_the_dead(
    moment, applied, refusal
):
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
