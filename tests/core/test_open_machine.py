"""Whole histories with agents in them: whatever else happens, and whenever."""

from __future__ import annotations

import pytest

from supervisor.core.record import Answer, CallAccepted, RepeatAnswered
from supervisor.journal.records import decode
from tests.core.agents import STEPS, Agents
from tests.core.machine import script
from tests.core.test_whole import is_the_fold_everywhere

GUARANTEES = pytest.mark.guarantee("A4", "A6", "A7", "B3", "E1", "E6", "E9", "R1", "R8", "R11")


def history(seed: int, length: int = 200) -> Agents:
    machine = Agents(seed)
    try:
        machine.run(script(seed, length))
    except Exception as error:
        error.add_note(f"seed {seed}: {', '.join(machine.story)}")
        raise
    return machine


def answers(machine: Agents) -> set[Answer]:
    """How requests were answered, those of evicted operations among them."""
    records = [record for payload in machine.host.payloads for record in decode(payload)]
    told = {one.answer for one in records if isinstance(one, RepeatAnswered)}
    fresh = any(isinstance(one, CallAccepted) and one.request_id for one in records)
    return told | ({Answer.FRESH} if fresh else set())


@GUARANTEES
@pytest.mark.many
def test_no_history_of_agents_repeats_loses_or_strands_an_effect():
    machines = [history(seed) for seed in range(14)]
    told = {name for machine in machines for name in machine.story}
    assert {name for name in STEPS if name.startswith("agent_")} - told <= {"agent_calls_again"}
    assert set().union(*(answers(machine) for machine in machines)) == set(Answer)
    seen = {name for machine in machines for name in machine.host.seen}
    assert seen >= {"ContinuationRefused", "DurableResumeConflict", "RequestConflict"}
    is_the_fold_everywhere(machines[0].host.payloads)


@pytest.mark.long
@pytest.mark.timeout(7200)
@GUARANTEES
def test_no_history_of_thousands_does():
    for seed in range(30_000, 32_000):
        history(seed, 300)
