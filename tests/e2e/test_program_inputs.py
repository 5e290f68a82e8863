"""What the calls of a program are given: held against their handlers' schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.api import Document, fresh_id
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.test_programs import call, expr, give, send

STRICT = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}


@pytest.fixture(scope="module")
def strict() -> Iterator[Daemon]:
    """A daemon with a handler whose input has a schema, and that hands it back."""
    with new_daemon() as daemon:
        (daemon.handlers / "strict.schema.json").write_text(json.dumps(STRICT))
        daemon.add_handler(
            "strict",
            'manifest = 1\ncommand = ["/bin/cat"]\ntimeout_ms = 60_000\nread_only = true\n'
            'input_schema = "strict.schema.json"\n',
        )
        yield daemon.start()


def echo(name: str, value: Any, **more: Any) -> Document:
    return {"id": name, "call_tool": {"handler": "strict", "input": value, **more}}


@pytest.mark.guarantee("P1")
def test_every_call_that_cannot_be_made_is_a_fault_before_anything_is_accepted(
    strict: Daemon,
) -> None:
    nodes = [
        echo("fits", {"to": "ann"}),
        echo("number", {"to": 5}),
        {"id": "gone", "call_tool": {"handler": "no", "input": {}}},
        echo("slow", {"to": "ann"}, timeout_ms=60_001),
        {"id": "both", "parallel": {"branches": {"b": [echo("bare", {})]}}},
        give(),
    ]
    message_id = fresh_id("m")
    refused = send(strict.api, nodes, message_id)
    at = "/program/nodes"
    assert (refused.code, refused.document["pointer"]) == (
        "InvalidInput",
        f"{at}/1/call_tool/input/to",
    )
    assert [(one["pointer"], one["code"]) for one in refused.document["faults"]] == [
        (f"{at}/1/call_tool/input/to", "InvalidInput"),
        (f"{at}/2/call_tool/handler", "UnknownHandler"),
        (f"{at}/3/call_tool/timeout_ms", "InvalidInput"),
        (f"{at}/4/parallel/branches/b/0/call_tool/input", "InvalidInput"),
    ]
    assert "node 'both.b.bare'" in refused.document["faults"][3]["detail"]
    # Nothing was bound: the id may name what is sent when it is right.
    assert send(strict.api, [echo("fits", {"to": "ann"}), give()], message_id).status == 202


@pytest.mark.guarantee("P1", "P4", "B7")
def test_an_input_that_comes_to_what_its_handler_does_not_take_is_never_given(
    strict: Daemon,
) -> None:
    tag = fresh_id("t")
    nodes = [
        call("first", tag, "key"),
        echo("second", {"to": expr("input.to")}),
        call("third", f"{tag}-3"),
        give(),
    ]
    stands = send(strict.api, nodes, program_input={"to": 7}, wait_ms=60_000).ok()
    assert stands["state"] == "interrupted"
    first, second = (strict.api.call(one) for one in stands["calls"])
    assert (first["state"], second["state"]) == ("succeeded", "refused")
    assert second["attempts"] == []
    assert second["error"]["code"] == "InvalidInput"
    for said in ("node 'second'", "handler 'strict'", "/to", "7 is not of type 'string'"):
        assert said in second["error"]["detail"]
    # It is the same input for ever, so a resume comes to the same; nothing is run again.
    assert strict.api.resume(stands["operation_id"]).ok()["state"] == "interrupted"
    assert list(strict.world.changes(tag).values()) == [1]
    assert strict.world.changes(f"{tag}-3") == {}


@pytest.mark.guarantee("P5")
def test_a_branch_whose_input_does_not_fit_fails_as_any_other(strict: Daemon) -> None:
    tag = fresh_id("t")
    branches = {
        "bad": [echo("c", {"to": expr("input.to")})],
        "good": [call("c", tag), call("d", f"{tag}-2")],
    }
    nodes = [{"id": "both", "parallel": {"on_failure": "collect", "branches": branches}}, give()]
    stands = send(strict.api, nodes, program_input={"to": 7}, wait_ms=60_000).ok()
    assert stands["state"] == "interrupted"
    assert list(strict.world.changes(f"{tag}-2").values()) == [1]
