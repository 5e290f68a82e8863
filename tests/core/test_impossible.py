"""What a journal of this version never says: each is named when it is met, and changes nothing."""

from __future__ import annotations

import attrs
import pytest

from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import evolve
from supervisor.core.ids import OperationId, SessionId, default_session
from supervisor.core.line import Line
from supervisor.core.lineage import previous_alive
from supervisor.core.note import note
from supervisor.core.record import (
    Answer,
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalRequested,
    CallAccepted,
    ContinuationEnded,
    ContinuationOpened,
    Ended,
    Ending,
    Identity,
    Kind,
    NodeBound,
    OperationAbandoned,
    OperationAccepted,
    OperationEvicted,
    ProgramAccepted,
    ProgramEnded,
    ReconcilerStarted,
    Record,
    Relaunch,
    RepeatAnswered,
    SessionCreated,
    SessionEnded,
    TombstoneExpired,
    TombstoneRenewed,
    Trigger,
)
from supervisor.core.standing import OperationState
from supervisor.core.state import Attempt, Phase
from supervisor.core.step import ProvenDead, ReconcilerAnswered, SessionAsked
from tests.core.agent import WRITE, Agent
from tests.core.made import ASK, CLIENT, NEVER, Core, code, effect, kinds, terms
from tests.core.programs import APPROVE, CHARGE, GIVE, Programs, call


def refused(core: Core, record: Record, says: str) -> None:
    with pytest.raises(IllegalTransition, match=says):
        evolve(core.state, record)


def test_a_record_without_a_fold_is_named():
    @attrs.frozen
    class Invented(Record):
        pass

    refused(Core(), Invented(1), "no fold for")


def test_what_does_not_wait_for_it_is_not_evicted_abandoned_or_forgotten():
    core = Core()
    call = core.begin(terms(effect()))
    operation_id = core.operation(call).operation_id
    refused(core, OperationEvicted(1, operation_id), "does not wait for that")
    refused(core, OperationAbandoned(1, operation_id, 30), "does not wait for that")
    refused(core, TombstoneExpired(1, operation_id), "not the oldest tombstone")
    refused(core, TombstoneExpired(1, OperationId("op_none")), "not the oldest tombstone")
    refused(core, TombstoneRenewed(1, OperationId("op_none")), "not the oldest tombstone")


def test_a_session_ends_when_nothing_of_it_is_kept_and_holds_its_tombstones_until_then():
    core = Core()
    one = SessionId("ses_1")
    core.do(SessionAsked(core.now, one, "s1", CLIENT))
    call = core.begin(terms(effect()), "r1", session_id=one)
    operation_id = core.operation(call).operation_id
    refused(core, SessionEnded(1, one), "is not there, or has operations")
    refused(core, SessionEnded(1, SessionId("ses_none")), "is not there, or has operations")
    core.exit(call)
    core.put(OperationEvicted(1, operation_id))
    refused(core, TombstoneExpired(1, operation_id), "its session has not ended")
    core.put(SessionEnded(1, one))
    refused(core, TombstoneRenewed(1, operation_id), "no session holds it")


def asked_about_the_living(core: Core) -> tuple[str, ReconcilerStarted]:
    """A reconciler beside a try that is not proven dead: `decide` never lets that be."""
    call = core.begin(terms(effect(contract=ASK)))
    core.announce(call)
    core.lose(call, dead=False)
    known = core.effect(call)
    operation_id = core.operation(call).operation_id
    started = ReconcilerStarted(
        core.wall, operation_id, known.effect_id, known.revision, CLIENT, Identity(7, 7, "boot-1")
    )
    core.put(started)
    return call, started


def test_one_reconciler_at_a_time():
    core = Core()
    _, started = asked_about_the_living(core)
    refused(core, started, "one runs already")


@pytest.mark.guarantee("E9")
def test_not_applied_settles_nothing_while_a_try_is_not_proven_dead():
    core = Core()
    _, started = asked_about_the_living(core)
    effect_id = started.effect_id
    revision = core.state.effect(effect_id).revision
    state, operation_id = core.state, started.operation_id
    running = attrs.evolve(state.effect(effect_id).reconciling, revision=revision)
    known = attrs.evolve(state.effect(effect_id), reconciling=running)
    operation = state.operations[operation_id]
    operation = attrs.evolve(operation, effects=operation.effects.set(effect_id, known))
    core.state = attrs.evolve(state, operations=state.operations.set(operation_id, operation))
    decision = core.do(ReconcilerAnswered(core.now, effect_id, applied=False))
    (ended,) = decision.records
    assert not ended.settles
    assert "every try is proven dead" in ended.detail


@pytest.mark.guarantee("E10")
def test_death_is_proven_only_of_an_attempt_that_was_and_does_not_run():
    core = Core()
    call = core.begin(terms(effect()))
    assert code(core.do(ProvenDead(core.now, call, 1, "gone"))) == "NotFound"
    assert code(core.do(ProvenDead(core.now, call, -1, "gone"))) == "NotFound"
    decision = core.do(ProvenDead(core.now, call, 0, "gone"))
    assert code(decision) == "PreviousAttemptAlive"
    assert "operations cancel" in decision.refusal.fix
    core.lose(call)
    assert core.do(ProvenDead(core.now, call, 0, "gone")).repeated


def accepted(core: Core, kind: Kind) -> OperationId:
    """An operation of another kind, with two calls that are no lineage."""
    operation_id = OperationId(core.name("op"))
    session_id = default_session(1000)
    core.put(
        OperationAccepted(
            core.wall, operation_id, kind, session_id, core.name("r"), "d" * 64, CLIENT, 600_000
        ),
        *(
            CallAccepted(
                core.wall,
                operation_id,
                core.name("call"),
                terms(effect(contract=NEVER)),
                {},
                10_000,
                CLIENT,
            )
            for _ in range(2)
        ),
    )
    return operation_id


def test_a_line_has_gaps_and_still_its_order():
    line = Line()
    for name in "abcde":
        line = line.joined(OperationId(name))
    for gone in ("c", "none", "b"):
        line = line.left(OperationId(gone))
    assert [*line] == ["a", "d", "e"]
    assert next(iter(line.left(OperationId("a")))) == "d"
    assert len(line) == 3


def test_another_lineage_in_the_same_operation_stands_in_nobodys_way():
    core = Core()
    operation_id = accepted(core, Kind.PROGRAM)
    operation = core.state.operations[operation_id]
    first, second = operation.ordered_calls()
    lost = attrs.evolve(
        first, attempts=(Attempt(0, 9_000, Relaunch.FIRST, "d", 1, phase=Phase.ENDED),)
    )
    operation = attrs.evolve(operation, calls=operation.calls.set(first.call_id, lost))
    assert previous_alive(operation, lost) is not None
    assert previous_alive(operation, second) is None


def test_a_program_is_accepted_once_and_each_of_its_facts_is_said_once():
    core = Programs()
    core.send(call("charge"), APPROVE, {"id": "sum", "bind": "input"}, GIVE)
    at, terms_ = (core.wall, core.one), core.program.program.terms
    document = core.program.program.document
    dispatch = core.begin(terms(effect()))
    other = (core.wall, core.operation(dispatch).operation_id)
    asked = ApprovalRequested(*at, "ok", ("group:finance",), "Ship it?", ("yes",), core.wall + 9)
    refused(core, ProgramAccepted(*at, document, None, terms_), "was accepted twice")
    refused(core, ProgramAccepted(*other, document, None, terms_), "is no program")
    refused(core, NodeBound(*other, "sum", 1), "is no program, or one that has ended")
    refused(core, ApprovalExpired(*at, "ok"), "does not wait for that")
    refused(core, ApprovalExpired(*other, "ok"), "is no program, or one that has ended")
    core.put(NodeBound(*at, "sum", 1), asked)
    refused(core, NodeBound(*at, "sum", 1), "was bound before")
    refused(core, asked, "one waits already")
    core.put(ApprovalExpired(*at, "ok"))
    refused(core, ApprovalExpired(*at, "ok"), "does not wait for that")
    refused(core, ApprovalAnswered(*at, "ok", "yes", "", CLIENT), "does not wait for that")
    refused(core, asked, "or this one did")
    core.put(ProgramEnded(*at, "out", Ended.GAVE, 1))
    refused(core, ProgramEnded(*at, "out", Ended.GAVE, 1), "one that has ended")


def test_a_node_that_is_none_or_has_called_calls_nothing():
    core = Programs()
    core.send(call("charge"), GIVE)
    known = core.program.calls[core.of("charge")]
    dispatch = core.begin(terms(effect()))
    for operation_id in (core.one, core.operation(dispatch).operation_id):
        record = CallAccepted(
            core.wall,
            operation_id,
            core.name("call"),
            known.terms,
            {},
            10_000,
            CLIENT,
            node="charge",
        )
        refused(core, record, "its node cannot call")


@pytest.mark.guarantee("P6")
def test_what_ends_beside_an_approval_that_waits_does_not_answer_it():
    core = Programs()
    core.send(APPROVE, call("charge"), GIVE)
    charge = core.name("call")
    core.put(
        CallAccepted(core.wall, core.one, charge, CHARGE, {}, 10_000, CLIENT, node="charge"),
    )
    core.ready(charge)
    assert kinds(core.exit(charge)) == ["AttemptEnded"]
    assert core.standing is OperationState.WAITING


def test_a_session_is_created_once():
    core = Core()
    core.do(SessionAsked(core.now, SessionId("ses_1"), "s1", CLIENT))
    refused(core, SessionCreated(1, SessionId("ses_1"), "s2", CLIENT), "created twice")


def test_continuations_follow_one_another_and_a_request_has_one_answer():
    core = Agent()
    at = (core.wall, core.op)
    refused(core, ContinuationOpened(*at, 1, Trigger.MANUAL, CLIENT, 0), "does not follow")
    refused(core, ContinuationEnded(*at, 1, Ending.DONE, CLIENT), "is not open")
    asked = core.asking(WRITE, request_id="t1")
    assert core.do(asked).refusal is None
    again = RepeatAnswered(*at, asked.call_id, 0, "t1", "d" * 64, Answer.JOINED, CLIENT)
    refused(core, again, "is answered already")
    core.put(ContinuationEnded(*at, 0, Ending.DONE, CLIENT))
    refused(core, ContinuationEnded(*at, 0, Ending.DONE, CLIENT), "is not open")
    refused(core, ContinuationOpened(*at, 2, Trigger.MANUAL, CLIENT, 0), "does not follow")


def test_what_is_no_open_operation_has_no_continuation_and_no_note():
    core = Core()
    operation = core.operation(core.begin(terms(effect())))
    at = (core.wall, operation.operation_id)
    refused(core, ContinuationOpened(*at, 0, Trigger.MESSAGE, CLIENT), "does not follow")
    assert note(core.state, operation) == ""
