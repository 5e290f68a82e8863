"""A crash between any two frames of a program, and between a frame and what follows it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from supervisor.core.evolve import fold
from supervisor.core.standing import OperationState
from supervisor.core.state import State
from supervisor.journal.records import decode
from tests.core.cuts import FAILURES, HANDLERS, Driven
from tests.core.disk import JournalDisk
from tests.core.test_programs import APPROVE, GIVE, call, parallel

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
SOME += [("both.a.x", "after", True), ("both.b.x", "before", False)]


def survives(nodes: list[Any], fails: dict[str, str]) -> Driven:
    """Cut off at each moment it comes to the same end, and nothing was made twice."""
    driven = Driven(nodes, fails).to_the_end()
    assert set(driven.changes().values()) <= {1}
    for moment in driven.moments or ():
        again = driven.cut(moment, moment.frames)
        comes_to_the_same(again, driven, f"{fails}, cut at {moment.frames}")
    return driven


def comes_to_the_same(again: Driven, driven: Driven, where: str) -> None:
    before = again.attempts()
    again.to_the_end()
    assert again.result == driven.result, where
    assert again.changes() == driven.changes(), where
    after = again.attempts()
    assert {path: after[path] for path in before} == before, f"{where}: a finished node ran again"
    _accounts_for_every_attempt(again)


def _accounts_for_every_attempt(core: Driven) -> None:
    attempts = [a for c in core.program.ordered_calls() for a in c.attempts]
    seen = [a for a in attempts if a.outcome is not None]
    unseen = [a for a in attempts if a.outcome is None]
    budget = core.program.budget
    assert budget.confirmed_ms == sum(min(a.active_ms or 0, a.reservation_ms) for a in seen)
    assert budget.reserved_ms == sum(a.reservation_ms for a in unseen)


GUARANTEES = pytest.mark.guarantee("B3", "E1", "P3", "P4", "P5", "P6", "R1", "R4", "R11")


@GUARANTEES
@pytest.mark.parametrize("name", EXAMPLES)
def test_each_kind_of_node_is_cut_off_at_every_moment(name: str) -> None:
    driven = survives(EXAMPLES[name], {})
    assert driven.standing in {OperationState.SUCCEEDED, OperationState.STOPPED}


@GUARANTEES
@pytest.mark.parametrize(("place", "how", "fast"), SOME)
def test_a_failure_in_each_place_is_cut_off_at_every_moment(
    place: str, how: str, fast: bool
) -> None:
    driven = survives(whole("fail_fast" if fast else "collect"), {place: how})
    assert driven.standing is OperationState.SUCCEEDED
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
                        survives(whole(policy), {one: how, other: then})


@pytest.mark.guarantee("J1", "J2", "P4")
def test_each_frame_is_torn_while_the_journal_writes_it() -> None:
    """What the journal's own recovery leaves is the frames before it, or that one as well."""
    driven = Driven(whole("fail_fast"), {"both.b.x": "after"}).to_the_end()
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
    driven = Driven(whole("collect"), {"both.c.x": "after"}).to_the_end()
    state = State()
    for position, payload in enumerate(driven.frames, 1):
        state = fold(state, position, decode(payload))
        assert state == driven.states[position]
