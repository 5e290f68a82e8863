"""The exit code says what is safe: one row a document, and every code is reached."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.cli import exits
from supervisor.cli.exits import Exit
from supervisor.core.errors import CODES
from tests.cli.documents import attempt, call, failed_call, operation

TIMED_OUT = [attempt(outcome="timed_out", exit={"code": None, "signal": 9})]
REFUSED = {"code": "RunTimeBudgetExceeded", "detail": "no room", "fix": "extend"}

CALLS: list[tuple[str, dict[str, Any], Exit]] = [
    ("succeeded", call(), Exit.DONE),
    ("succeeded late", call(late=True, attempts=TIMED_OUT), Exit.DONE),
    ("failed", failed_call(), Exit.FAILED),
    ("failed after it applied something", failed_call(effects_applied=1), Exit.PARTLY_APPLIED),
    ("timed out", failed_call(attempts=TIMED_OUT), Exit.TIMED_OUT),
    (
        "timed out after it applied something",
        failed_call(attempts=TIMED_OUT, effects_applied=2),
        Exit.PARTLY_APPLIED,
    ),
    ("unknown", failed_call(state="unknown", effects_unknown=1), Exit.OUTCOME_UNKNOWN),
    (
        "unknown and applied",
        failed_call(state="unknown", effects_unknown=1, effects_applied=1),
        Exit.OUTCOME_UNKNOWN,
    ),
    ("cancelled", failed_call(state="cancelled"), Exit.CANCELLED),
    (
        "cancelled after it applied something",
        failed_call(state="cancelled", effects_applied=1),
        Exit.PARTLY_APPLIED,
    ),
    ("interrupted", failed_call(state="interrupted"), Exit.TEMPORARY),
    (
        "interrupted after it applied something",
        failed_call(state="interrupted", effects_applied=1),
        Exit.PARTLY_APPLIED,
    ),
    ("refused by budget", failed_call(state="refused", attempts=[], error=REFUSED), Exit.REFUSED),
    (
        "refused because unsandboxable",
        failed_call(state="refused", attempts=[], error={"code": "SandboxUnavailable"}),
        Exit.REFUSED,
    ),
    ("refused without a reason", failed_call(state="refused", attempts=[]), Exit.REFUSED),
    ("running", failed_call(state="running"), Exit.TEMPORARY),
    ("accepted", failed_call(state="accepted", attempts=[]), Exit.TEMPORARY),
    ("a state of a later version", failed_call(state="hibernating"), Exit.TEMPORARY),
]


@pytest.mark.parametrize(
    ("document", "code"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS]
)
def test_a_calls_exit_code(document: dict[str, Any], code: Exit) -> None:
    assert exits.of_call(document) is code


OPERATIONS: list[tuple[str, dict[str, Any], list[dict[str, Any]], Exit]] = [
    ("succeeded", operation(), [call()], Exit.DONE),
    ("unknown", operation(state="unknown"), [call()], Exit.OUTCOME_UNKNOWN),
    ("failed", operation(state="failed"), [failed_call()], Exit.FAILED),
    (
        "failed by time",
        operation(state="failed"),
        [failed_call(attempts=TIMED_OUT)],
        Exit.TIMED_OUT,
    ),
    (
        "failed by refusal",
        operation(state="failed"),
        [failed_call(state="refused", attempts=[], error=REFUSED)],
        Exit.REFUSED,
    ),
    ("failed without calls", operation(state="failed"), [], Exit.FAILED),
    ("interrupted", operation(state="interrupted"), [failed_call()], Exit.TEMPORARY),
    (
        "interrupted, something applied",
        operation(state="interrupted"),
        [failed_call(effects_applied=1)],
        Exit.PARTLY_APPLIED,
    ),
    ("cancelled", operation(state="cancelled"), [failed_call()], Exit.CANCELLED),
    (
        "cancelled, an earlier call applied something",
        operation(state="cancelled"),
        [call(), failed_call()],
        Exit.PARTLY_APPLIED,
    ),
    ("stopped", operation(state="stopped"), [], Exit.CANCELLED),
    ("waiting", operation(state="waiting"), [], Exit.TEMPORARY),
    ("running", operation(state="running"), [call(effects_applied=1)], Exit.TEMPORARY),
    ("a state of a later version", operation(state="hibernating"), [], Exit.TEMPORARY),
]


@pytest.mark.parametrize(
    ("document", "calls", "code"), [row[1:] for row in OPERATIONS], ids=[r[0] for r in OPERATIONS]
)
def test_an_operations_exit_code(
    document: dict[str, Any], calls: list[dict[str, Any]], code: Exit
) -> None:
    assert exits.of_operation(document, calls) is code


@pytest.mark.parametrize("name", CODES)
def test_a_problem_exits_with_its_codes_exit(name: str) -> None:
    assert exits.of_problem({"code": name, "status": 409}) == CODES[name].cli_exit


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"code": "Later", "status": 400}, Exit.USAGE),
        ({"code": "Later", "status": 404}, Exit.NOT_FOUND),
        ({"code": "Later", "status": 409}, Exit.CONFLICT),
        ({"code": "Later", "status": 403}, Exit.REFUSED),
        ({"code": "Later", "status": 503}, Exit.REFUSED),
        ({"code": "Later", "status": 503, "retryable": True}, Exit.TEMPORARY),
        ({}, Exit.REFUSED),
    ],
)
def test_a_problem_of_a_later_version_exits_by_its_status(
    document: dict[str, Any], code: Exit
) -> None:
    assert exits.of_problem(document) is code


def test_only_retryable_codes_exit_75() -> None:
    """75 means that nothing was applied and the same id may be sent."""
    temporary = {name for name, code in CODES.items() if code.cli_exit == Exit.TEMPORARY}
    assert temporary == {name for name in CODES if CODES[name].retryable}


def test_every_exit_code_has_a_meaning_and_a_gravity() -> None:
    assert set(exits.MEANINGS) == set(exits.GRAVITY) == set(Exit)
    assert sorted(int(one) for one in Exit) == [*range(11), 75, 130]


def test_of_several_answers_the_one_that_a_person_must_hear_wins() -> None:
    assert exits.gravest([]) is Exit.DONE
    assert exits.gravest([Exit.DONE, Exit.FAILED]) is Exit.FAILED
    assert exits.gravest([Exit.FAILED, Exit.OUTCOME_UNKNOWN, Exit.DONE]) is Exit.OUTCOME_UNKNOWN
    assert exits.gravest([Exit.PARTLY_APPLIED, Exit.FAILED]) is Exit.PARTLY_APPLIED


@pytest.mark.parametrize("outcome", ["applied", "not_applied"])
def test_a_settled_effect_is_done(outcome: str) -> None:
    assert exits.of_effect({"outcome": outcome}) is Exit.DONE


@pytest.mark.parametrize("outcome", ["unknown", "announced", "something new"])
def test_an_effect_that_is_not_settled_exits_6(outcome: str) -> None:
    assert exits.of_effect({"outcome": outcome}) is Exit.OUTCOME_UNKNOWN


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("cancelled", Exit.DONE),
        ("succeeded", Exit.DONE),
        ("unknown", Exit.OUTCOME_UNKNOWN),
        ("running", Exit.TEMPORARY),
    ],
)
def test_cancel_is_done_when_nothing_runs_and_nothing_is_unknown(state: str, code: Exit) -> None:
    assert exits.of_cancel({"state": state}) is code
