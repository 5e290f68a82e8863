"""What the calls of a program are given: held against their handlers' schemas."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.api import Document, fresh_id
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.test_programs import approve, call, expr, give, send

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
    (stands_at,) = stands["program"]["stands_at"]
    assert (stands_at["node"], stands_at["call_id"]) == ("second", second["call_id"])
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


# --- raw inputs -----------------------------------------------------------------------------

RAW = {"token": 'hunter2 "and" more', "body": {"lines": ["très secret", 4711]}}


def raw(name: str) -> Document:
    return expr(f"inputs.{name}")


def written(daemon: Daemon, text: str) -> list[str]:
    """The files of the state directory in which the text stands, as it is or as JSON spells it."""
    spelled = {text.encode(), *(json.dumps(text, ensure_ascii=a)[1:-1].encode() for a in (0, 1))}
    files = [one for one in daemon.state.rglob("*") if one.is_file()]
    return [str(one) for one in files if any(said in one.read_bytes() for said in spelled)]


@pytest.mark.guarantee("P2", "R7")
def test_raw_inputs_reach_their_call_and_nothing_that_is_written_down(daemon: Daemon) -> None:
    echoed = (
        'manifest = 1\ncommand = ["/bin/cat"]\ntimeout_ms = 60_000\n'
        '[[effect]]\nname = "told"\nscope = "call"\ncontract = "none"\n'
    )
    daemon.add_handler("cat", echoed)
    daemon.add_program(
        "seen",
        "import hashlib, json, sys\n"
        "given = json.load(sys.stdin)\n"
        "text = json.dumps(given, sort_keys=True)\n"
        "print(json.dumps([hashlib.sha256(text.encode()).hexdigest(), list(given)]))\n",
    )
    daemon.add_handler("seen", echoed.replace("/bin/cat", f"{daemon.programs}/seen"))
    given = {"plain": expr("input"), "token": raw("token"), "deep": [raw("body.lines")]}
    # What looks like an expression is data where it comes from somewhere else.
    claim = {"$": "inputs.token"}
    nodes = [
        {"id": "cat", "call_tool": {"handler": "cat", "input": given}},
        {"id": "seen", "call_tool": {"handler": "seen", "input": given}},
        {"id": "claim", "call_tool": {"handler": "cat", "input": expr("input")}},
        give(cat=expr("cat"), seen=expr("seen[0]"), claim=expr("claim")),
    ]
    message_id = fresh_id("m")
    done = send(daemon.api, nodes, message_id, program_input=claim, inputs=RAW, wait_ms=60_000).ok()
    assert done["state"] == "succeeded", [daemon.api.call(one) for one in done["calls"]]
    lines = RAW["body"]["lines"]
    whole = json.dumps({"deep": [lines], "plain": claim, "token": RAW["token"]}, sort_keys=True)
    assert done["result"]["seen"] == hashlib.sha256(whole.encode()).hexdigest()
    assert done["result"]["claim"] == claim
    assert done["result"]["cat"]["token"] == "[secret hidden]"
    shown = daemon.api.call(done["calls"][0])
    assert shown["input"] == {**given, "plain": claim}
    assert daemon.api.call(done["calls"][0])["state"] == "succeeded"
    assert written(daemon, "inputs.token")  # what asks for it is there, and so would it be
    for text in (RAW["token"], "très secret"):
        assert written(daemon, text) == []
    assert done["program"]["inputs"] == ["body", "token"]
    assert done["program"]["resumable"] is False
    assert "input 'token' is raw" in done["program"]["not_resumable"][1]
    # The same message is the same operation, also when the values are long gone.
    asked = {"program_input": claim, "inputs": RAW}
    daemon.restart()
    again = send(daemon.api, nodes, message_id, **asked).ok()
    assert again["operation_id"] == done["operation_id"]
    other = {**asked, "inputs": {**RAW, "token": "hunter3"}}
    assert send(daemon.api, nodes, message_id, **other).code == "RequestConflict"


@pytest.mark.guarantee("P2", "P4")
def test_raw_inputs_go_with_their_daemon_and_a_node_that_asks_for_them_is_refused(
    daemon: Daemon,
) -> None:
    api, tag = daemon.api, fresh_id("t")
    nodes = [
        call("one", tag),
        approve(),
        {"id": "two", "call_tool": {"handler": "key", "input": {"tag": raw("tag")}}},
        give(),
    ]
    waiting = send(api, nodes, inputs={"tag": f"{tag}-2"}, wait_ms=60_000).ok()
    assert waiting["state"] == "waiting"
    daemon.restart()
    one = waiting["operation_id"]
    assert api.operation(one)["state"] == "waiting"
    api.post(f"operations/{one}/approvals/ok", {"choice": "approve"}).ok()
    stands = api.final(one)
    assert stands["state"] == "failed"
    refused = api.call(stands["calls"][1])
    assert (refused["state"], refused["error"]["code"]) == ("refused", "NotResumable")
    assert "went with the daemon" in refused["error"]["detail"]
    assert api.resume(one).code == "NotResumable"
    assert daemon.world.changes(f"{tag}-2") == {}
    assert list(daemon.world.changes(tag).values()) == [1]


@pytest.mark.guarantee("P2")
def test_an_unknown_effect_of_a_program_with_raw_inputs_is_settled_and_not_resumed(
    daemon: Daemon,
) -> None:
    api, world, tag = daemon.api, daemon.world, fresh_id("t")
    given = {"tag": raw("tag"), "effects": ["key"]}
    nodes = [{"id": "one", "call_tool": {"handler": "key", "input": given}}, give()]
    world.hold(f"{tag} made key")
    one = send(api, nodes, inputs={"tag": tag}).ok()["operation_id"]
    world.arrived(f"{tag} made key")
    daemon.kill9()
    daemon.start()
    world.release()
    assert api.final(one)["state"] == "unknown"
    recovery = api.recovery(one)
    assert "resume" not in recovery["allowed_actions"]
    (said,) = [r for r in recovery["refusals"] if r["code"] == "NotResumable"]
    assert "'tag' is raw" in said["detail"]
    assert api.resume(one).code == "NotResumable"
    effect = api.get(f"effects/{recovery['effects'][0]['effect_id']}")
    settled = {"outcome": "applied", "evidence": "seen", "if_revision": effect["revision"]}
    api.post(f"effects/{effect['effect_id']}/resolve", settled).ok()
    assert api.operation(one)["state"] == "failed"
    assert list(world.changes(tag).values()) == [1]


@pytest.mark.guarantee("P1", "P2", "R7")
def test_where_raw_inputs_may_not_stand_is_a_fault_and_no_detail_says_their_value(
    strict: Daemon,
) -> None:
    api = strict.api
    nodes = [
        {"id": "a", "bind": "inputs.to"},
        echo("b", {"to": expr("join('-', [input.x, inputs.to])")}),
        echo("c", {"to": raw("too")}),
        {"id": "out", "give": raw("to")},
    ]
    refused = send(api, nodes, inputs={"to": 471_147_228_833_915})
    at = "/program/nodes"
    assert [one["pointer"] for one in refused.document["faults"]] == [
        f"{at}/0/bind",
        f"{at}/1/call_tool/input/to/$",
        f"{at}/2/call_tool/input/to/$",
        f"{at}/3/give/$",
    ]
    assert "did you mean 'to'?" in refused.document["faults"][2]["detail"]
    bare = send(api, [echo("b", {"to": raw("to")}), give()])
    assert "the message has no 'inputs'" in bare.document["detail"]
    for bad in ([], {"no name": 1}, {f"n{n}": n for n in range(65)}):
        faulty = send(api, [give()], inputs=bad)
        assert faulty.code == "InvalidInput"
        assert faulty.document["pointer"].startswith("/inputs")
    for text in ("inputs.to", "sum(inputs.to)"):
        given = {"to": 471_147_228_833_915}
        ended = send(api, [echo("b", {"to": expr(text)}), give()], inputs=given, wait_ms=60_000)
        assert ended.ok()["state"] == "failed"
        refusal = api.call(ended.ok()["calls"][0])["error"]
        assert refusal["code"] == "InvalidInput"
        assert "node 'b'" in refusal["detail"]
        assert "471147228833915" not in json.dumps(api.call(ended.ok()["calls"][0]))
    assert written(strict, "471147228833915") == []


@pytest.mark.guarantee("P2", "R7")
def test_a_raw_input_in_the_request_of_an_effect_is_refused(strict: Daemon) -> None:
    strict.add_program(
        "announces",
        "import json, sys\n"
        "given = json.load(sys.stdin)\n"
        "channel = open(3, 'r+b', buffering=0)\n"
        "said = {'type': 'announce', 'effect': 'told', 'request': given}\n"
        "channel.write(json.dumps(said).encode() + b'\\n')\n"
        "print(channel.readline().decode(), given)\n",
    )
    strict.add_handler(
        "announces",
        f'manifest = 1\ncommand = ["{strict.programs}/announces"]\ntimeout_ms = 60_000\n'
        '[[effect]]\nname = "told"\ncontract = "none"\nmany = true\n',
    )
    given = {"nested": [raw("token")]}
    nodes = [{"id": "a", "call_tool": {"handler": "announces", "input": given}}, give()]
    token = "a-token-that-nobody-may-see"
    ended = send(strict.api, nodes, inputs={"token": token}, wait_ms=60_000).ok()
    assert ended["state"] == "failed"
    (refused,) = (strict.api.call(one) for one in ended["calls"])
    assert refused["error"]["code"] == "SecretInRequest"
    assert refused["effects"] == []
    assert (
        "[secret hidden]" in strict.api.get(f"calls/{ended['calls'][0]}/output")["stdout"]["head"]
    )
    assert written(strict, token) == []
    assert token not in strict.log
