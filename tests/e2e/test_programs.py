"""Programs from the socket to the world: nodes in order, branches, approvals, and kills."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest

from effectd.client import Client
from supervisor.core.record import ProgramAccepted
from tests.e2e.support import journals
from tests.e2e.support.api import Answer, Api, Document, fresh_id
from tests.e2e.support.daemon import Daemon

SCHEMA = "effectd-program-v1"


def call(name: str, tag: str, handler: str = "key", **given: Any) -> Document:
    effects = [handler.removesuffix("-call")] if handler != "plain" else []
    value = {"tag": tag, "effects": effects, **given}
    return {"id": name, "call_tool": {"handler": handler, "input": value}}


def give(**value: Any) -> Document:
    return {"id": "out", "give": value}


def expr(text: str) -> Document:
    return {"$": text}


def send(api: Api, nodes: list[Document], message_id: str = "", **more: Any) -> Answer:
    session = api.post("sessions", {"request_id": "the-tests"}).ok()["session_id"]
    body = {
        "message_id": message_id or fresh_id("m"),
        "max_run_ms": 1_000_000,
        "program": {"schema_version": SCHEMA, "nodes": nodes},
        **more,
    }
    return api.post(f"sessions/{session}/messages", body)


def approve(**more: Any) -> Document:
    return {
        "id": "ok",
        "approve": {"by": ["uid:0"], "expires_ms": 600_000, "prompt": "Go on?", **more},
    }


@pytest.mark.guarantee("P3", "P4")
def test_nodes_run_in_order_and_their_values_go_on(calm_daemon: Daemon) -> None:
    api, tag = calm_daemon.api, fresh_id("t")
    nodes = [
        {"id": "due", "bind": "sort_by(input.invoices, &total)[?total > `0`]"},
        call("charge", tag),
        {"id": "second", "call_tool": {"handler": "plain", "input": {"tag": expr("due[0].id")}}},
        give(receipt=expr("charge.receipt"), due=expr("length(due)")),
    ]
    given = {
        "invoices": [{"id": "b", "total": 3}, {"id": "a", "total": 0}, {"id": "c", "total": 1}]
    }
    done = send(api, nodes, program_input=given, wait_ms=60_000).ok()
    assert done["state"] == "succeeded", [api.call(one) for one in done["calls"]]
    assert done["kind"] == "program"
    ((effect_id, made),) = calm_daemon.world.changes(tag).items()
    assert made == 1
    assert done["result"] == {"receipt": calm_daemon.world.receipt(effect_id), "due": 2}
    assert [api.call(one)["node"] for one in done["calls"]] == ["charge", "second"]
    assert api.call(done["calls"][1])["input"] == {"tag": "c"}
    pinned = api.get(f"operations/{done['operation_id']}/checkpoint")
    assert pinned["schema_version"] == "effectd-run-checkpoint-v1"
    assert [one["total"] for one in pinned["program"]["bindings"]["due"]] == [1, 3]
    assert pinned["effects"][0]["effect_id"] == effect_id


@pytest.mark.guarantee("P4", "R11")
def test_a_handler_that_changes_nothing_gives_what_it_printed(calm_daemon: Daemon) -> None:
    tag = fresh_id("t")
    nodes = [
        call("idle", f"{tag}-1", effects=[]),
        call("denied", f"{tag}-2", fails=["key"]),
        give(all=expr("[idle, denied]")),
    ]
    done = send(calm_daemon.api, nodes, wait_ms=60_000).ok()
    assert (done["state"], done["result"]) == ("succeeded", {"all": [{}, {}]})
    assert calm_daemon.world.changes(tag) == {}


@pytest.mark.guarantee("P4", "R1")
def test_a_killed_program_goes_on_at_the_interrupted_node(daemon: Daemon) -> None:
    api, world, tag = daemon.api, daemon.world, fresh_id("t")
    nodes = [
        call("one", f"{tag}-1", note=True),
        call("two", f"{tag}-2"),
        call("three", f"{tag}-3"),
        give(all=expr("[one.receipt, two.receipt, three.receipt]")),
    ]
    world.hold(f"{tag}-2 made key")
    accepted = send(api, nodes, "m1").ok()
    one = accepted["operation_id"]
    world.arrived(f"{tag}-2 made key")
    daemon.kill9()
    daemon.start()
    world.release()
    stands = api.final(one)
    assert stands["state"] == "unknown"
    assert world.changes(f"{tag}-3") == {}
    resumed = api.resume(one).ok()
    assert resumed["state"] == "succeeded"
    assert [world.changes(f"{tag}-{n}") for n in (1, 2, 3)] == [
        {effect: 1} for n in (1, 2, 3) for effect in world.changes(f"{tag}-{n}")
    ]
    assert world.arrivals(f"{tag}-1 made key") == 1
    assert world.arrivals(f"{tag}-2 made key") == 2
    assert len(resumed["result"]["all"]) == 3
    again = send(api, nodes, "m1").ok()
    assert again["operation_id"] == one


@pytest.mark.guarantee("P6", "R1")
def test_an_approval_waits_over_a_restart_and_is_answered_once(daemon: Daemon) -> None:
    api, tag = daemon.api, fresh_id("t")
    nodes = [approve(), call("charge", tag), give(by=expr("ok.choice"))]
    waiting = send(api, nodes, wait_ms=60_000).ok()
    one = waiting["operation_id"]
    assert waiting["state"] == "waiting"
    daemon.restart()
    assert api.operation(one)["state"] == "waiting"
    assert "approve" in api.recovery(one)["allowed_actions"]
    assert api.resume(one).code == "NotResumable"
    (asked,) = [a for a in api.get("approvals")["items"] if a["operation_id"] == one]
    assert api.status()["needs"]["approval"] == 1
    assert asked["occurrence"] == "ok"
    path = f"operations/{one}/approvals/ok"
    assert api.post(path, {"choice": "perhaps"}).code == "InvalidInput"
    assert api.post(path, {"choice": "approve"}).ok()["state"] == "answered"
    assert api.post(path, {"choice": "approve"}).ok()["choice"] == "approve"
    assert api.post(path, {"choice": "reject"}).code == "RequestConflict"
    assert api.get("approvals")["items"] == []
    done = api.final(one)
    assert done["state"] == "succeeded", [api.call(one) for one in done["calls"]]
    assert done["result"] == {"by": "approve"}
    assert list(daemon.world.changes(tag).values()) == [1]


@pytest.mark.guarantee("P6")
def test_nobody_answers_in_time_and_a_rejection_stops(calm_daemon: Daemon) -> None:
    api, tag = calm_daemon.api, fresh_id("t")
    nodes = [approve(expires_ms=200), call("charge", tag), give()]
    one = send(api, nodes).ok()["operation_id"]
    deadline = time.monotonic() + 60
    while (stands := api.operation(one))["state"] == "waiting":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert stands["state"] == "stopped"
    assert stands["program"]["ended"]["code"] == "DecisionExpired"
    refused = api.post(f"operations/{one}/approvals/ok", {"choice": "approve"})
    assert refused.code == "DecisionExpired"
    two = send(api, [approve(), call("charge", tag), give()], wait_ms=60_000).ok()["operation_id"]
    api.post(f"operations/{two}/approvals/ok", {"choice": "reject", "comment": "no"}).ok()
    assert api.operation(two)["state"] == "stopped"
    assert calm_daemon.world.changes(tag) == {}


@pytest.mark.guarantee("P5")
def test_branches_run_beside_one_another_and_finished_ones_are_not_run_again(
    daemon: Daemon,
) -> None:
    api, world, tag = daemon.api, daemon.world, fresh_id("t")
    branches = {f"b{n}": [call("c", f"{tag}-{n}", note=True)] for n in range(3)}
    nodes = [{"id": "all", "parallel": {"branches": branches}}, give(all=expr("all"))]
    world.hold(f"{tag}-1 made key")
    one = send(api, nodes).ok()["operation_id"]
    world.arrived(f"{tag}-1 made key")
    deadline = time.monotonic() + 60
    while [api.call(c)["state"] for c in api.operation(one)["calls"]].count("succeeded") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    daemon.kill9()
    daemon.start()
    world.release()
    done = api.resume(one).ok()
    assert done["state"] == "succeeded", done
    assert set(done["result"]["all"]) == {"b0", "b1", "b2"}
    assert [world.arrivals(f"{tag}-{n} made key") for n in range(3)] == [1, 2, 1]
    assert [list(world.changes(f"{tag}-{n}").values()) for n in range(3)] == [[1], [1], [1]]


@pytest.mark.guarantee("P1", "P2")
def test_what_is_no_program_is_refused_with_every_fault(calm_daemon: Daemon) -> None:
    api = calm_daemon.api
    nodes = [
        {"id": "a", "bind": "input.["},
        {"id": "l", "loop": []},
        {"id": "b", "call_tool": {"handler": "key", "input": expr("nothing.here")}},
    ]
    refused = send(api, nodes)
    assert refused.code == "InvalidInput"
    pointers = [one["pointer"] for one in refused.document["faults"]]
    assert pointers == [
        "/program/nodes/0/bind",
        "/program/nodes/1/loop",
        "/program/nodes/2/call_tool/input/$",
        "/program/nodes/2",
    ]
    unknown = send(api, [{"id": "a", "call_tool": {"handler": "no", "input": 1}}, give()])
    assert unknown.code == "UnknownHandler"
    assert api.get("schemas/program-v1")["$id"] == "urn:effectd:schema:effectd-program-v1"


@pytest.mark.guarantee("P6", "R8")
def test_the_sdk_sends_a_program_and_answers_its_approval(calm_daemon: Daemon) -> None:
    program = {"schema_version": SCHEMA, "nodes": [approve(), give(n=expr("input.n"))]}
    with Client(calm_daemon.api.socket_path) as client:
        asked = {"message_id": fresh_id("m"), "max_run_ms": 60_000, "program_input": {"n": 7}}
        one = client.send_program(program, **asked)["operation_id"]
        assert client.send_program(program, **asked)["operation_id"] == one
        assert [a["occurrence"] for a in client.approvals() if a["operation_id"] == one] == ["ok"]
        answered = client.answer(one, "ok", "approve", comment="fine")
        assert answered["comment"] == "fine"
        assert client.operation(one, wait_ms=60_000)["result"] == {"n": 7}


@pytest.mark.guarantee("R6", "R8")
def test_a_journal_with_programs_of_another_version_is_served_and_moves_none_of_them(
    daemon: Daemon,
) -> None:
    api, world, tag = daemon.api, daemon.world, fresh_id("t")
    nodes = [call("one", f"{tag}-1"), call("two", f"{tag}-2"), give()]
    world.hold(f"{tag}-2 made key")
    one = send(api, nodes, "unknown").ok()["operation_id"]
    two = send(api, [approve(), give()], "asking", wait_ms=60_000).ok()["operation_id"]
    world.arrived(f"{tag}-2 made key")
    daemon.kill9()
    world.release()
    written = [
        tuple(attrs.evolve(r, version=2) if isinstance(r, ProgramAccepted) else r for r in frame)
        for frame in journals.read(daemon.state / "journal")
    ]
    journals.write(daemon.state / "journal", written)
    daemon.start()
    assert (api.operation(one)["state"], api.operation(two)["state"]) == ("unknown", "interrupted")
    assert api.get("approvals")["items"] == []
    assert api.resume(one).code == "NotResumable"
    assert api.post(f"operations/{two}/approvals/ok", {"choice": "approve"}).code == "NotResumable"
    assert send(api, nodes, "unknown").ok()["operation_id"] == one
    assert send(api, [give()], "unknown").code == "RequestConflict"
    recovery = api.recovery(one)
    assert set(recovery["allowed_actions"]) == {"cancel", "extend", "resolve"}
    assert "this effectd by 1" in recovery["refusals"][0]["detail"]
    assert api.get(f"operations/{one}/checkpoint")["program"]["version"] == 2
    effect = recovery["effects"][1]
    settled = {"outcome": "applied", "evidence": "seen", "if_revision": effect["revision"]}
    api.post(f"effects/{effect['effect_id']}/resolve", settled).ok()
    assert api.operation(one)["state"] == "interrupted"
    assert [api.cancel(each).ok()["state"] for each in (one, two)] == ["cancelled"] * 2
    daemon.restart()
    assert [api.operation(each)["state"] for each in (one, two)] == ["cancelled"] * 2
    assert [list(world.changes(f"{tag}-{n}").values()) for n in (1, 2)] == [[1], [1]]
