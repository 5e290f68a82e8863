"""A journal that an earlier version wrote: read, folded and shown by this one.

`written_by_0_1_0.jsonl` holds the decisions of a real run of the version that recorded processor
time alone: a success, two effects, a failure, a deadline, a crash and a resume.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from supervisor.api.views import attempt_view, operation_view
from supervisor.core.evolve import fold
from supervisor.core.moment import Moment
from supervisor.core.standing import operation_state
from supervisor.core.state import State
from supervisor.journal.records import decode, to_document

PAYLOADS = Path(__file__).with_name("written_by_0_1_0.jsonl").read_bytes().splitlines()


def folded() -> State:
    state = State()
    for position, payload in enumerate(PAYLOADS, 1):
        state = fold(state, position, decode(payload))
    return state


@pytest.mark.guarantee("J10")
def test_every_decision_of_it_reads_back_and_would_be_written_the_same_way() -> None:
    assert len(PAYLOADS) > 20
    for payload in PAYLOADS:
        records = decode(payload)
        assert [to_document(record) for record in records] == orjson.loads(payload)


@pytest.mark.guarantee("J10")
def test_its_state_is_what_it_was() -> None:
    operations = list(folded().operations.values())
    states = sorted(operation_state(operation).value for operation in operations)
    assert states == ["failed", "interrupted", "succeeded", "succeeded", "succeeded"]
    attempts = [a for o in operations for c in o.ordered_calls() for a in c.attempts]
    assert len(attempts) == 6


@pytest.mark.guarantee("J10", "S6")
def test_what_it_did_not_count_is_shown_as_not_known() -> None:
    state = folded()
    now = Moment(state.latest, 0, "")
    counted = 0
    for operation in state.operations.values():
        operation_view(operation, now)
        for call in operation.ordered_calls():
            for attempt in call.attempts:
                usage = attempt_view(attempt)["usage"]
                counted += usage.pop("cpu_ms") is not None
                assert set(usage.values()) == {None}
                assert len(usage) == 6
    assert counted >= 4
