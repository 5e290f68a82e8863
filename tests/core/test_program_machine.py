"""Whole histories with programs in them: whatever else happens, and whenever."""

from __future__ import annotations

import pytest

from supervisor.core.record import Ended, ProgramEnded
from supervisor.journal.records import decode
from tests.core.disk import JournalDisk
from tests.core.machine import script
from tests.core.programmers import NEW, Programmers
from tests.core.test_whole import is_the_fold_everywhere


def history(seed: int, length: int = 200, disk=None) -> Programmers:
    machine = Programmers(seed, disk() if disk is not None else None)
    try:
        machine.run(script(seed, length))
    except Exception as error:
        error.add_note(f"seed {seed}: {', '.join(machine.story)}")
        raise
    return machine


pytestmark = pytest.mark.many
GUARANTEES = pytest.mark.guarantee(
    "B3", "B9", "E1", "E9", "P3", "P4", "P5", "P6", "R1", "R4", "R8", "R11", "R13"
)
SEEDS = 8


@pytest.mark.timeout(450)  # some seconds, of a machine that has nothing else to do
@GUARANTEES
def test_no_history_of_programs_repeats_loses_or_strands_anything():
    machines = [history(seed) for seed in range(SEEDS)]
    told = {name for machine in machines for name in machine.story}
    assert set(NEW) - told <= {"program_sent_again"}  # which moves nothing
    seen = {name for machine in machines for name in machine.host.seen}
    assert seen >= {"NodeBound", "ApprovalAnswered", "ApprovalExpired", "DecisionExpired"}
    assert seen >= {"RequestConflict", "RunTimeBudgetExceeded", "CallRefused", "CallRestored"}
    records = [r for m in machines for payload in m.host.payloads for r in decode(payload)]
    assert {one.ended for one in records if isinstance(one, ProgramEnded)} == set(Ended)
    is_the_fold_everywhere(machines[0].host.payloads)


@GUARANTEES
def test_no_history_does_on_the_real_journal_either():
    history(900, disk=JournalDisk)


@pytest.mark.long
@pytest.mark.timeout(7200)
@GUARANTEES
def test_no_history_of_thousands_does():
    for seed in range(50_000, 52_000):
        history(seed, 300)
