"""Effects: leave, correlation, confirmations, ends and settlements."""

from __future__ import annotations

import attrs
import pytest

from supervisor.core.record import (
    EffectConfirmed,
    Outcome,
    Result,
    Settler,
)
from supervisor.core.step import AnswerApplied, GiveLeave, RefuseAnnouncement, SayRecorded
from tests.core.made import (
    ASK,
    KEY,
    NEVER,
    NONE,
    NOON,
    Core,
    code,
    directives,
    effect,
    kinds,
    terms,
    unchanged,
)
from tests.core.situations import KEYED, ONE, TWO, WHOLE


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
def test_an_answer_for_a_key_speaks_of_no_later_try():
    core = Core()
    call_id = core.begin(KEYED)
    core.announce(call_id)
    core.lose(call_id)
    launched = core.relaunch(call_id)
    core.announce(launched)
    base = (NOON, core.operation(call_id).operation_id, call_id, 0, 0)
    effect_id = core.effect(call_id).effect_id
    core.put(EffectConfirmed(*base, effect_id, False, Settler.HANDLER))
    assert [one.outcome.value for one in core.effect(call_id).tries] == ["not_applied", "announced"]


@pytest.mark.guarantee("E7")
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
