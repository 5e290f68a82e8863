"""Whole histories, at random: crashes anywhere, slow providers, clocks that jump."""

from __future__ import annotations

import functools

import pytest

from supervisor.core.record import KINDS
from tests.core.disk import JournalDisk
from tests.core.host import Host
from tests.core.machine import NAMES, Machine, script, shortest

LENGTH = 150


def simulate(seed: int, length: int = LENGTH, *, disk=None, host=Host) -> Machine:
    """One run. A failure is told by the shortest run that still fails, and its seed."""
    seeds = script(seed, length)
    machine = Machine(seed, disk() if disk is not None else None, host)
    try:
        machine.run(seeds)
    except Exception:
        fails = _fails(seed, disk, host)
        short = shortest(seeds, fails) if fails(seeds) else seeds
        again = Machine(seed, disk() if disk is not None else None, host)
        try:
            again.run(short)
        except Exception as error:
            where = " --journal" if disk is JournalDisk else ""
            error.add_note(f"seed {seed}, {len(short)} steps: {', '.join(again.story)}")
            error.add_note(f"again: .venv/bin/python -m tests.core.again {seed} {length}{where}")
            raise
        raise
    return machine


@functools.cache
def history(seed: int) -> Machine:
    return simulate(seed)


def _fails(seed, disk, host):
    def fails(seeds):
        try:
            Machine(seed, disk() if disk is not None else None, host).run(seeds)
        except Exception:
            return True
        return False

    return fails


REFUSALS = {
    "DurableResumeConflict",
    "EffectCorrelationMismatch",
    "EffectOutcomeUnknown",
    "HandlerArtifactChanged",
    "OperationExpired",
    "InvalidInput",
    "NotResumable",
    "OperationCancelled",
    "PreviousAttemptAlive",
    "ReconciliationRequired",
    "RequestConflict",
    "RunTimeBudgetExceeded",
    "SandboxUnavailable",
    "UndeclaredEffect",
}

pytestmark = pytest.mark.many
GUARANTEES = pytest.mark.guarantee(
    "B3", "B9", "E1", "E6", "E7", "E9", "E10", "E12", "E14", "J1", "R1", "R4", "R8", "R11", "R13"
)


@GUARANTEES
@pytest.mark.parametrize("seed", range(12))
def test_no_history_repeats_loses_or_strands_an_effect(seed):
    history(seed)


@GUARANTEES
@pytest.mark.parametrize("seed", range(900, 903))
def test_no_history_does_on_the_real_journal_either(seed):
    simulate(seed, disk=JournalDisk)


def test_the_histories_come_by_every_step_record_and_refusal_that_they_can():
    machines = [history(seed) for seed in range(12)]
    steps = {name for machine in machines for name in machine.story}
    # These move nothing by themselves.
    quiet = {"resume_again", "submit_again", "jump", "change_artifacts"}
    assert steps >= set(NAMES) - quiet
    seen = {name for machine in machines for name in machine.host.seen}
    # An operator's act on a damaged journal, open operations and programs have histories of
    # their own (test_repaired, test_open_traces, test_programs); a result's file that is lost
    # later is no part of this world (test_lifecycle).
    apart = {"JournalRepaired", "ContinuationOpened", "ContinuationEnded", "RepeatAnswered"}
    apart |= {"ProgramAccepted", "NodeBound", "ProgramEnded"}
    apart |= {"ApprovalRequested", "ApprovalAnswered", "ApprovalExpired"}
    # The host of these histories keeps every result in its record (test_results).
    apart |= {"CallResultLost", "EffectResultLost"}
    assert seen >= {cls.__name__ for cls in KINDS.values()} - apart
    assert seen >= REFUSALS


def test_a_failing_history_says_how_to_see_it_again():
    class Fails(Host):
        def sync(self, count):
            super().sync(count)
            assert len(self.payloads) < 20, "long enough"

    with pytest.raises(AssertionError, match="long enough") as caught:
        simulate(3, 60, host=Fails)
    assert caught.value.__notes__[-1] == "again: .venv/bin/python -m tests.core.again 3 60"


def test_a_failing_run_is_cut_down_to_the_steps_that_matter():
    assert shortest(list(range(100)), lambda steps: 17 in steps and 71 in steps) == [17, 71]


@pytest.mark.long
@pytest.mark.timeout(7200)
@GUARANTEES
def test_no_history_of_thousands_does():
    for seed in range(10_000, 14_000):
        simulate(seed, 250)


@pytest.mark.long
@pytest.mark.timeout(7200)
@GUARANTEES
def test_no_history_of_hundreds_does_on_the_real_journal():
    for seed in range(20_000, 20_400):
        simulate(seed, 250, disk=JournalDisk)
