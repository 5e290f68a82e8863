"""Messages and resumes: bound once, answered for ever, never two things under one name."""

from __future__ import annotations

import attrs
import pytest

from supervisor.core.checkpoint import checkpoint, checkpoint_digest
from supervisor.core.errors import Refusal
from supervisor.core.record import By, Outcome, Result
from supervisor.core.step import ArtifactsAsked, Withheld
from tests.core.made import (
    KEY,
    MS,
    NEVER,
    OPERATOR,
    Core,
    code,
    directives,
    effect,
    kinds,
    terms,
    unchanged,
)
from tests.core.situations import FREE, ONE, SITUATIONS


def interrupted(core, of=FREE):
    call_id = core.begin(of)
    core.restart()
    return call_id


# --- R8: messages ------------------------------------------------------------------------


@pytest.mark.guarantee("R8", "R13")
def test_fifty_equal_messages_at_once_are_one_operation_and_one_launch():
    core = Core()
    decisions = [core.do(core.submitted(ONE)) for _ in range(50)]
    assert [bool(d.records) for d in decisions] == [True] + [False] * 49
    assert [directives(d) for d in decisions] == [["Launch"]] + [[]] * 49
    assert {d.operation_id for d in decisions} == {decisions[0].operation_id}
    assert all(d.repeated for d in decisions[1:])


@pytest.mark.guarantee("R8")
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_same_message_again_is_the_same_operation_in_every_state(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    known = core.operation(call_id)
    core.restart(boot_id="boot-9")
    again = core.do(core.submitted(core.call(call_id).terms))
    assert again.operation_id == known.operation_id
    assert again.repeated
    assert unchanged(again)


@pytest.mark.guarantee("R8")
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"input": {"amount": 4}}, "RequestConflict"),
        ({"request_id": "r2"}, None),
        ({"session_id": "uid:1001"}, None),
        ({}, None),
    ],
)
def test_an_id_binds_one_body_within_one_session(members, expected):
    core = Core()
    core.submit(ONE)
    decision = core.do(core.submitted(ONE, members.pop("request_id", "r1"), **members))
    assert code(decision) == expected


@pytest.mark.guarantee("R8")
def test_a_refusal_before_acceptance_binds_nothing():
    core = Core()
    refused = core.do(core.submitted(ONE, "r1", operations_max=0))
    assert code(refused) == "LimitExceeded"
    assert unchanged(refused)
    assert core.do(core.submitted(FREE, "r1")).refusal is None


# --- R4: resumes -------------------------------------------------------------------------


@pytest.mark.guarantee("R4")
@pytest.mark.parametrize("when", ["at once", "later", "after a restart", "when finished"])
def test_the_same_resume_again_is_the_same_resume(when):
    core = Core()
    call_id = interrupted(core)
    asked = core.resuming(call_id, resume_request_id="again")
    assert core.do(asked).refusal is None
    if when == "later":
        core.ready(call_id)
    elif when == "after a restart":
        core.restart()
    elif when == "when finished":
        core.ready(call_id)
        core.exit(call_id)
    before = core.operation(call_id)
    repeated = core.do(attrs.evolve(asked, now=core.now))
    assert repeated.repeated
    assert unchanged(repeated)
    assert core.operation(call_id) == before


@pytest.mark.guarantee("R4")
@pytest.mark.parametrize(
    "change",
    [
        {"revision": -1},
        {"revision": 1},
        {"digest": "0" * 64},
        {"digest": ""},
    ],
    ids=str,
)
def test_a_resume_of_another_checkpoint_is_a_conflict(change):
    core = Core()
    call_id = interrupted(core)
    members = dict(change)
    if "revision" in members:
        members["revision"] += core.operation(call_id).revision
    decision = core.resume(call_id, **members)
    assert code(decision) == "DurableResumeConflict"
    assert unchanged(decision)
    assert core.resume(call_id).refusal is None


@pytest.mark.guarantee("R4")
@pytest.mark.parametrize(
    ("same_id", "same_revision", "same_digest"),
    [(True, False, False), (False, True, True), (True, True, False)],
)
def test_a_second_use_of_an_id_or_of_a_revision_is_a_conflict(same_id, same_revision, same_digest):
    core = Core()
    call_id = interrupted(core)
    first = core.resuming(call_id, resume_request_id="first")
    core.do(first)
    core.restart()
    second = core.resuming(
        call_id,
        resume_request_id="first" if same_id else "second",
        **({"revision": first.revision} if same_revision else {}),
        **({"digest": first.digest} if same_digest else {}),
    )
    decision = core.do(second)
    assert code(decision) == "DurableResumeConflict"
    assert unchanged(decision)


@pytest.mark.guarantee("R4", "R13")
def test_of_fifty_different_resumes_at_once_one_is_accepted():
    core = Core()
    call_id = interrupted(core)
    asked = [core.resuming(call_id) for _ in range(50)]
    decisions = [core.do(one) for one in asked]
    assert [code(d) for d in decisions] == [None] + ["DurableResumeConflict"] * 49
    assert sum(len(d.directives) for d in decisions) == 1


@pytest.mark.guarantee("R4")
def test_a_crash_right_after_a_resume_leaves_it_resumable():
    core = Core()
    call_id = interrupted(core)
    for _ in range(5):
        assert core.resume(call_id).refusal is None
        core.restart()
        assert core.stands(call_id).value == "interrupted"
    assert core.operation(call_id).revision == 13
    core.relaunch(call_id)
    core.exit(call_id)
    assert core.stands(call_id).value == "succeeded"


@pytest.mark.guarantee("R4")
def test_a_refused_resume_binds_neither_its_id_nor_its_revision():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.restart()
    asked = core.resuming(call_id, resume_request_id="mine")
    assert code(core.do(asked)) == "EffectOutcomeUnknown"
    core.resolve(call_id, applied=False)
    again = core.resume(call_id, resume_request_id="mine")
    assert again.refusal is None


@pytest.mark.guarantee("R5")
def test_the_newest_requests_user_is_the_one_whose_authority_counts():
    core = Core()
    call_id = interrupted(core)
    assert core.operation(call_id).requester == By(1000, 42)
    core.resume(call_id, by=By(1001, 9))
    assert core.operation(call_id).requester == By(1001, 9)


# --- the checkpoint ------------------------------------------------------------------------


@pytest.mark.guarantee("R4", "P3")
def test_the_digest_holds_no_times_and_names_everything_else():
    def made(started_at, first_position):
        core = Core()
        for _ in range(first_position):
            core.restart()
        core.wall, core.mono = started_at, started_at
        call_id = core.submit(ONE)
        core.ready(call_id)
        core.wait(started_at // MS % 1_000)
        core.announce(call_id)
        core.exit(call_id, Outcome.FAILED)
        return core.operation(call_id)

    one, other = made(10**18, 0), made(2 * 10**18 + 7 * MS, 0)
    assert checkpoint(one) == checkpoint(other)
    assert checkpoint_digest(one) == checkpoint_digest(other)
    # Another position is another history, in which ids would differ as well.
    assert checkpoint_digest(made(10**18, 3)) != checkpoint_digest(one)


@pytest.mark.guarantee("R4")
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_checkpoint_of_an_operation_moves_only_with_its_own_frames(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    before = checkpoint_digest(core.operation(call_id))
    core.submit(FREE, "somebody else's")
    assert checkpoint_digest(core.operation(call_id)) == before
    moved = core.cancel(call_id)
    changed = checkpoint_digest(core.operation(call_id)) != before
    assert changed is bool(moved.records)


# --- artifacts ------------------------------------------------------------------------------


def accept(core, call_id, digests):
    operation_id = core.operation(call_id).operation_id
    return core.do(ArtifactsAsked(core.now, operation_id, OPERATOR, digests, "reviewed"))


@pytest.mark.guarantee("E13")
def test_a_relaunch_needs_the_digest_of_what_it_continues_or_an_admin():
    core = Core()
    call_id = interrupted(core)
    core.resume(call_id)
    refused = core.ready(call_id, digest="e" * 64)
    assert code(refused) == "HandlerArtifactChanged"
    assert not refused.directives
    assert core.stands(call_id).value == "interrupted"
    assert kinds(accept(core, call_id, {"charge": "e" * 64, "mail": "f" * 64})) == [
        "ArtifactsAccepted"
    ]
    assert accept(core, call_id, {"charge": "e" * 64}).repeated
    core.resume(call_id)
    assert core.ready(call_id, digest="e" * 64).refusal is None
    assert core.attempt(call_id).digest == "e" * 64


@pytest.mark.guarantee("E13")
def test_accepting_what_never_changed_writes_nothing():
    core = Core()
    call_id = interrupted(core)
    same = accept(core, call_id, {"charge": "d" * 64, "other": "e" * 64})
    assert same.repeated
    assert unchanged(same)


@pytest.mark.parametrize("name", ["applied and succeeded", "cancelled before it started"])
def test_nothing_is_accepted_or_extended_for_a_finished_operation(name):
    core = Core()
    call_id = SITUATIONS[name](core)
    assert code(accept(core, call_id, {"charge": "e" * 64})) == "NotResumable"
    assert code(core.extend(call_id, 10**9)) == "NotResumable"


# --- what is held back --------------------------------------------------------------------


@pytest.mark.guarantee("R11")
@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_cannot_start_leaves_the_queue_with_its_reason(first):
    core = Core()
    call_id = core.submit(ONE)
    if not first:
        core.ready(call_id)
        core.restart()
        core.resume(call_id)
    refusal = Refusal("SandboxUnavailable", "no user namespaces", call_id=call_id)
    decision = core.do(Withheld(core.now, call_id, refusal))
    assert kinds(decision) == ["CallRefused"]
    assert core.call(call_id).refused == "SandboxUnavailable"
    assert core.stands(call_id).value == ("failed" if first else "interrupted")
    again = core.do(Withheld(core.now, call_id, refusal))
    assert unchanged(again)
    if not first:
        core.relaunch(call_id)
        assert core.call(call_id).refused is None


@pytest.mark.guarantee("R5")
@pytest.mark.parametrize("cancelled", [True, False])
def test_a_call_that_is_not_queued_any_more_is_not_started(cancelled):
    core = Core()
    call_id = core.submit(ONE)
    if cancelled:
        core.cancel(call_id)
    else:
        core.restart()
    decision = core.ready(call_id)
    assert unchanged(decision)
    assert code(decision) == ("OperationCancelled" if cancelled else "DurableResumeConflict")


@pytest.mark.guarantee("B8", "R4")
@pytest.mark.parametrize("contract", [KEY, NEVER])
def test_a_restore_hands_back_the_recorded_result_and_starts_nothing(contract):
    core = Core()
    call_id = core.begin(terms(effect(contract=contract)))
    core.announce(call_id)
    core.confirm(call_id, result=Result("made"))
    core.restart()
    decision = core.resume(call_id)
    assert kinds(decision) == ["ResumeAccepted", "CallRestored"]
    assert not decision.directives
    assert core.call_stands(call_id).value == "succeeded"
