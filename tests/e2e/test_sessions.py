"""Sessions and messages: one operation for each, whoever sends it and however often."""

from __future__ import annotations

import pytest

from tests.e2e.support.api import Document, fresh_id
from tests.e2e.support.daemon import Daemon
from tests.e2e.test_api import together


def call(tag: str, **more: object) -> Document:
    return {
        "message_id": "m1",
        "max_run_ms": 600_000,
        "call": {"handler": "never", "input": {"tag": tag, "effects": ["never"]}},
        **more,
    }


@pytest.mark.guarantee("R8", "R13")
def test_fifty_clients_with_one_message_make_one_operation(calm_daemon: Daemon) -> None:
    api, tag = calm_daemon.api, fresh_id("tag")
    session = api.post("sessions", {}).ok()["session_id"]
    path = f"sessions/{session}/messages"
    answers = together(50, lambda: api.post(path, call(tag, wait_ms=60_000)))
    documents = [answer.ok() for answer in answers]
    assert len({document["operation_id"] for document in documents}) == 1
    assert {document["state"] for document in documents} == {"succeeded"}
    assert {document["session_id"] for document in documents} == {session}
    assert calm_daemon.world.arrivals(f"{tag} made never") == 1


@pytest.mark.guarantee("R8", "R9")
def test_a_session_and_its_messages_outlive_the_daemon(daemon: Daemon) -> None:
    api = daemon.api
    made = api.post("sessions", {"request_id": "s1", "labels": {"team": "billing"}})
    assert made.status == 201
    session = made.document["session_id"]
    path = f"sessions/{session}/messages"
    first = api.post(path, call("t", wait_ms=60_000)).ok()
    assert first["call"]["state"] == "succeeded"
    daemon.restart()
    assert api.post("sessions", {"request_id": "s1", "labels": {"team": "billing"}}).status == 200
    again = api.post(path, call("t")).ok()
    assert again["operation_id"] == first["operation_id"]
    assert again["result"] == first["result"]
    conflict = api.post(path, call("another"))
    assert (conflict.status, conflict.code) == (409, "RequestConflict")
    shown = api.get(f"sessions/{session}")
    assert shown["labels"] == {"team": "billing"}
    (message,) = shown["messages"]
    assert message == {
        "message_id": "m1",
        "operation_id": first["operation_id"],
        "kind": "dispatch",
        "state": "succeeded",
    }
    assert session in [one["session_id"] for one in api.get("sessions")["items"]]


@pytest.mark.guarantee("R8")
def test_a_dispatch_is_the_message_of_its_request_in_the_default_session(
    calm_daemon: Daemon,
) -> None:
    api, one = calm_daemon.api, fresh_id()
    given = {"tag": fresh_id("tag")}
    dispatched = api.dispatch("plain", given, one, max_run_ms=600_000, wait_ms=60_000).ok()
    body = {
        "message_id": one,
        "max_run_ms": 600_000,
        "call": {"handler": "plain", "input": given},
    }
    sent = api.post(f"sessions/{dispatched['session_id']}/messages", body)
    assert sent.status == 200
    assert sent.document["operation_id"] == dispatched["operation_id"]


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"call": None}, "InvalidInput", "/call"),
        ({"max_run_ms": 0}, "InvalidInput", "/max_run_ms"),
        ({"message_id": "a b"}, "InvalidInput", "/message_id"),
        ({"programme": {}}, "InvalidInput", "/programme"),
        ({"call": {"handler": "never"}}, "InvalidInput", "/call/input"),
        ({"call": {"handler": "nobody", "input": {}}}, "UnknownHandler", None),
        ({"open": True}, "InvalidInput", ""),
    ],
)
def test_a_message_that_is_not_well_formed_is_refused_with_its_pointer(
    calm_daemon: Daemon, change: Document, code: str, pointer: str | None
) -> None:
    api = calm_daemon.api
    session = api.post("sessions", {}).ok()["session_id"]
    refused = api.post(f"sessions/{session}/messages", {**call("t"), **change})
    assert refused.code == code
    assert refused.document.get("pointer") == pointer
    assert api.get(f"sessions/{session}")["messages"] == []


def test_a_session_that_is_not_there_takes_no_message(calm_daemon: Daemon) -> None:
    assert calm_daemon.api.post("sessions/ses_nothing/messages", call("t")).code == "NotFound"
    assert calm_daemon.api.ask("GET", "sessions/ses_nothing").code == "NotFound"
    assert calm_daemon.api.ask("GET", "sessions/uid:4000000").code == "NotFound"
