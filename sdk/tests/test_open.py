"""Open operations through both clients: an agent's calls, its note, its continuations."""

from __future__ import annotations

import os
from typing import Any

import pytest

from effectd.client import CallInterrupted, Conflict, OutcomeUnknown, Refused, ResultUnavailable
from sdk.tests.conftest import Face
from sdk.tests.fake_daemon import DROP, Say, Server, problem


def answered(state: str = "succeeded", **call: Any) -> dict[str, Any]:
    """An operation in which one call stands like this."""
    found = {"call_id": "call_1", "operation_id": "op_1", "state": state, **call}
    return {"operation_id": "op_1", "state": "running", "call": found}


def test_an_operation_is_opened_in_the_default_session_or_in_the_one_named(
    server: Server, client: Face
) -> None:
    server.replies(Say(202, {"operation_id": "op_1", "state": "running"}))
    assert client.open("m1", max_run_ms=60_000)["operation_id"] == "op_1"
    client.open("m2", max_run_ms=1, session_id="ses_1", labels={"a": "b"})
    first, second = server.asked
    assert first.path == f"/v1/sessions/uid%3A{os.getuid()}/messages"
    assert first.body == {"message_id": "m1", "max_run_ms": 60_000, "open": True}
    assert second.path == "/v1/sessions/ses_1/messages"
    assert second.body["labels"] == {"a": "b"}


def test_a_call_whose_answer_is_lost_is_asked_for_again_as_the_same_request(
    server: Server, client: Face
) -> None:
    server.replies(DROP, Say(200, answered(result=7, result_available=True)))
    assert client.invoke("op_1", "mail", {"to": "ann"}, request_id="t1", continuation=0) == 7
    first, second = (one.body for one in server.asked)
    assert first == second
    assert first["request_id"] == "t1"
    assert first["continuation"] == 0
    assert server.asked[0].path == "/v1/operations/op_1/calls"


def test_a_call_that_still_runs_is_waited_for_by_its_own_id(server: Server, client: Face) -> None:
    done = answered(result={"id": 1}, result_available=True)["call"]
    server.replies(Say(202, answered("running")), DROP, Say(200, done))
    assert client.invoke("op_1", "mail", {}, request_id="t1") == {"id": 1}
    assert [one.path for one in server.asked[1:]] == ["/v1/calls/call_1"] * 2


@pytest.mark.parametrize(
    ("state", "more", "kind"),
    [
        ("unknown", {"effects_unknown": 1}, OutcomeUnknown),
        ("interrupted", {}, CallInterrupted),
        ("refused", {"error": {"code": "HandlerArtifactChanged", "detail": "x"}}, Refused),
        ("succeeded", {"result_available": False}, ResultUnavailable),
    ],
)
def test_every_other_end_is_the_exception_that_a_dispatch_raises(
    server: Server, client: Face, state: str, more: dict[str, Any], kind: type[Exception]
) -> None:
    server.replies(Say(200, answered(state, **more)))
    with pytest.raises(kind) as caught:
        client.invoke("op_1", "mail", {}, request_id="t1")
    error: Any = caught.value
    assert (error.request_id, error.operation_id) == ("t1", "op_1")
    assert error.for_model


def test_an_identical_write_that_is_unknown_raises_that_and_not_a_mere_refusal(
    server: Server, client: Face
) -> None:
    server.replies(problem(409, "EffectOutcomeUnknown", detail="it is unknown"))
    with pytest.raises(OutcomeUnknown):
        client.invoke("op_1", "mail", {}, request_id="t2")
    assert len(server.asked) == 1


def test_the_next_continuation_is_asked_for_by_an_id_and_who_comes_second_hears_of_it(
    server: Server, client: Face
) -> None:
    server.replies(DROP, Say(202, {"operation_id": "op_1"}), problem(409, "DurableResumeConflict"))
    client.continue_("op_1", after=0, trigger="auto", request_id="tab1")
    assert server.asked[0].body == server.asked[1].body
    assert server.asked[0].body == {"trigger": "auto", "after": 0, "request_id": "tab1"}
    with pytest.raises(Conflict):
        client.continue_("op_1", after=0)
    with pytest.raises(ValueError, match="auto"):
        client.continue_("op_1", after=0, trigger="later")


def test_a_continuation_is_ended_for_a_reason_that_there_is(server: Server, client: Face) -> None:
    server.replies(DROP, Say(200, {"operation_id": "op_1"}))
    client.end("op_1", 2, "done")
    assert server.asked[1].path == "/v1/operations/op_1/continuations/2/end"
    assert server.asked[1].body == {"reason": "done"}
    with pytest.raises(ValueError, match="time_limit"):
        client.end("op_1", 2, "tired")


@pytest.mark.guarantee("A2")
def test_a_note_that_cannot_be_had_is_an_empty_one(server: Server, client: Face) -> None:
    server.replies(Say(200, {"note": "Done: ..."}), problem(404, "NotFound"))
    assert client.note("op_1") == "Done: ..."
    assert client.note("op_1") == ""
