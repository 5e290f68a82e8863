"""A program that another version of program checkpoints accepted: left as it is, and never moved.

It may be read, settled, cancelled and extended; its message names it; nothing is started for it,
whatever is asked, and nobody is asked for an approval that would move nothing.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor.core.checkpoint import checkpoint, checkpoint_digest
from supervisor.core.projection import project
from supervisor.core.record import ProgramAccepted, Record, Result
from supervisor.core.standing import OperationState
from supervisor.core.state import State
from supervisor.core.step import ArtifactsAsked, CancelAsked, Decision, ExtendAsked, TimePassed
from supervisor.core.step_programs import ApprovalsTimePassed
from supervisor.journal.records import decode
from tests.core.made import CLIENT, OPERATOR, code, directives, kinds, unchanged
from tests.core.programs import APPROVE, CHARGE, GIVE, Programs, call, parallel
from tests.core.test_whole import is_the_fold_everywhere

DAY_MS = 86_400_000


def aged(record: Record) -> Record:
    """As a daemon of another version would have written it."""
    return attrs.evolve(record, version=2) if isinstance(record, ProgramAccepted) else record


def another(core: Programs) -> Programs:
    """The same journal, of another version's daemon, after a restart of this one."""
    found = Programs()
    found.state, found.frames, found.position = State(), [], 0
    found.wall, found.mono, found.made = core.wall, core.mono, core.made + 1_000
    for payload in core.frames:
        found.put(*map(aged, decode(payload)))
    found.one = core.one
    found.restart()
    return found


def unknown() -> Programs:
    """Its second node made its change, and nobody heard what came of it."""
    core = Programs()
    core.send(call("first"), call("second"), GIVE)
    core.finish("first")
    core.ready(core.of("second"))
    core.announce(core.of("second"))
    return another(core)


def interrupted() -> Programs:
    core = Programs()
    core.send(call("first"), parallel(a=[call("x")], b=[call("x")]), GIVE)
    core.finish("first")
    return another(core)


def asking() -> Programs:
    core = Programs()
    core.send(call("first"), APPROVE, call("second"), GIVE)
    core.finish("first")
    assert core.standing is OperationState.WAITING
    return another(core)


def ended() -> Programs:
    core = Programs()
    core.send(call("first"), GIVE)
    core.finish("first")
    return another(core)


STORIES = {
    unknown: OperationState.UNKNOWN,
    interrupted: OperationState.INTERRUPTED,
    asking: OperationState.INTERRUPTED,
    ended: OperationState.SUCCEEDED,
}


def resume(core: Programs) -> Decision:
    return core.resume(core.of("first"))


def answer(core: Programs) -> Decision:
    return core.answer_approval("approve")


def expire(core: Programs) -> Decision:
    core.wait(60_000)
    return core.do(ApprovalsTimePassed(core.now))


def cancel(core: Programs) -> Decision:
    return core.do(CancelAsked(core.now, core.one, CLIENT, "no more"))


def extend(core: Programs) -> Decision:
    return core.do(ExtendAsked(core.now, core.one, CLIENT, 700_000, "more"))


def accept_artifacts(core: Programs) -> Decision:
    return core.do(ArtifactsAsked(core.now, core.one, OPERATOR, {"charge": "e" * 64}, "new"))


def resolve(core: Programs) -> Decision:
    return core.resolve(core.of("second"), applied=True, result=Result(1))


def abandon(core: Programs) -> Decision:
    core.wait(31 * DAY_MS)
    return core.do(TimePassed(core.now, 200_000, 400, 400, abandon_days=30))


# What each verb comes to, and where the operation stands after it.
UNKNOWN, CUT, GONE = OperationState.UNKNOWN, OperationState.INTERRUPTED, OperationState.CANCELLED
CELLS: list[tuple[Any, Any, str | None, OperationState]] = [
    (unknown, resume, "NotResumable", UNKNOWN),
    (unknown, resolve, None, CUT),
    (unknown, cancel, None, UNKNOWN),
    (unknown, extend, None, UNKNOWN),
    (unknown, accept_artifacts, None, UNKNOWN),
    (interrupted, resume, "NotResumable", CUT),
    (interrupted, cancel, None, GONE),
    (interrupted, extend, None, CUT),
    (interrupted, abandon, None, GONE),
    (asking, resume, "NotResumable", CUT),
    (asking, answer, "NotResumable", CUT),
    (asking, expire, None, CUT),
    (asking, cancel, None, GONE),
    (ended, resume, "NotResumable", OperationState.SUCCEEDED),
    (ended, cancel, None, OperationState.SUCCEEDED),
    (ended, answer, "NotFound", OperationState.SUCCEEDED),
]


@pytest.mark.guarantee("R6", "R11")
@pytest.mark.parametrize(
    ("story", "verb", "expected", "after"),
    CELLS,
    ids=[f"{story.__name__}-{verb.__name__}" for story, verb, _, _ in CELLS],
)
def test_each_verb_settles_or_ends_it_and_none_moves_it_on(
    story: Any, verb: Any, expected: str | None, after: OperationState
) -> None:
    core = story()
    assert core.standing is STORIES[story]
    decision = verb(core)
    assert code(decision) == expected
    if expected is not None:
        assert unchanged(decision)
    assert directives(decision) == []
    assert not {"CallAccepted", "CallQueued", "ProgramEnded"} & set(kinds(decision))
    assert core.standing is after
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("R6", "R3")
@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_it_stays_readable_and_says_what_it_waits_for(story: Any) -> None:
    core = story()
    shown = checkpoint(core.program)
    assert shown["program"]["version"] == 2
    assert len(checkpoint_digest(core.program)) == 64
    assert not core.state.approvals
    allowed = project(core.program, core.now, margin_ms=0, digests={"charge": CHARGE.digest})
    assert not {"resume", "approve"} & {one.action for one in allowed.actions}
    if story is not ended:
        assert "cancel" in {one.action for one in allowed.actions}
        (said,) = [one for one in allowed.refusals if one.code == "NotResumable"]
        assert "version 2 of programs, and this effectd by 1" in said.detail
        assert "the effectd that it was accepted by" in said.remedy


@pytest.mark.guarantee("R6", "R8")
def test_its_message_names_it_and_binds_no_other_body() -> None:
    core = unknown()
    one, before = core.one, core.state
    again = core.send(call("first"), call("second"), GIVE)
    assert (again.operation_id, again.repeated) == (one, True)
    assert code(core.send(call("other"), GIVE)) == "RequestConflict"
    assert core.state is before
