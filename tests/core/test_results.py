"""Results in blobs: which may be in one, what a lost one means, who is counted as naming it."""

from __future__ import annotations

import pytest

from supervisor.core.contract import Verdict
from supervisor.core.decide.results import given, next_known_result
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import evolve
from supervisor.core.ids import AttemptKey
from supervisor.core.lineage import effect_verdict
from supervisor.core.record import Blob, CallResultLost, EffectResultLost, Outcome, Result
from supervisor.core.step import (
    BlobLost,
    Confirmed,
    Exited,
    ReconcilerAnswered,
    ResolveAsked,
    TimePassed,
)
from tests.core.made import CLIENT, KEY, Core, code, effect, kinds, terms
from tests.core.programs import GIVE, Programs
from tests.core.programs import call as node
from tests.core.test_whole import is_the_fold_everywhere

BLOB = Blob("a" * 64, 20_000)
ONE = terms(effect())
TWO = terms(effect("charge", KEY), effect("mail", KEY))


def finished(core, request_id="r1", of=ONE, result=BLOB):
    """A call whose effect returned what is in that blob, and which gave the same itself."""
    call_id = core.begin(of, request_id)
    core.announce(call_id)
    core.confirm(call_id, result=Result(blob=result))
    core.exit(call_id, value=Result(blob=result))
    return call_id


def lose(core, call_id, digest=BLOB.digest, reason="damaged"):
    return core.do(BlobLost(core.now, core.operation(call_id).operation_id, digest, reason))


@pytest.mark.guarantee("E8")
def test_a_lost_blob_makes_every_result_in_it_unavailable_once_and_for_all():
    core = Core()
    call_id = finished(core)
    revision = core.effect(call_id).revision
    assert kinds(lose(core, call_id)) == ["EffectResultLost", "CallResultLost"]
    assert core.effect(call_id).result == core.call(call_id).result == Result(unavailable="damaged")
    assert core.effect(call_id).revision == revision + 1
    verdict = effect_verdict(core.effect(call_id), core.call(call_id), core.now)
    assert verdict is Verdict.RESULT_LOST
    again = lose(core, call_id, reason="missing")
    assert again.repeated
    assert kinds(again) == []


@pytest.mark.guarantee("E8")
def test_what_is_lost_may_be_supplied_once():
    core = Core()
    call_id = finished(core)
    lose(core, call_id)
    assert code(core.resolve(call_id, applied=True, result=Result("found"))) is None
    assert core.effect(call_id).result == Result("found")
    core.resolve(call_id, applied=True, result=Result("another"))
    assert core.effect(call_id).result == Result("found")


@pytest.mark.guarantee("E8")
def test_another_blob_and_another_operation_lose_nothing():
    core = Core()
    mine, other = finished(core, "r1"), finished(core, "r2")
    assert kinds(lose(core, mine, "b" * 64)) == []
    lose(core, mine)
    assert core.effect(other).result == Result(blob=BLOB)
    assert dict(core.state.blobs) == {BLOB.digest: 2}


@pytest.mark.guarantee("E8", "R10")
def test_a_blob_is_named_until_the_last_operation_that_names_it_goes():
    core = Core()
    finished(core, "r1")
    finished(core, "r2")
    assert dict(core.state.blobs) == {BLOB.digest: 4}
    core.wait(31 * 86_400_000)
    while not core.do(TimePassed(core.now, 10, 30, 400, 30)).repeated:
        pass
    assert not core.state.operations
    assert dict(core.state.blobs) == {}
    is_the_fold_everywhere(core.frames)


def test_a_record_about_a_result_that_is_in_no_blob_cannot_follow():
    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    core.confirm(call_id, result=Result("inline"))
    base = (core.now.wall, core.operation(call_id).operation_id)
    for record in (
        CallResultLost(*base, call_id, "missing"),
        EffectResultLost(*base, core.effect(call_id).effect_id, "missing"),
    ):
        with pytest.raises(IllegalTransition):
            evolve(core.state, record)


def test_a_result_of_what_is_not_kept_any_more_goes_into_no_blob():
    core = Core()
    call_id = core.begin(ONE)
    said = Confirmed(core.now, call_id, 0, 0, True, Result("x"))
    assert given(core.state, said) == Result("x")
    assert given(Core().state, said) is None


@pytest.mark.guarantee("E8")
def test_whatever_brings_a_result_may_have_it_in_a_blob_but_what_a_program_evaluates():
    """A program's bindings are evaluated from the state alone."""
    result = Result("large")

    def bringing(call_id, effect_id):
        return (
            Confirmed(core.now, call_id, 0, 0, True, result),
            Exited(core.now, call_id, 0, Outcome.SUCCEEDED, 1, value=result),
            ReconcilerAnswered(core.now, effect_id, True, result),
            ResolveAsked(core.now, effect_id, CLIENT, True, "seen", None, result),
        )

    core = Core()
    call_id = core.begin(ONE)
    core.announce(call_id)
    effect_id = core.effect(call_id).effect_id
    assert all(given(core.state, one) == result for one in bringing(call_id, effect_id))
    without = (
        Confirmed(core.now, call_id, 0, 0, True),
        Exited(core.now, call_id, 0, Outcome.SUCCEEDED, 1),
        BlobLost(core.now, core.operation(call_id).operation_id, BLOB.digest, "missing"),
    )
    assert all(given(core.state, one) is None for one in without)
    core = Programs()
    core.send(node("charge"), GIVE)
    call_id = core.of("charge")
    core.ready(call_id)
    core.announce(call_id, "charge")
    effect_id = core.effect(call_id).effect_id
    assert all(given(core.state, one) is None for one in bringing(call_id, effect_id))


@pytest.mark.guarantee("E8")
def test_what_is_recorded_at_the_next_ordinal_is_known_before_it_is_announced():
    core = Core()
    call_id = finished(core, of=TWO)
    known = core.operation(call_id), AttemptKey(call_id, 0)
    assert next_known_result(*known) is None, "one ordinal is announced, and no more is recorded"
    again = core.begin(TWO, "r2")
    core.announce(again, "charge")
    core.confirm(again, result=Result(blob=BLOB))
    core.lose(again)
    core.resume(again)
    retried = core.newest(again)
    core.ready(retried)
    key = AttemptKey(retried, core.call(retried).attempts[-1].number)
    assert next_known_result(core.operation(retried), key) == Result(blob=BLOB)
