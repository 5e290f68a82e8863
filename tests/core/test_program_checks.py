"""What is looked at again right before each spawn of a program: the same as for any call.

Cancellation, authority, artifacts and secrets, for the second node after the first and for the
branches of a group. A no starts nothing, charges nothing, and leaves the program where it is.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from supervisor.core.ids import CallId
from supervisor.core.record import By, Outcome, Result
from supervisor.core.standing import OperationState
from supervisor.core.state import Said
from supervisor.core.step import ArtifactsAsked, CancelAsked, Decision
from tests.core.made import CLIENT, NONE, OPERATOR, code, directives, effect, kinds, terms
from tests.core.programs import APPROVE, GIVE, Programs, call, parallel

WHOLE = terms(effect("whole", NONE, whole_call=True), handler="charge")
# What the shell's last look finds, when the attempt is reserved and its gate still shut.
NOES = ("AuthorityRevoked", "HandlerArtifactChanged", "SandboxUnavailable", "OperationCancelled")


@pytest.fixture
def core() -> Programs:
    return Programs()


def second_of_two(core: Programs) -> CallId:
    core.send(call("first"), call("second"), GIVE)
    core.finish("first")
    return core.of("second")


def branch_of_two(core: Programs) -> CallId:
    """The other branch has ended, so nothing but this one holds the program up."""
    core.send(call("first"), parallel("collect", a=[call("x")], b=[call("x")]), GIVE)
    core.finish("first")
    core.finish("both.a.x")
    return core.of("both.b.x")


def after_an_answer(core: Programs) -> CallId:
    core.send(call("first"), APPROVE, call("second"), GIVE)
    core.finish("first")
    core.answer_approval("approve", by=By(7, 7))
    return core.of("second")


PLACES = (second_of_two, branch_of_two, after_an_answer)
at_each_place = pytest.mark.parametrize("place", PLACES, ids=lambda one: one.__name__)


def withheld_at_the_gate(core: Programs, one: CallId, why: str) -> Decision:
    """Reserved, and then the last look says no."""
    assert core.ready(one).refusal is None
    return core.exit(one, Outcome.NOT_STARTED, how=None, code=why, detail="the last look")


@pytest.mark.guarantee("R5", "P4", "B5")
@pytest.mark.parametrize("why", NOES)
@at_each_place
def test_a_no_at_the_gate_charges_nothing_and_a_resume_goes_on_there(
    core: Programs, place: Callable[[Programs], CallId], why: str
) -> None:
    one = place(core)
    before = core.program.budget.charged_ms
    ended = withheld_at_the_gate(core, one, why)
    assert kinds(ended) == ["AttemptEnded"]
    assert directives(ended) == []
    assert core.program.budget.charged_ms == before
    assert core.attempt(one).outcome is Outcome.NOT_STARTED
    assert core.standing is OperationState.INTERRUPTED
    assert {each.outcome for each in core.program.ordered_effects()} == {Said.APPLIED}
    resumed = core.resume(one)
    assert kinds(resumed) == ["ResumeAccepted", "CallQueued"]
    core.finish(core.call(one).node)
    assert core.standing is OperationState.SUCCEEDED
    assert len(core.call(core.of("first")).attempts) == 1


@pytest.mark.guarantee("R5", "E13", "P4")
@at_each_place
def test_a_handler_that_changed_since_acceptance_is_not_started_until_an_admin_accepts_it(
    core: Programs, place: Callable[[Programs], CallId]
) -> None:
    one = place(core)
    changed = "e" * 64
    refused = core.ready(one, digest=changed)
    assert code(refused) == "HandlerArtifactChanged"
    assert kinds(refused) == ["CallRefused"]
    assert core.standing is OperationState.INTERRUPTED
    assert core.call(one).attempts == ()
    core.resume(one)
    assert code(core.ready(one, digest=changed)) == "HandlerArtifactChanged"
    core.do(ArtifactsAsked(core.now, core.one, OPERATOR, {"charge": changed}, "a fix"))
    assert kinds(core.resume(one)) == ["ResumeAccepted", "CallQueued"]
    assert core.ready(one, digest=changed).refusal is None


@pytest.mark.guarantee("R5", "E14")
@at_each_place
def test_a_cancel_between_request_and_spawn_starts_nothing(
    core: Programs, place: Callable[[Programs], CallId]
) -> None:
    one = place(core)
    core.do(CancelAsked(core.now, core.one, CLIENT, "no more"))
    refused = core.ready(one)
    assert code(refused) == "OperationCancelled"
    assert directives(refused) == []
    assert core.call(one).attempts == ()
    assert core.standing is OperationState.CANCELLED


@pytest.mark.guarantee("R5", "P5")
@pytest.mark.parametrize("how", ["fail_fast", "collect"])
def test_a_branch_that_may_not_start_fails_as_its_group_says(core: Programs, how: str) -> None:
    core.send(parallel(how, a=[call("x"), call("y")], b=[call("x", "mail")]), GIVE)
    a, b = core.of("both.a.x"), core.of("both.b.x")
    withheld = withheld_at_the_gate(core, b, "AuthorityRevoked")
    stops = how == "fail_fast"
    assert kinds(withheld) == (["AttemptEnded", "CallRefused"] if stops else ["AttemptEnded"])
    assert (core.call(a).queued is None) is stops
    if not stops:
        core.finish("both.a.x")
        core.finish("both.a.y")
    assert core.standing is OperationState.INTERRUPTED
    core.resume(b)
    for path in ("both.a.x", "both.a.y", "both.b.x"):
        if not core.call(core.of(path)).succeeded:
            core.finish(path)
    assert core.standing is OperationState.SUCCEEDED
    assert len(core.call(b).attempts) == 2


@pytest.mark.guarantee("R5", "E15")
def test_a_no_at_the_gate_settles_the_whole_call_effect_of_a_node(core: Programs) -> None:
    core.send(call("first"), call("second"), GIVE, terms=(WHOLE,))
    core.ready(core.of("first"))
    core.exit(core.of("first"), value=Result(1))
    one = core.of("second")
    withheld = withheld_at_the_gate(core, one, "AuthorityRevoked")
    assert kinds(withheld) == ["EffectConfirmed", "AttemptEnded"]
    assert core.effect(one).outcome is Said.NOT_APPLIED
    assert core.standing is OperationState.INTERRUPTED


@pytest.mark.guarantee("R5")
@at_each_place
def test_the_authority_is_that_of_who_sent_or_resumed_and_never_of_who_answered(
    core: Programs, place: Callable[[Programs], CallId]
) -> None:
    one = place(core)
    assert core.program.requester == CLIENT
    withheld_at_the_gate(core, one, "AuthorityRevoked")
    core.resume(one, by=By(3000, 9))
    assert core.program.requester == By(3000, 9)
    # What begins after that is begun under that too.
    core.finish(core.call(one).node)
    assert core.standing is OperationState.SUCCEEDED
    assert core.program.requester == By(3000, 9)
