"""Every input in every state of every kind of operation: something that can be seen follows, or a
refusal says why not; never nothing, and nothing flips."""

from __future__ import annotations

import pytest

from supervisor.core.decide import _DECIDERS, decide
from supervisor.core.errors import CODES
from supervisor.core.evolve import fold
from supervisor.core.ids import SessionId
from supervisor.core.record import OperationEvicted, SessionCreated, SessionEnded
from supervisor.core.standing import TERMINAL, operation_state
from supervisor.core.state import UNSETTLED, Operation, State
from supervisor.core.step import Decision
from supervisor.core.whole import lines, state_from
from tests.core.everywhere import NAMES, there, words
from tests.core.made import CLIENT, Core, effect, terms
from tests.core.verb_table import TABLE
from tests.core.verbs import VERBS, answered


def expected(verb: str, name: str) -> str:
    said = {word: answer for answer, places in TABLE[verb].items() for word in places}
    return next(said[word] for word in words(name) if word in said)


@pytest.mark.guarantee("E9", "R4", "R11")
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_does_what_its_table_says_wherever_an_operation_stands(verb: str) -> None:
    kind, bring = VERBS[verb]
    for name in NAMES:
        core, operation = there(name)
        event = bring(core, operation)
        if event is None:  # there is no call, or no effect, to speak of
            continue
        assert type(event) is kind
        decision = decide(core.state, event)
        assert answered(decision) == expected(verb, name), name
        assert decision.refusal is None or decision.refusal.code in CODES
        _nothing_flips(core.state, decision, operation)


def _nothing_flips(state: State, decision: Decision, before: Operation) -> None:
    """Neither a finished operation nor a settled effect is anything else afterwards."""
    if not decision.records:
        return
    after = fold(state, state.position + 1, decision.records)
    known = after.operations.get(before.operation_id)
    assert known is not None
    if operation_state(before) in TERMINAL:
        assert operation_state(known) is operation_state(before)
    for one in before.effects.values():
        if one.outcome not in UNSETTLED:
            assert known.effects[one.effect_id].outcome is one.outcome
    assert state_from(lines(after)) == after


def test_every_input_is_a_verb_and_every_place_of_the_table_is_there() -> None:
    assert {kind for kind, _ in VERBS.values()} == set(_DECIDERS)
    assert set(TABLE) == set(VERBS)
    known = {word for name in NAMES for word in words(name)}
    for verb, answers in TABLE.items():
        places = [place for found in answers.values() for place in found]
        assert len(places) == len(set(places)), f"{verb}: one place, two answers"
        assert set(places) <= known, verb


def test_every_state_of_every_kind_is_visited() -> None:
    seen = {words(name)[3] for name in NAMES}
    assert seen == {
        *(f"dispatch {one}" for one in ("accepted", "running", "unknown", "interrupted")),
        *(f"dispatch {one}" for one in ("cancelled", "succeeded", "failed")),
        *(f"program {one}" for one in ("accepted", "running", "unknown", "interrupted", "waiting")),
        *(f"program {one}" for one in ("cancelled", "stopped", "succeeded", "failed")),
        *(f"open {one}" for one in ("running", "unknown", "interrupted")),
        *(f"open {one}" for one in ("cancelled", "succeeded")),
    }


# Who speaks of what is gone: its message is remembered, and nothing else is.
GONE = {
    "its message again": "OperationExpired",
    "its message with another body": "RequestConflict",
    "an open message of its id": "RequestConflict",
    "a program of its id": "RequestConflict",
    "a session": "SessionCreated",
    "time passes for approvals": "again",
    "time passes": "again",
    "restarted": "DaemonStarted",
}


@pytest.mark.guarantee("R10")
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_about_an_evicted_operation_is_told_that_it_is_gone(verb: str) -> None:
    core, operation = evicted("uid:1000")
    event = VERBS[verb][1](core, operation)
    assert event is not None
    assert answered(decide(core.state, event)) == GONE.get(verb, "NotFound")


@pytest.mark.guarantee("R10")
def test_a_message_to_a_session_is_refused_when_it_has_ended_and_by_what_it_was_before() -> None:
    core, operation = evicted("ses_1")
    messages = [one for one, answer in GONE.items() if answer not in {"again", "DaemonStarted"}]
    messages.remove("a session")
    for verb in messages:
        event = VERBS[verb][1](core, operation)
        assert event is not None
        assert answered(decide(core.state, event)) == GONE[verb]
    core.put(SessionEnded(core.wall, operation.session_id))
    for verb in messages:
        event = VERBS[verb][1](core, operation)
        assert event is not None
        assert answered(decide(core.state, event)) == "NotFound"


def evicted(session_id: str) -> tuple[Core, Operation]:
    core = Core()
    core.put(SessionCreated(core.wall, SessionId("ses_1"), "s0", CLIENT))
    call_id = core.begin(terms(effect()), session_id=session_id)
    core.announce(call_id)
    core.confirm(call_id)
    core.exit(call_id)
    operation = core.operation(call_id)
    core.put(OperationEvicted(core.wall, operation.operation_id))
    return core, operation
