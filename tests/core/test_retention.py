"""What goes, in which order, what holds it, and what is left of it."""

from __future__ import annotations

import pytest

from supervisor.core.decide.retention import DAY_NS, MOST
from supervisor.core.errors import Refusal
from supervisor.core.ids import SessionId
from supervisor.core.record import By, JournalRepaired
from supervisor.core.standing import OperationState
from supervisor.core.state import State
from supervisor.core.step import ReconcilerAnswered, SessionAsked, TimePassed, Withheld
from tests.core.made import ASK, CLIENT, MS, NEVER, NONE, Core, code, effect, kinds, terms
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


@pytest.mark.guarantee("R10", "R11")
def test_tombstones_go_in_their_order_though_the_clock_was_set_back_between_them():
    core = Core()
    for request_id in ("r1", "r2"):
        finished(core, request_id)
        assert kinds(passed(core, kept=0)) == ["OperationEvicted"]
        core.wall -= DAY_NS
    core.wall += 401 * DAY_NS
    assert passed(core).repeated, "the second is old enough, and the first one is not"
    core.wall += DAY_NS
    assert kinds(passed(core)) == ["TombstoneExpired"] * 2


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
    assert not [*core.state.tombstones]
    for name in ("operations", "messages", "calls", "effects", "unfinished"):
        assert getattr(core.state, name) == getattr(empty, name)


def session(core: Core, request_id: str = "s1") -> SessionId:
    asked = SessionAsked(core.now, SessionId(core.name("ses")), request_id, CLIENT)
    made = core.do(asked).session_id
    assert made is not None
    return made


def settled(core: Core) -> list[str]:
    """Housekeeping until nothing is left to do; every kind of record that it wrote."""
    seen: list[str] = []
    while True:
        decision = passed(core)
        if decision.repeated:
            return sorted(set(seen))
        seen += kinds(decision)


@pytest.mark.guarantee("R10")
def test_a_session_ends_days_after_its_last_message_and_is_then_not_found():
    core = Core()
    one = session(core)
    finished(core, "r1", session_id=one)
    core.wait(100 * DAY_MS)
    assert settled(core) == ["OperationEvicted"]
    core.wait(100 * DAY_MS)
    finished(core, "r2", session_id=one)
    again = [core.submitted(terms(effect(contract=NONE)), r, session_id=one) for r in ("r1", "r2")]
    core.wait(300 * DAY_MS)
    # The first tombstone is as old as one may get, and stays: its session does.
    assert settled(core) == ["OperationEvicted", "TombstoneRenewed"]
    core.wait(100 * DAY_MS - 1)
    assert settled(core) == []
    assert [code(core.do(one)) for one in again] == ["OperationExpired"] * 2
    core.wait(1)
    assert settled(core) == ["SessionEnded"]
    assert len(core.state.tombstones) == 2
    assert [code(core.do(one)) for one in again] == ["NotFound"] * 2
    assert session(core) != one
    core.wait(400 * DAY_MS)
    assert settled(core) == ["SessionEnded", "TombstoneExpired"]
    empty = State()
    for name in ("sessions", "operations", "messages", "tombstones", "unfinished"):
        assert [*getattr(core.state, name)] == [*getattr(empty, name)]
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("R10")
def test_a_session_stays_while_anything_of_it_is_kept():
    core = Core()
    used, empty = session(core, "s1"), session(core, "s2")
    held = core.begin(terms(effect(contract=NEVER)), "r1", session_id=used)
    core.announce(held)
    core.exit(held)
    core.wait(500 * DAY_MS)
    assert settled(core) == ["SessionEnded"]
    assert {*core.state.sessions} == {used}
    core.resolve(held, applied=True)
    core.cancel(held)
    core.wait(30 * DAY_MS)
    # All evicted, and the last message is long ago.
    assert settled(core) == ["OperationEvicted", "SessionEnded"]
    assert empty not in core.state.sessions
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("R10")
def test_many_sessions_end_a_bounded_number_at_a_time():
    core = Core()
    for n in range(MOST + 1):
        session(core, f"s{n}")
    core.wait(400 * DAY_MS)
    assert [len(passed(core).records) for _ in range(3)] == [MOST, 1, 0]


@pytest.mark.guarantee("R10")
def test_with_a_session_goes_what_a_repair_remembered_of_its_messages():
    core = Core()
    one = session(core)
    lost = ((one, "r1"), (SessionId("uid:1000"), "r1"))
    core.put(JournalRepaired(core.wall, 9, 9, By(0, 1), "the disk died", lost))
    message = core.submitted(terms(effect()), "r1", session_id=one)
    assert code(core.do(message)) == "EffectOutcomeUnknown"
    core.wait(400 * DAY_MS)
    settled(core)
    assert code(core.do(message)) == "NotFound"
    assert {*core.state.forgotten} == {lost[1]}
    is_the_fold_everywhere(core.frames)


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
