"""A crash between any two frames of a program or an open operation, and between a frame and what
follows it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from supervisor.core.evolve import fold
from supervisor.core.record import Answer
from supervisor.core.standing import OperationState
from supervisor.core.state import State
from supervisor.journal.records import decode
from tests.core.cuts import FAILURES, HANDLERS, comes_to_the_same, survives
from tests.core.disk import JournalDisk
from tests.core.driven import DrivenProgram
from tests.core.led import LedAgent
from tests.core.programs import APPROVE, GIVE, call, parallel

BOTH: dict[str, Any] = {"id": "out", "give": {"all": {"$": "both"}, "who": {"$": "ok.choice"}}}
EACH = {name: [call(name, name), {"id": "out", "give": {"$": name}}] for name in HANDLERS}
EXAMPLES: dict[str, list[Any]] = {
    **EACH,
    "bind": [{"id": "due", "bind": "input"}, call("a", "key", {"$": "due"}), GIVE],
    "stop": [call("a", "never"), {"id": "no", "stop": {"reason": {"$": "a"}}}],
    "approve": [APPROVE, call("a", "key"), {**APPROVE, "id": "again"}, GIVE],
    "nothing to do": [GIVE],
}


def whole(how: str) -> list[Any]:
    """Every kind of node, and branches of which each is another's sibling."""
    branches = {
        "a": [call("x", "key"), call("y", "never")],
        "b": [{"id": "w", "bind": "first"}, call("x", "ask")],
        "c": [call("x", "two")],
    }
    return [call("first", "whole"), parallel(how, **branches), APPROVE, call("last", "key"), BOTH]


PLACES = ["first", "both.a.x", "both.a.y", "both.b.x", "both.c.x", "last"]
# Each place, and each way to fail, under each policy; the rest is for a long run.
SOME = [(place, FAILURES[n % 4], n % 2 == 0) for n, place in enumerate(PLACES)]


GUARANTEES = pytest.mark.guarantee("B3", "E1", "P3", "P4", "P5", "P6", "R1", "R4", "R11")


@GUARANTEES
@pytest.mark.parametrize("name", EXAMPLES)
def test_each_kind_of_node_is_cut_off_at_every_moment(name: str) -> None:
    driven = survives(DrivenProgram(EXAMPLES[name], {}))
    assert driven.result()[0] in {OperationState.SUCCEEDED, OperationState.STOPPED}


@GUARANTEES
@pytest.mark.parametrize(("place", "how", "fast"), SOME)
def test_a_failure_in_each_place_is_cut_off_at_every_moment(
    place: str, how: str, fast: bool
) -> None:
    driven = survives(DrivenProgram(whole("fail_fast" if fast else "collect"), {place: how}))
    assert driven.result()[0] is OperationState.SUCCEEDED
    assert place in driven.world.failed


@pytest.mark.long
@pytest.mark.timeout(7200)
@GUARANTEES
def test_any_two_failures_are_cut_off_at_every_moment() -> None:
    for policy in ("fail_fast", "collect"):
        for one in PLACES:
            for other in PLACES:
                for how in FAILURES:
                    for then in FAILURES:
                        survives(DrivenProgram(whole(policy), {one: how, other: then}))


WANTS = list(HANDLERS)
LIMITS = {"once": [3], "again and again": [2, 5, 4]}
FAILING = [("key", "before"), ("never", "after"), ("ask", "late"), ("two", "denied")]
AGENTS = pytest.mark.guarantee("A3", "A4", "A6", "A7", "A8", "A9", "B3", "E1", "R1", "R11")


@AGENTS
@pytest.mark.parametrize("limits", LIMITS)
def test_an_agent_is_cut_off_at_every_moment(limits: str) -> None:
    driven = survives(LedAgent(WANTS, LIMITS[limits], {}))
    triggers = [one.trigger.value for one in driven.known.continuations]
    assert triggers == ["message", *["auto"] * len(LIMITS[limits])]
    assert driven.result()[0] is OperationState.SUCCEEDED
    if limits == "again and again":
        answers = {one.answer for one in driven.known.requests.values()}
        assert answers == {Answer.FRESH, Answer.JOINED, Answer.REPLAYED}


@AGENTS
@pytest.mark.parametrize(("place", "how"), FAILING)
def test_an_agent_whose_call_fails_is_cut_off_at_every_moment(place: str, how: str) -> None:
    driven = survives(LedAgent(WANTS, [4], {place: how}))
    assert driven.result()[0] is OperationState.SUCCEEDED
    assert place in driven.world.failed


@pytest.mark.long
@pytest.mark.timeout(7200)
@AGENTS
def test_an_agent_whose_calls_fail_in_any_two_ways_is() -> None:
    for limits in ([], *LIMITS.values()):
        for one in WANTS:
            for other in WANTS:
                for how in FAILURES:
                    for then in FAILURES:
                        survives(LedAgent(WANTS, limits, {one: how, other: then}))


@pytest.mark.guarantee("J1", "J2", "P4")
def test_each_frame_is_torn_while_the_journal_writes_it() -> None:
    """What the journal's own recovery leaves is the frames before it, or that one as well."""
    driven = DrivenProgram(whole("fail_fast"), {"both.b.x": "after"}).to_the_end()
    torn = 0
    # Whatever was made at a moment was made before the next frame.
    last = {moment.frames: moment for moment in driven.moments or ()}
    for moment in last.values():
        rng = random.Random(moment.frames)
        disk = JournalDisk()
        disk.commit(driven.frames[: moment.frames])
        kept = disk.crash(rng, driven.frames[moment.frames : moment.frames + 1])
        assert kept == driven.frames[: len(kept)]
        assert len(kept) >= moment.frames
        torn += len(kept) == moment.frames
        comes_to_the_same(driven.cut(moment, len(kept)), driven, f"torn at {moment.frames}")
    assert 0 < torn < len(last)


def test_the_state_at_every_moment_is_the_fold_of_its_frames() -> None:
    driven = DrivenProgram(whole("collect"), {"both.c.x": "after"}).to_the_end()
    state = State()
    for position, payload in enumerate(driven.frames, 1):
        state = fold(state, position, decode(payload))
        assert state == driven.states[position]
