"""Planted bugs in what an identical write meets: each is found by the shortest of stories."""

from __future__ import annotations

import pytest

from supervisor.core import matching
from supervisor.core.decide import open as decide_open
from supervisor.core.evolve import open as evolve_open
from supervisor.core.record import Trigger
from tests.core import test_open_continuations, test_open_writes
from tests.core.made import KEY, NEVER
from tests.core.test_open_traces import tell
from tests.mutants.planting import Edit

DEPTH = 7

STORIES = {
    "what was completed before is run again": (
        Edit(matching.match, "stands is Class.COMPLETED and", "False and"),
        NEVER,
    ),
    "what runs since before is run beside itself": (
        Edit(matching._joins, "return again or _before(root, n)", "return False"),
        NEVER,
    ),
    "within a continuation what is unsettled does not count": (
        Edit(
            matching.match,
            "if stands is Class.UNSETTLED]",
            "if stands is Class.UNSETTLED and _before(root, n)]",
        ),
        NEVER,
    ),
    "what is unknown counts as failed": (
        Edit(
            matching.class_of,
            "if operation.lost or effects_unknown(operation, newest):",
            "if operation.lost:",
        ),
        KEY,
    ),
    "a retry is a call of its own, with a key of its own": (
        Edit(decide_open._relaunch, "retry_of=call.call_id,", "retry_of=None,"),
        KEY,
    ),
}

TABLES = {
    "a completion answers for ever": (
        Edit(
            evolve_open.repeat_answered,
            "attrs.evolve(operation.calls[call.root], answered_in=record.continuation)",
            "operation.calls[call.root]",
        ),
        test_open_writes.test_each_completion_answers_one_repeat_in_each_later_continuation,
    ),
    "a relaunch that runs is not joined": (
        Edit(matching._joins, "return again or", "return"),
        test_open_writes.test_a_relaunch_that_runs_is_joined_in_its_own_continuation_too,
    ),
    "a continuation has two successors": (
        Edit(decide_open._taken, "if known is None:\n        return None", "return None"),
        test_open_continuations.test_each_has_one_successor_and_who_comes_second_is_told_of_it,
    ),
    "a restart leaves the continuation open": (
        Edit(
            evolve_open.restarted, "for operation_id in state.continued:", "for operation_id in ():"
        ),
        test_open_continuations.test_a_restart_ends_the_open_one_and_opens_none,
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_short_story_tells_of_it(name: str) -> None:
    edit, contract = STORIES[name]
    with edit.planted(), pytest.raises(AssertionError, match=r"made|never"):
        tell(contract, DEPTH)


@pytest.mark.parametrize("name", TABLES)
def test_its_test_fails(name: str) -> None:
    edit, test = TABLES[name]
    arguments = {"trigger": Trigger.MANUAL} if "successor" in test.__name__ else {}
    test(**arguments)
    with edit.planted(), pytest.raises(AssertionError):
        test(**arguments)
