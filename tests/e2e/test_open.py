"""Open operations against a real daemon: an agent that is cut off, killed, and asks again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.api.open import GetNote
from supervisor.service import open as service
from tests.e2e.support.api import fresh_id
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.opened import Opened
from tests.e2e.support.processes import wait_until
from tests.e2e.test_api import together

EFFECT = {"never": "EffectOutcomeUnknown", "check": "ReconciliationRequired", "key": None}


def given(name: str, **more: Any) -> dict[str, Any]:
    return {"tag": fresh_id("tag"), "effects": [name], **more}


@pytest.mark.guarantee("A3", "A4", "A7")
def test_what_was_completed_comes_back_in_the_next_continuation_and_is_not_run(
    calm_daemon: Daemon,
) -> None:
    world, agent = calm_daemon.world, Opened(calm_daemon.api)
    assert (agent.document["state"], agent.note) == ("running", "")
    write = given("never")
    first = agent.called("never", write, "t1")
    assert (first["state"], first["answer"], first["replayed"]) == ("succeeded", "fresh", False)
    assert agent.called("never", write, "t1")["call_id"] == first["call_id"]
    assert agent.end().ok()["state"] == "interrupted"
    refused = agent.ask("never", write)
    assert refused.code == "ContinuationRefused"
    assert refused.document["fix"] == f"effectctl operations continue {agent.operation_id}"
    assert agent.go_on("auto").status == 202
    again = agent.ask("never", write)
    assert again.status == 200
    replayed = again.document["call"]
    assert (replayed["call_id"], replayed["result"]) == (first["call_id"], first["result"])
    assert replayed["replayed"] is True
    assert "completed before" in replayed["why"]
    assert list(world.changes(write["tag"]).values()) == [1]
    # One completion answers one repeat: a second one is meant.
    assert agent.called("never", write)["answer"] == "fresh"
    assert agent.called("plain", write)["answer"] == "fresh"
    assert agent.end("done").ok()["state"] == "succeeded"


@pytest.mark.guarantee("A6", "A7", "A8", "R1")
@pytest.mark.parametrize("name", EFFECT)
def test_a_write_whose_answer_died_with_the_daemon_is_decided_by_its_contract(
    daemon: Daemon, name: str
) -> None:
    api, world, agent, write = daemon.api, daemon.world, Opened(daemon.api), given(name)
    world.hold(f"{write['tag']} made {name}")
    accepted = agent.called(name, write, "t1", wait_ms=0)
    world.arrived(f"{write['tag']} made {name}")
    daemon.restart()
    world.release()
    assert agent.document["state"] == "unknown"
    assert [one["reason"] for one in agent.continuations] == ["restart"]
    assert agent.ask(name, write).code == "ContinuationRefused"
    assert agent.go_on("auto").code == "ContinuationRefused"
    assert "May have happened" in agent.note
    agent.go_on().ok()
    answer = agent.ask(name, write, "t2")
    assert answer.code == EFFECT[name]
    if name == "check":
        effect_id = answer.document["effect_id"]
        api.reconcile(effect_id).ok()
        assert api.effect(effect_id)["outcome"] == "applied"
        answer = agent.ask(name, write, "t2")
    if name != "never":
        call = answer.ok()["call"]
        assert (call["state"], call["replayed"]) == ("succeeded", name == "check")
        assert call["answer"] == {"key": "relaunched", "check": "restored"}[name]
        assert (call["retry_of"] == accepted["call_id"]) is (name == "key")
    assert list(world.changes(write["tag"]).values()) == [1]


@pytest.mark.guarantee("A6", "A9")
def test_a_write_that_still_runs_is_joined_and_both_hear_of_its_end(calm_daemon: Daemon) -> None:
    world, agent, write = calm_daemon.world, Opened(calm_daemon.api), given("never")
    world.hold(f"{write['tag']} made never")
    first = agent.called("never", write, wait_ms=0)
    world.arrived(f"{write['tag']} made never")
    agent.end("time_limit").ok()
    assert agent.document["state"] == "running"
    agent.go_on("auto").ok()
    joined = agent.called("never", write, "t2", wait_ms=0)
    assert (joined["call_id"], joined["answer"]) == (first["call_id"], "joined")
    world.release()
    assert agent.called("never", write, "t2")["state"] == "succeeded"
    assert list(world.changes(write["tag"]).values()) == [1]


@pytest.mark.guarantee("A9")
def test_stop_ends_what_runs_and_nothing_of_it_is_left(calm_daemon: Daemon) -> None:
    world, agent = calm_daemon.world, Opened(calm_daemon.api)
    running, waiting = given("single", meet=["before never"]), given("never")
    running["effects"] = ["never"]
    world.hold(f"{running['tag']} before never")
    held = agent.called("single", running, wait_ms=0)
    world.arrived(f"{running['tag']} before never")
    queued = agent.called("single", waiting, wait_ms=0)
    agent.end("stop").ok()
    api = calm_daemon.api
    ended = [api.get(f"calls/{one['call_id']}", wait_ms=60_000) for one in (held, queued)]
    assert [one["state"] for one in ended] == ["cancelled", "interrupted"]
    wait_until(lambda: not calm_daemon.handler_processes(), 60, "what was stopped is dead")
    assert agent.document["state"] == "interrupted"
    agent.go_on().ok()
    assert agent.called("single", waiting)["answer"] == "fresh"


@pytest.mark.guarantee("A8", "R13")
def test_of_ten_tabs_that_continue_at_once_one_does_and_the_others_are_told_which(
    calm_daemon: Daemon,
) -> None:
    agent = Opened(calm_daemon.api)
    agent.end().ok()
    names = iter([fresh_id("tab") for _ in range(10)])
    answers = together(10, lambda: agent.go_on("auto", 0, next(names)))
    (won,) = [one for one in answers if one.status == 202]
    opened = won.document["continuations"][1]
    lost = [one for one in answers if one is not won]
    assert {one.code for one in lost} == {"DurableResumeConflict"}
    assert all(repr(opened["request_id"]) in one.document["detail"] for one in lost)
    assert [one["n"] for one in agent.continuations] == [0, 1]
    assert agent.go_on("auto", 0, opened["request_id"]).status == 200


@pytest.mark.guarantee("R13", "A4")
def test_ten_clients_that_repeat_one_write_at_once_get_one_replay(calm_daemon: Daemon) -> None:
    agent, write = Opened(calm_daemon.api), given("key")
    first = agent.called("key", write)
    agent.end().ok()
    agent.go_on().ok()
    answers = together(10, lambda: agent.called("key", write, "same"))
    assert {(one["call_id"], one["replayed"]) for one in answers} == {(first["call_id"], True)}
    assert len(agent.document["calls"]) == 1


@pytest.mark.guarantee("A9", "A10", "R3")
def test_recovery_offers_to_continue_ready_to_send_until_a_new_message_comes(
    calm_daemon: Daemon,
) -> None:
    api, agent, write = calm_daemon.api, Opened(calm_daemon.api), given("never")
    agent.called("never", write)
    agent.end("rate_limit").ok()
    (action,) = [
        one for one in api.recovery(agent.operation_id)["actions"] if one["action"] == "continue"
    ]
    body = {**action["body"], "request_id": fresh_id("c")}
    assert api.ask("POST", action["path"].removeprefix("/v1/"), body).status == 202
    agent.end("error").ok()
    later = Opened(api, agent.session_id)
    assert f'"tag":"{write["tag"]}"' in later.note
    assert later.called("never", write)["answer"] == "fresh"
    refused = agent.go_on()
    assert refused.code == "ContinuationRefused"
    assert later.operation_id in refused.document["detail"]
    assert "continue" not in api.recovery(agent.operation_id)["allowed_actions"]


@pytest.mark.guarantee("A11")
@pytest.mark.parametrize(
    "body",
    [
        b'{"request_id": "t", "handler": "never", "input": {"a": 1, "a": 2}}',
        b'{"request_id": "t", "handler": "never", "input": NaN}',
        b'{"request_id": "t", "handler": "never", "input": 12345678901234567890}',
        b'{"request_id": "t", "handler": "never", "input": "\\ud800"}',
    ],
)
def test_what_cannot_be_compared_exactly_is_refused(calm_daemon: Daemon, body: bytes) -> None:
    agent = Opened(calm_daemon.api)
    assert calm_daemon.api.post(agent.path("calls"), body).code == "InvalidInput"
    assert agent.document["calls"] == []


@pytest.mark.parametrize(
    ("path", "body", "code", "pointer"),
    [
        ("calls", {"handler": "never", "input": 1}, "InvalidInput", "/request_id"),
        ("calls", {"request_id": "t", "handler": "never"}, "InvalidInput", "/input"),
        ("calls", {"request_id": "t", "handler": "no", "input": 1}, "UnknownHandler", None),
        (
            "calls",
            {"request_id": "t", "handler": "never", "input": 1, "continuation": -1},
            "InvalidInput",
            "/continuation",
        ),
        (
            "calls",
            {"request_id": "t", "handler": "never", "input": 1, "timeout_ms": 10**9},
            "InvalidInput",
            "/timeout_ms",
        ),
        ("continuations", {"trigger": "auto", "after": 0}, "InvalidInput", "/request_id"),
        (
            "continuations",
            {"trigger": "message", "after": 0, "request_id": "c"},
            "InvalidInput",
            "/trigger",
        ),
        ("continuations/0/end", {"reason": "restart"}, "InvalidInput", "/reason"),
        ("continuations/x/end", {"reason": "done"}, "NotFound", ""),
        ("continuations/9/end", {"reason": "done"}, "ContinuationRefused", None),
    ],
)
def test_what_is_not_well_formed_is_refused_and_changes_nothing(
    calm_daemon: Daemon, path: str, body: Any, code: str, pointer: str | None
) -> None:
    agent = Opened(calm_daemon.api)
    refused = calm_daemon.api.post(agent.path(path), body)
    assert (refused.code, refused.document.get("pointer")) == (code, pointer)
    assert agent.document["revision"] == 1


@pytest.mark.guarantee("A2")
async def test_a_note_that_cannot_be_made_is_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("no note today")

    async def read() -> None:
        pass

    monkeypatch.setattr(service, "note", broken)
    operation = SimpleNamespace(operation_id="op_1")
    context: Any = SimpleNamespace(
        read=read, operation=lambda *_: operation, engine=SimpleNamespace(state=None)
    )
    caller: Any = None
    response = await service.get_note(context, GetNote("op_1"), caller)
    assert (response.status, response.body) == (200, b'{"operation_id":"op_1","note":""}')
    assert "no note today" in capsys.readouterr().err
