"""Raw inputs: who holds them and how long, what tells them apart, and what a call is given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from config.load import Handler
from supervisor.core.errors import Refusal
from supervisor.core.record import Outcome
from supervisor.core.standing import OperationState
from supervisor.dispatch.inputs import HIDDEN_MAX, KEY_FILE, Given, RawInputs, given_to, unfit
from tests.core.programs import GIVE, Programs, call

NO = {"not_resumable": ("raw",)}


def given(core: Programs, raw: RawInputs, path: str = "first") -> Given | Refusal:
    return given_to(raw, core.program, core.call(core.of(path)))


def sent(template: Any, **inputs: Any) -> Programs:
    core = Programs()
    core.send(call("first", given=template), GIVE, inputs=tuple(sorted(inputs)), **NO)
    return core


def held(core: Programs, directory: Path, **inputs: Any) -> RawInputs:
    raw = RawInputs(directory)
    with raw.offered(core.one, inputs, lambda: core.one in core.state.operations):
        pass
    return raw


@pytest.mark.guarantee("P2", "R7")
def test_the_values_are_given_whole_and_their_texts_are_known_to_be_hidden(tmp_path: Path) -> None:
    template = {"a": [{"$": "inputs.t.deep"}], "n": 1}
    inputs = {"t": {"deep": ["four", 'q"é', "abc", 12345]}, "u": "other"}
    core = sent(template, **inputs)
    found = given(core, held(core, tmp_path, **inputs))
    assert isinstance(found, Given)
    assert found.value == {"a": [inputs["t"]["deep"]], "n": 1}
    assert found.raw == ("/a/0",)
    assert set(found.hidden) == {b"four", b"other"}  # three characters are no text to be found
    assert "four" not in repr(found)
    longer = {"t": {"deep": 'quo"te é'}}
    core = sent(template, **longer)
    found = given(core, held(core, tmp_path, **longer))
    assert isinstance(found, Given)
    assert set(found.hidden) == {
        'quo"te é'.encode(),
        'quo\\"te é'.encode(),
        b'quo\\"te \\u00e9',
    }


@pytest.mark.guarantee("P2")
def test_what_cannot_be_given_is_refused_and_its_value_not_told(tmp_path: Path) -> None:
    nested: Any = "a-secret-word"
    for _ in range(60):
        nested = [nested]
    deep: Any = {"$": "inputs.t"}
    for _ in range(190):
        deep = [deep]
    for template, value, code in (
        ({"$": "inputs.t"}, [f"text {n:04}" for n in range(HIDDEN_MAX + 1)], "LimitExceeded"),
        (deep, nested, "LimitExceeded"),
        ({"$": "sum(inputs.t)"}, "a-secret-word", "InvalidInput"),
    ):
        core = sent(template, t=value)
        refused = given(core, held(core, tmp_path, t=value))
        assert isinstance(refused, Refusal)
        assert refused.code == code
        assert "secret" not in refused.detail
    gone = given(core, RawInputs(tmp_path))
    assert isinstance(gone, Refusal)


@pytest.mark.guarantee("P2")
def test_they_are_held_from_acceptance_until_the_operation_has_finished(tmp_path: Path) -> None:
    core = sent({"$": "inputs.t"}, t="value")
    raw = held(core, tmp_path, t="value")
    one = core.of("first")
    raw.let_go(core.ready(one).records, core.state)
    assert raw.of(core.one) == {"t": "value"}
    ended = core.exit(one, Outcome.FAILED)
    assert core.standing is OperationState.FAILED
    raw.let_go(ended.records, core.state)
    assert raw.of(core.one) is None


def test_what_is_not_accepted_is_not_held(tmp_path: Path) -> None:
    core = sent({"$": "inputs.t"}, t="value")
    raw = RawInputs(tmp_path)
    with raw.offered(core.one, {"t": "value"}, lambda: False):
        assert raw.of(core.one) == {"t": "value"}
    assert raw.of(core.one) is None


@pytest.mark.guarantee("R8", "R7")
def test_the_digest_tells_values_apart_over_a_restart_and_not_without_its_key(
    tmp_path: Path,
) -> None:
    first = RawInputs(tmp_path).digest("d", {"t": "1234"})
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert RawInputs(tmp_path).digest("d", {"t": "1234"}) == first
    assert RawInputs(tmp_path).digest("d", {"t": "1235"}) != first
    assert RawInputs(tmp_path).digest("e", {"t": "1234"}) != first
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert RawInputs(elsewhere).digest("d", {"t": "1234"}) != first
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(OSError, match="5 bytes, and not 32"):
        RawInputs(tmp_path).digest("d", {"t": "1234"})


def test_a_schema_that_goes_deeper_than_the_stack_is_a_fault_and_no_crash() -> None:
    value: Any = {}
    for _ in range(2_000):
        value = {"a": value}
    schema = {"properties": {"a": {"$ref": "#"}}}
    handler = cast("Handler", SimpleNamespace(input_schema=schema))
    fault = unfit(handler, value)
    assert fault is not None
    assert "too deeply" in fault.message
