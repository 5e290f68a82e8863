"""Histories that lost their newest records: what is not known any more is not run again."""

from __future__ import annotations

import random

import pytest

from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.decide import decide
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import fold
from supervisor.core.lineage import unresolved
from supervisor.core.moment import Moment
from supervisor.core.projection import project
from supervisor.core.record import (
    Answer,
    By,
    CallAccepted,
    EffectAnnounced,
    JournalRepaired,
    OperationAccepted,
)
from supervisor.core.standing import TERMINAL, OperationState, call_state, operation_state
from supervisor.core.state import Said, State
from supervisor.core.step import CancelAsked, ResolveAsked, Restarted, ResumeAsked, Submitted
from supervisor.journal.records import decode
from tests.core.agent import READ, WRITE, Agent
from tests.core.made import CLIENT, Core, code, effect, terms, unchanged
from tests.core.test_machine import history

BY = By(uid=0, pid=1)


def read(payloads: list[bytes], upto: int) -> State:
    state = State()
    for position, payload in enumerate(payloads[:upto], 1):
        state = fold(state, position, decode(payload))
    return state


def repaired(state: State, payloads: list[bytes], upto: int) -> State:
    """Everything behind `upto` was given up; then a new epoch, with nothing left alive."""
    lost = [record for payload in payloads[upto:] for record in decode(payload)]
    requests = tuple(
        (one.session_id, one.request_id) for one in lost if isinstance(one, OperationAccepted)
    )
    act = JournalRepaired(state.latest, upto + 1, len(payloads), BY, "test", requests)
    state = fold(state, len(payloads) + 1000, [act])
    now = Moment(state.latest + 1, 0, "another boot")
    begun = decide(state, Restarted(now, state.epoch + 1, "1", frozenset(), frozenset()))
    return fold(state, len(payloads) + 1001, begun.records)


@pytest.mark.guarantee("J6", "E1", "E6", "R1")
@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_may_have_gone_on_in_lost_records_is_started_again(seed):
    payloads = history(seed).host.payloads
    rng = random.Random(seed)
    touched = 0
    for upto in rng.sample(range(1, len(payloads)), 6):
        before = read(payloads, upto)
        after = repaired(before, payloads, upto)
        now = Moment(after.latest + 2, 1, "another boot")
        for one in after.operations.values():
            if before.operations[one.operation_id].finished:
                assert one == before.operations[one.operation_id]
                continue
            touched += 1
            assert operation_state(one) is OperationState.UNKNOWN
            assert {call_state(one, call).value for call in one.ordered_calls()} == {"unknown"}
            assert Said.NOT_APPLIED not in {effect.outcome for effect in one.effects.values()}
            digests = {call.terms.handler: call.terms.digest for call in one.ordered_calls()}
            actions = project(one, now, margin_ms=0, digests=digests).actions
            assert "resume" not in {action.action for action in actions}
            asked = ResumeAsked(
                now=now,
                operation_id=one.operation_id,
                resume_request_id="again",
                revision=one.revision,
                digest=checkpoint_digest(one),
                by=CLIENT,
                margin_ms=0,
                new_call_id="call_new",
            )
            decision = decide(after, asked)
            assert decision.refusal is not None
            assert not decision.directives
            assert decision.refusal.code == "EffectOutcomeUnknown"
        whole_known(after, payloads, upto)
    assert touched >= 5


@pytest.mark.guarantee("J6", "R11")
@pytest.mark.parametrize("seed", range(4))
def test_who_settles_what_is_known_and_cancels_closes_an_operation_for_good(seed):
    payloads = history(seed).host.payloads
    upto = len(payloads) // 2
    state = repaired(read(payloads, upto), payloads, upto)
    position = state.position
    closed = 0
    for one in [one for one in state.operations.values() if one.lost]:
        asked = [
            ResolveAsked(moment(state), effect.effect_id, BY, True, "looked", effect.revision)
            for effect in one.ordered_effects()
            if unresolved(effect)
        ]
        asked.insert(len(asked) // 2, CancelAsked(moment(state), one.operation_id, BY, "looked"))
        for event in asked:
            known = state.operations[one.operation_id]
            assert operation_state(known) is OperationState.UNKNOWN
            decision = decide(state, event)
            assert decision.refusal is None, decision.refusal
            position += 1
            state = fold(state, position, decision.records)
        known = state.operations[one.operation_id]
        assert operation_state(known) is OperationState.CANCELLED
        assert known.finished
        assert (one.operation_id in state.finished) is not bool(known.tally.alive)
        closed += 1
    assert closed
    assert not any(o.lost for o in state.operations.values() if not o.finished)


@pytest.mark.guarantee("J6")
def test_who_cancelled_before_the_repair_did_not_know_and_has_to_say_it_again():
    core = Core()
    call_id = core.begin(terms(effect()))
    core.announce(call_id)
    core.cancel(call_id)
    assert core.operation(call_id).cancel_requested
    core.exit(call_id)
    upto = len(core.frames) - 1
    core.state = repaired(read(core.frames, upto), core.frames, upto)
    core.position = core.state.position
    core.resolve(call_id, applied=False, evidence="not there")
    assert core.stands(call_id) is OperationState.UNKNOWN
    core.cancel(call_id)
    assert core.stands(call_id) is OperationState.CANCELLED


def moment(state: State) -> Moment:
    return Moment(state.latest + 1, 1, "another boot")


def whole_known(after: State, payloads: list[bytes], upto: int) -> None:
    """Every effect that was announced in what is lost belongs to what is unknown or forgotten."""
    accepted = {}
    for payload in payloads[upto:]:
        for record in decode(payload):
            if isinstance(record, OperationAccepted):
                accepted[record.operation_id] = (record.session_id, record.request_id)
            if isinstance(record, EffectAnnounced | CallAccepted):
                known = after.operations.get(record.operation_id)
                if known is None:
                    assert accepted[record.operation_id] in after.forgotten
                else:
                    assert operation_state(known) not in TERMINAL


@pytest.mark.guarantee("J6", "R4")
def test_a_request_that_is_known_to_be_lost_is_refused_and_not_taken_for_a_new_one():
    payloads = history(1).host.payloads
    accepted = [
        (number, record)
        for number, payload in enumerate(payloads)
        for record in decode(payload)
        if isinstance(record, OperationAccepted)
    ]
    number, lost = accepted[-1]
    call = next(r for r in decode(payloads[number]) if isinstance(r, CallAccepted))
    after = repaired(read(payloads, number), payloads, number)
    asked = Submitted(
        now=Moment(after.latest + 2, 1, "another boot"),
        operation_id="op_new",
        call_id="call_new",
        session_id=lost.session_id,
        request_id=lost.request_id,
        request_digest=lost.request_digest,
        terms=call.terms,
        input=call.input,
        timeout_ms=call.timeout_ms,
        max_run_ms=lost.max_run_ms,
        by=lost.by,
        labels={},
        operations_max=1000,
    )
    decision = decide(after, asked)
    assert decision.refusal is not None
    assert decision.refusal.code == "EffectOutcomeUnknown"
    assert lost.request_id in decision.refusal.detail


@pytest.mark.guarantee("J6", "A3")
def test_an_open_operation_that_may_have_lost_calls_looks_and_writes_nothing():
    """The very write that is asked for may stand in what is lost; to look is harmless."""
    agent = Agent()
    agent.completed(WRITE, 1)
    first = agent.position + 1
    agent.position += 1000
    agent.put(JournalRepaired(agent.wall, first, first + 5, BY, "test"))
    agent.restart()
    agent.go_on()
    for value in (1, 2):
        decision = agent.ask(WRITE, value)
        assert code(decision) == "EffectOutcomeUnknown"
        assert f"positions {first}..{first + 5} are lost" in decision.refusal.detail
        assert unchanged(decision)
    assert agent.called(READ).answer is Answer.FRESH


def test_a_repair_that_gave_up_nothing_is_none():
    with pytest.raises(IllegalTransition):
        fold(State(), 1, [JournalRepaired(1, 5, 4, BY, "x")])
