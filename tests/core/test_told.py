"""What is told of a call that did not succeed: by evidence first, whatever its end was."""

from __future__ import annotations

import pytest

from supervisor.api.views import operation_view
from supervisor.cli.exits import Exit, of_call
from supervisor.core.contract import Contract
from supervisor.core.errors import CODES
from supervisor.core.record import Outcome
from tests.core.made import Core
from tests.core.situations import ASKED, FREE, KEYED, ONE, SITUATIONS, TWO


def told(core: Core, call_id: str) -> dict[str, object]:
    """The call's document."""
    document: dict[str, object] = operation_view(core.operation(call_id), core.now)["call"]  # type: ignore[arg-type]  # ids are strings
    return document


@pytest.mark.parametrize("name", sorted(SITUATIONS))
def test_an_unknown_outcome_is_told_before_all_else(name: str) -> None:
    core = Core()
    call = told(core, SITUATIONS[name](core))
    if call["state"] != "unknown":
        return
    error = call["error"]
    assert isinstance(error, dict)
    assert CODES[error["code"]].cli_exit == of_call(call) == Exit.OUTCOME_UNKNOWN
    assert "effectctl" in error["fix"]


@pytest.mark.parametrize(
    ("terms", "code", "fix"),
    [
        (ONE, "EffectOutcomeUnknown", "effectctl effects resolve"),
        (ASKED, "ReconciliationRequired", "effectctl effects reconcile"),
        (KEYED, "EffectOutcomeUnknown", "effectctl operations recovery"),
        (FREE, "Draining", "effectctl operations recovery"),
    ],
    ids=[one.value for one in (Contract.NO_SAFE_RETRY, Contract.RECONCILIATION)]
    + [one.value for one in (Contract.IDEMPOTENCY_KEY, Contract.NONE)],
)
@pytest.mark.guarantee("E6", "R14")
def test_a_stop_of_the_daemon_points_to_recovery(terms: object, code: str, fix: str) -> None:
    core = Core()
    call_id = core.begin(terms)  # type: ignore[arg-type]  # terms of the situations
    core.announce(call_id)
    core.exit(call_id, Outcome.CANCELLED, code="Draining", detail="the daemon was stopped")
    error = told(core, call_id)["error"]
    assert isinstance(error, dict)
    assert error["code"] == code
    assert error["detail"].startswith("the daemon was stopped")
    assert fix in error["fix"]
    assert "Send the same request" not in error["fix"]


def test_what_was_applied_before_a_stop_is_not_to_be_sent_again() -> None:
    core = Core()
    call_id = core.begin(TWO)
    core.announce(call_id)
    core.confirm(call_id)
    core.exit(call_id, Outcome.CANCELLED, code="Draining")
    call = told(core, call_id)
    error = call["error"]
    assert isinstance(error, dict)
    assert of_call(call) is Exit.PARTLY_APPLIED
    assert "operations recovery" in error["fix"]
