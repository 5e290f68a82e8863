"""What goes, in which order, what holds it, and what is left of it."""

from __future__ import annotations

import pytest

from supervisor.core.decide.retention import DAY_NS, MOST
from supervisor.core.errors import Refusal
from supervisor.core.standing import OperationState
from supervisor.core.state import State
from supervisor.core.step import ReconcilerAnswered, TimePassed, Withheld
from tests.core.made import ASK, MS, NEVER, NONE, Core, code, effect, kinds, terms
from tests.core.test_whole import is_the_fold_everywhere

DAY_MS = DAY_NS // MS


def finished(core: Core, request_id: str, **members):
    call = core.begin(terms(effect(contract=NONE)), request_id, **members)
    core.exit(call)
    return call


def passed(core: Core, *, kept: int = 1_000):
    return core.do(TimePassed(core.now, kept, 30, 400, 30))


@pytest.mark.guarantee("R10")
def test_at_operations_kept_the_oldest_finished_one_goes_and_its_message_never_runs_again():
    core = Core()
    running = core.begin(terms(effect()), "r0")
    first, second = finished(core, "r1"), finished(core, "r2")
    again = core.submitted(terms(effect(contract=NONE)), "r1")
    assert kinds(core.do(core.submitted(terms(), "r3", operations_kept=3))) == [
        "OperationEvicted",
        "OperationAccepted",
        "CallAccepted",
    ]
    assert first not in core.state.calls
    assert {running, second} <= {*core.state.calls}
    assert code(core.do(again)) == "OperationExpired"
    other = core.submitted(terms(effect()), "r1", input={"amount": 4})
    assert code(core.do(other)) == "RequestConflict"
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("R10")
def test_it_refuses_only_when_nothing_may_go():
    core = Core()
    unknown = core.begin(terms(effect(contract=NEVER)), "r1")
    core.announce(unknown)
    core.exit(unknown)
    decision = core.do(core.submitted(terms(), "r2", operations_kept=1))
    assert code(decision) == "LimitExceeded"
    assert not decision.records
    core.resolve(unknown, applied=False)
    core.cancel(unknown)
    assert core.do(core.submitted(terms(), "r2", operations_kept=1)).refusal is None


@pytest.mark.guarantee("R10", "E17")
def test_an_unknown_none_holds_nothing_and_a_tree_not_proven_dead_does():
    core = Core()
    call = core.begin(terms(effect(contract=NONE)), "r1")
    core.announce(call)
    core.restart((call, 0))
    core.cancel(call)
    assert core.stands(call) is OperationState.CANCELLED
    assert core.state.finished.oldest is None
    core.prove_dead(call)
    assert core.state.finished.oldest == core.operation(call).operation_id


@pytest.mark.guarantee("R10")
def test_a_reconciler_that_asks_for_a_lost_result_holds_it_and_it_is_the_newest_afterwards():
    core = Core()
    call = core.begin(terms(effect(contract=ASK)), "r1")
    core.announce(call)
    core.confirm(call, result=None)
    core.exit(call)
    later = finished(core, "r2")
    core.reconcile(call)
    assert [*core.state.finished] == [core.operation(later).operation_id]
    core.answer(call, applied=None)
    assert [*core.state.finished] == [core.operation(one).operation_id for one in (later, call)]


@pytest.mark.guarantee("R10")
def test_days_evict_and_days_later_the_tombstone_goes_too():
    core = Core()
    for n in range(MOST + 1):
        finished(core, f"r{n}")
    core.wait(30 * DAY_MS - 1)
    assert passed(core).repeated
    core.wait(1)
    assert len(passed(core).records) == MOST
    assert kinds(passed(core)) == ["OperationEvicted"]
    assert passed(core).repeated
    assert not core.state.operations
    assert len(core.state.tombstones) == MOST + 1
    core.wait(400 * DAY_MS)
    assert set(kinds(passed(core))) == {"TombstoneExpired"}
    passed(core)
    assert passed(core).repeated
    empty = State()
    for name in ("operations", "messages", "calls", "effects", "tombstones", "unfinished"):
        assert getattr(core.state, name) == getattr(empty, name)


@pytest.mark.guarantee("R11")
def test_an_interrupted_one_that_nobody_asks_for_becomes_cancelled():
    core = Core()
    call = core.begin(terms(effect(contract=NONE)), "r1")
    held = core.begin(terms(effect(contract=NEVER)), "r2")
    core.announce(held)
    core.restart()
    core.wait(30 * DAY_MS - 1)
    assert passed(core).repeated
    core.extend(call, 700_000)
    core.wait(1)
    assert passed(core).repeated
    core.wait(30 * DAY_MS)
    assert kinds(passed(core)) == ["OperationAbandoned"]
    assert core.stands(call) is OperationState.CANCELLED
    assert core.operation(call).cancel_reason == "nobody asked for it in 30 days"
    assert passed(core).repeated
    assert core.stands(held) is OperationState.UNKNOWN
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("R10")
def test_whoever_was_busy_with_what_is_evicted_meanwhile_is_told_that_it_is_gone():
    core = Core()
    call = finished(core, "r0")
    core.wait(31 * DAY_MS)
    passed(core)
    assert call not in core.state.calls
    before = core.state
    late = Withheld(core.now, call, Refusal("UnknownHandler", "it is not loaded"))
    for event in (late, ReconcilerAnswered(core.now, "eff_gone", None)):
        assert code(core.do(event)) == "NotFound"
    assert core.state == before
