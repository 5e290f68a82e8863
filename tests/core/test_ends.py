"""What the end of an attempt proves about its effects, however it ends."""

from __future__ import annotations

import pytest

from supervisor.core.contract import Contract
from supervisor.core.errors import IllegalTransition
from supervisor.core.record import (
    AttemptReserved,
    EffectAnnounced,
    Exit,
    Outcome,
    Relaunch,
    Result,
    Settler,
)
from tests.core.made import (
    NOON,
    Core,
    effect,
    terms,
)
from tests.core.situations import FREE, ONE, WHOLE


def outcome(core, call_id, ordinal=0):
    return core.effect(call_id, ordinal).outcome.value


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


@pytest.mark.guarantee("E8", "E15")
@pytest.mark.parametrize("ending", WHOLE_CALL, ids=str)
def test_what_a_whole_call_gave_is_kept_when_an_operator_said_applied_before_its_end(ending):
    """The operator stays who said it, whatever its end proves; the result was still missing."""
    core = Core()
    call_id = core.begin(WHOLE)
    core.resolve(call_id, applied=True)
    seen, how = ending
    core.exit(call_id, seen, how=how, value=Result("printed"))
    known = core.effect(call_id)
    assert (known.outcome.value, known.settled_by) == ("applied", Settler.OPERATOR)
    exit_zero = how is not None and how.code == 0
    assert known.result == Result(*("printed",) if exit_zero else (None, "missing"))


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
