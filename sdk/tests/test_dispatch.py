"""Dispatch against a real server: what is sent, how often, and what comes of it."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from effectd import errors
from effectd.client import AsyncClient, Client
from sdk.tests.fake_daemon import DROP, Raw, Say, problem

OP = "op_00000000000000000001"
CALL = "call_00000000000000000001"
RETRY = "call_00000000000000000002"
CHECKPOINT = {"revision": 4, "digest": "sha256:aa"}


def operation(state="succeeded", status=200, **more):
    return Say(status, {"operation_id": OP, "state": state, "calls": [CALL], **more})


def call(*attempts, **more):
    listed = [{"attempt": number, **attempt} for number, attempt in enumerate(attempts)]
    return {"call_id": CALL, "attempts": listed, **more}


def ended(outcome):
    return {"phase": "ended", "outcome": outcome}


INTERRUPTED = call({"phase": "interrupted"})


def recovery(*actions, refusals=()):
    return Say(
        200,
        {
            "operation_id": OP,
            "checkpoint": CHECKPOINT,
            "allowed_actions": list(actions),
            "refusals": list(refusals),
        },
    )


class Daemon:
    """Keeps operations by request id, as the real one does, and counts what it started."""

    def __init__(self, server, answer):
        self.started = []
        self.resumes = []
        self.answer = answer  # the operation as it is now
        self.recovery = recovery("resume", "cancel")
        self.after_resume = None
        server.script = self

    def __call__(self, asked):
        if asked.path == "/v1/dispatch":
            if asked.body["request_id"] not in self.started:
                self.started.append(asked.body["request_id"])
            return self.answer
        if asked.path == f"/v1/operations/{OP}":
            return self.answer
        if asked.path == f"/v1/operations/{OP}/recovery":
            return self.recovery
        if asked.path == f"/v1/operations/{OP}/resume":
            if asked.body["resume_request_id"] not in self.resumes:
                self.resumes.append(asked.body["resume_request_id"])
                self.answer = self.after_resume
            return self.answer
        raise AssertionError(asked)


def test_a_dispatch_sends_what_was_given_and_returns_the_result(server, client):
    server.replies(operation(result={"id": 7}))
    result = client.dispatch(
        "send-mail",
        {"to": "ä"},
        request_id="m-1",
        timeout_ms=100,
        max_run_ms=300,
        labels={"a": "b"},
    )
    assert result == {"id": 7}
    assert [(one.method, one.path) for one in server.asked] == [("POST", "/v1/dispatch")]
    assert server.asked[0].body == {
        "request_id": "m-1",
        "handler": "send-mail",
        "input": {"to": "ä"},
        "timeout_ms": 100,
        "max_run_ms": 300,
        "labels": {"a": "b"},
        "wait_ms": 30_000,
    }


def test_without_an_id_each_dispatch_gets_a_fresh_one_and_nothing_else_is_sent(server, client):
    server.replies(operation(result=1))
    client.dispatch("h", {})
    client.dispatch("h", {})
    first, second = (one.body for one in server.asked)
    assert set(first) == {"request_id", "handler", "input", "wait_ms"}
    assert first["request_id"] != second["request_id"]


def test_without_waiting_the_accepted_operation_is_returned(server, client):
    server.replies(operation("running", 202))
    assert client.dispatch("h", {}, wait=False)["state"] == "running"
    assert len(server.asked) == 1
    assert "wait_ms" not in server.asked[0].body


@pytest.mark.guarantee("R8", "R9")
def test_a_lost_answer_is_asked_for_under_the_same_request_id(server, client):
    server.replies(DROP, Raw(b"HTTP/1.1 200 OK\r\nContent-Le"), operation(result="done"))
    assert client.dispatch("h", {"n": 1}, request_id="r-1") == "done"
    assert [one.body["request_id"] for one in server.asked] == ["r-1"] * 3
    assert all(one.body == server.asked[0].body for one in server.asked)


def test_a_made_up_request_id_stays_the_same_when_the_answer_is_lost(server, client):
    server.replies(DROP, DROP, operation(result="done"))
    client.dispatch("h", {})
    assert len({one.body["request_id"] for one in server.asked}) == 1


@pytest.mark.parametrize("code", ["JournalUnavailable", "AcceptanceUnknown", "Draining"])
def test_a_503_that_says_so_is_answered_by_the_same_request(server, client, code):
    server.replies(problem(503, code, retryable=True), operation(result="done"))
    assert client.dispatch("h", {}, request_id="r-1") == "done"
    assert [one.body["request_id"] for one in server.asked] == ["r-1", "r-1"]


@pytest.mark.parametrize("code", ["SandboxUnavailable", "JournalCorrupt", "JournalRolledBack"])
def test_a_503_that_does_not_say_so_is_raised_at_once(server, client, code):
    server.replies(problem(503, code, retryable=False))
    with pytest.raises(errors.Unavailable) as caught:
        client.dispatch("h", {}, request_id="r-1")
    assert (caught.value.code, caught.value.request_id) == (code, "r-1")
    assert len(server.asked) == 1


def test_patience_ends_with_the_fault_and_names_the_request_to_send_again(server, make_client):
    server.replies(DROP)
    client = make_client(server.path, patience_ms=300)
    with pytest.raises(errors.AnswerLost) as caught:
        client.dispatch("h", {}, request_id="r-1")
    assert caught.value.request_id == "r-1"
    assert caught.value.retryable
    assert 2 <= len(server.asked) <= 12


def test_a_daemon_that_dies_with_a_request_in_its_hands_may_have_accepted_it(server, make_client):
    """Also when the request went over a connection that was kept from before."""
    server.script = lambda asked: server.stop() or DROP if asked.body else Say(200, {})
    client = make_client(server.path, patience_ms=300)
    client.status()
    with pytest.raises(errors.AnswerLost) as caught:
        client.dispatch("h", {}, request_id="r-1")
    assert "unknown whether the request was accepted" in caught.value.for_model
    assert caught.value.request_id == "r-1"


def test_a_client_that_knows_its_daemon_waits_for_it_to_come_back(server, make_client, monkeypatch):
    monkeypatch.setattr("effectd._flow.ARRIVE_MS", 50)
    server.replies(operation(result=1))
    client = make_client(server.path)
    client.dispatch("h", {})
    server.stop()
    timer = threading.Timer(0.3, server.start)  # longer than an unknown daemon is waited for
    timer.start()
    assert client.dispatch("h", {}) == 1
    timer.join()


def test_a_dispatch_can_have_a_patience_of_its_own(server, client):
    server.replies(problem(503, "Draining", retryable=True))
    with pytest.raises(errors.Unavailable):
        client.dispatch("h", {}, patience_ms=0)
    assert len(server.asked) == 1


def test_a_running_operation_is_waited_for_by_its_own_id(server, client):
    states = [operation("running", 202), operation("running"), operation(result=5)]
    server.replies(*states)
    assert client.dispatch("h", {}) == 5
    assert [one.path for one in server.asked] == ["/v1/dispatch"] + [f"/v1/operations/{OP}"] * 2
    assert [one.query for one in server.asked] == ["", "wait_ms=30000", "wait_ms=30000"]


def test_a_state_that_is_not_known_is_not_final(server, client):
    server.replies(operation("hibernating", 202), operation(result=5))
    assert client.dispatch("h", {}) == 5


@pytest.mark.guarantee("R1", "R3", "R4")
def test_a_daemon_that_restarts_during_the_wait_is_found_again_and_its_operation_resumed(
    server, client
):
    daemon = Daemon(server, operation("running", 202))
    daemon.after_resume = operation(result="done")
    script = server.script

    def dies_while_waiting(asked):
        if asked.method == "GET" and server.script is dies_while_waiting:
            server.script = script
            daemon.answer = operation("interrupted", call=INTERRUPTED)
            server.stop()
            threading.Timer(0.3, server.start).start()
        return script(asked)

    server.script = dies_while_waiting
    assert client.dispatch("h", {}, request_id="r-1") == "done"
    assert daemon.started == ["r-1"]
    resumes = [one.body for one in server.asked if one.path.endswith("/resume")]
    assert len(resumes) == 1
    resumes[0].pop("resume_request_id")
    assert resumes[0] == {
        "schema_version": "effectd-operation-resume-request-v1",
        "operation_id": OP,
        "checkpoint_revision": 4,
        "checkpoint_digest": "sha256:aa",
    }


def test_once_the_operation_is_known_no_dispatch_is_sent_any_more(server, client):
    server.replies(operation("running", 202), DROP, DROP, operation(result=1))
    client.dispatch("h", {})
    assert [one.method for one in server.asked] == ["POST", "GET", "GET", "GET"]


def test_a_resume_whose_answer_is_lost_is_the_same_resume(server, client):
    found = operation("interrupted", call=INTERRUPTED)
    server.replies(found, recovery("resume"), DROP, DROP, operation(result=1))
    assert client.dispatch("h", {}) == 1
    resumes = [one.body for one in server.asked if one.path.endswith("/resume")]
    assert len(resumes) == 3
    assert resumes[0] == resumes[1] == resumes[2]


def test_an_operation_is_resumed_as_often_as_recovery_allows(server, client):
    found = operation("interrupted", call=INTERRUPTED)
    server.replies(found, recovery("resume"), found, recovery("resume"), found, recovery("cancel"))
    with pytest.raises(errors.CallInterrupted):
        client.dispatch("h", {})
    resumes = [one.body for one in server.asked if one.path.endswith("/resume")]
    assert len({one["resume_request_id"] for one in resumes}) == len(resumes) == 2


def test_resuming_ends_with_patience(server, make_client):
    Daemon(server, operation("interrupted", call=INTERRUPTED)).after_resume = operation(
        "interrupted", call=INTERRUPTED
    )
    client = make_client(server.path, patience_ms=200)
    with pytest.raises(errors.CallInterrupted):
        client.dispatch("h", {})
    assert any(one.path.endswith("/resume") for one in server.asked)


@pytest.mark.parametrize(
    ("newest", "resumed"),
    [
        ({"phase": "interrupted"}, True),
        (ended("cancelled"), True),  # the daemon was stopped and ended it
        (ended("timed_out"), True),
        (ended("not_started"), True),
        (ended("failed"), False),
        (ended("succeeded"), False),
        (ended("some newer way"), False),
    ],
)
@pytest.mark.parametrize("state", ["interrupted", "unknown"])
def test_a_handler_that_exited_by_itself_is_never_resumed(server, client, newest, resumed, state):
    daemon = Daemon(server, operation(state, call=call({"phase": "interrupted"}, newest)))
    daemon.after_resume = operation(result="done")
    if resumed:
        assert client.dispatch("h", {}) == "done"
    else:
        with pytest.raises(errors.CallEnded):
            client.dispatch("h", {})
    assert len(daemon.resumes) == int(resumed)


def test_a_call_that_never_began_is_resumed(server, client):
    daemon = Daemon(server, operation("interrupted", call=call()))
    daemon.after_resume = operation(result="done")
    assert client.dispatch("h", {}) == "done"


@pytest.mark.parametrize("resume", ["never", None])
@pytest.mark.parametrize("state", ["interrupted", "unknown"])
def test_never_means_never(server, client, resume, state):
    daemon = Daemon(server, operation(state, call=INTERRUPTED))
    with pytest.raises(errors.CallEnded):
        client.dispatch("h", {}, resume=resume)
    assert daemon.resumes == []
    assert not any(one.path.endswith("/recovery") for one in server.asked)


def test_another_word_for_resume_is_refused_before_anything_is_sent(server, client):
    with pytest.raises(ValueError, match="if_safe"):
        client.dispatch("h", {}, resume="always")
    assert server.asked == []


def test_what_recovery_does_not_offer_is_not_asked_for_and_its_reason_is_told(server, client):
    daemon = Daemon(server, operation("unknown", call=INTERRUPTED))
    reason = {"code": "EffectOutcomeUnknown", "detail": "charge may have happened", "fix": "look"}
    daemon.recovery = recovery("resolve", refusals=[reason])
    with pytest.raises(errors.OutcomeUnknown) as caught:
        client.dispatch("h", {}, request_id="r-1")
    unknown = caught.value
    assert daemon.resumes == []
    assert "charge may have happened" in unknown.detail
    assert (unknown.fix, unknown.retryable) == ("look", False)
    assert (unknown.operation_id, unknown.request_id) == (OP, "r-1")
    assert "Do not do it again" in unknown.for_model


def test_a_resume_that_somebody_else_was_faster_with_is_waited_for(server, client):
    server.replies(
        operation("interrupted", call=INTERRUPTED),
        recovery("resume"),
        problem(409, "DurableResumeConflict"),
        operation("running"),
        operation(result="theirs"),
    )
    assert client.dispatch("h", {}) == "theirs"


@pytest.mark.parametrize("code", ["RunTimeBudgetExceeded", "HandlerArtifactChanged"])
def test_a_resume_that_is_refused_leaves_the_outcome_as_it_is(server, client, code):
    server.replies(
        operation("unknown", call=INTERRUPTED),
        recovery("resume"),
        problem(409, code, detail="this is why"),
    )
    with pytest.raises(errors.OutcomeUnknown, match="this is why") as caught:
        client.dispatch("h", {})
    assert caught.value.__cause__.code == code
    assert len(server.asked) == 3


@pytest.mark.parametrize("document", [{}, {"operation_id": 7}, {"call": {}}])
def test_an_answer_that_is_no_operation_is_a_bad_answer(server, client, document):
    server.replies(Say(200, document))
    with pytest.raises(errors.BadAnswer) as caught:
        client.dispatch("h", {}, request_id="r-1")
    assert caught.value.request_id == "r-1"


OUTCOMES = [
    # state, call, exception, code, retryable
    ("failed", call(ended("failed")), errors.CallFailed, "CallFailed", False),
    ("failed", call(ended("timed_out")), errors.CallTimedOut, "CallTimedOut", False),
    ("failed", call(ended("not_started")), errors.CallFailed, "CallFailed", False),
    ("cancelled", call(ended("cancelled")), errors.CallCancelled, "CallCancelled", False),
    ("stopped", call(), errors.CallFailed, "CallFailed", False),
    ("interrupted", INTERRUPTED, errors.CallInterrupted, "CallInterrupted", True),
    ("unknown", INTERRUPTED, errors.OutcomeUnknown, "EffectOutcomeUnknown", False),
]
OUTCOMES += [
    (state, {**what, "effects_applied": 1}, errors.PartlyApplied, "PartlyApplied", False)
    for state, what, _, _, _ in OUTCOMES[:6]
]
OUTCOMES += [
    (
        state,
        {**what, "effects_unknown": 1, "effects_applied": 1},
        errors.OutcomeUnknown,
        "EffectOutcomeUnknown",
        False,
    )
    for state, what, _, _, _ in OUTCOMES[:6]
]


@pytest.mark.parametrize(("state", "what", "kind", "code", "retryable"), OUTCOMES)
@pytest.mark.parametrize("inline", [True, False])
def test_every_ending_has_its_exception(server, client, state, what, kind, code, retryable, inline):
    found = operation(state, **({"call": what} if inline else {}))
    server.script = lambda asked: Say(200, what) if "calls" in asked.path else found
    with pytest.raises(errors.CallEnded) as caught:
        client.dispatch("h", {}, resume="never")
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert caught.value.retryable is retryable
    assert caught.value.document["state"] == state
    assert caught.value.call == what


def test_the_daemons_own_code_and_words_are_kept(server, client):
    reason = {"code": "EffectCorrelationMismatch", "detail": "ordinal 1", "fix": "compare"}
    server.replies(operation("failed", call=call(ended("failed"), error=reason)))
    with pytest.raises(errors.CallFailed) as caught:
        client.dispatch("h", {})
    assert str(caught.value) == "EffectCorrelationMismatch: ordinal 1\n  fix: compare"


def test_a_call_that_was_refused_before_any_attempt_raises_the_refusal(server, client):
    reason = {"code": "RunTimeBudgetExceeded", "detail": "no room", "fix": "extend"}
    server.replies(operation("failed", call=call(error=reason)))
    with pytest.raises(errors.LimitExceeded) as caught:
        client.dispatch("h", {})
    assert (caught.value.code, caught.value.operation_id) == ("RunTimeBudgetExceeded", OP)


def test_a_call_that_was_retried_ends_as_its_successor_did(server, client):
    successor = {"call_id": RETRY, "attempts": [ended("timed_out")]}
    first = call({"phase": "interrupted"}, retried_by=RETRY)
    server.replies(operation("failed", call=first), Say(200, successor))
    with pytest.raises(errors.CallTimedOut):
        client.dispatch("h", {})
    assert server.asked[-1].path == f"/v1/calls/{RETRY}"


def test_a_result_that_is_gone_is_not_none(server, client):
    server.replies(operation(call=call(ended("succeeded"), result_available=False)))
    with pytest.raises(errors.ResultUnavailable) as caught:
        client.dispatch("h", {})
    assert not caught.value.retryable


def test_a_result_of_null_is_a_result(server, client):
    done = call(ended("succeeded"), result_available=True, result=None)
    server.replies(operation(result=None, call=done))
    assert client.dispatch("h", {}) is None


REFUSALS = [
    (400, "InvalidInput", errors.InvalidInput),
    (403, "AccessDenied", errors.AccessDenied),
    (403, "AuthorityRevoked", errors.AccessDenied),
    (404, "UnknownHandler", errors.UnknownHandler),
    (409, "RequestConflict", errors.Conflict),
    (409, "HandlerArtifactChanged", errors.Conflict),
    (409, "SecretInRequest", errors.Refused),
    (409, "EffectOutcomeUnknown", errors.OutcomeUnknown),
    (409, "EffectResultUnavailable", errors.ResultUnavailable),
    (410, "OperationExpired", errors.Expired),
    (413, "LimitExceeded", errors.LimitExceeded),
    (409, "SomethingNewer", errors.Refused),
]


@pytest.mark.parametrize(("status", "code", "kind"), REFUSALS)
def test_every_refusal_has_its_exception_and_is_not_repeated(server, client, status, code, kind):
    server.replies(problem(status, code, detail="why", fix="do", needs="run", pointer="/input"))
    with pytest.raises(errors.EffectdError) as caught:
        client.dispatch("h", {}, request_id="r-1")
    refusal = caught.value
    assert type(refusal) is kind
    assert (refusal.code, refusal.detail, refusal.fix) == (code, "why", "do")
    assert (refusal.needs, refusal.pointer, refusal.request_id) == ("run", "/input", "r-1")
    assert len(server.asked) == 1


def test_a_429_is_repeated_only_where_it_says_so(server, client):
    server.replies(problem(429, "LimitExceeded", retryable=True), operation(result=1))
    assert client.dispatch("h", {}) == 1
    server.replies(problem(429, "LimitExceeded"))
    with pytest.raises(errors.LimitExceeded):
        client.dispatch("h", {})


def test_cancelling_the_task_leaves_the_operation_running(server):
    server.script = lambda asked: Raw(b"", close=False)  # it waits

    async def main():
        async with AsyncClient(server.path) as client:
            task = asyncio.create_task(client.dispatch("h", {}, request_id="r-1"))
            while not server.asked:  # noqa: ASYNC110  # another thread's list
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert [one.path for one in server.asked] == ["/v1/dispatch"]


def test_fifty_dispatches_at_once_get_their_own_answers(server):
    server.script = lambda asked: operation(result=asked.body["input"])

    async def main():
        async with AsyncClient(server.path) as client:
            work = [client.dispatch("h", number) for number in range(50)]
            return await asyncio.gather(*work)

    assert asyncio.run(main()) == list(range(50))


def test_threads_can_share_a_blocking_client(server):
    server.script = lambda asked: operation(result=asked.body["input"])
    found = {}
    with Client(server.path) as client:

        def work(number):
            found[number] = [client.dispatch("h", [number, turn]) for turn in range(10)]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: [[number, turn] for turn in range(10)] for number in range(8)}


def test_a_forked_child_does_not_use_its_parents_connection(server):
    server.script = lambda asked: operation(result=asked.connection)
    with Client(server.path) as client:
        first = client.dispatch("h", {})
        assert client.dispatch("h", {}) == first  # it is kept
        pid = os.fork()
        if pid == 0:
            os._exit(int(client.dispatch("h", {}) == first))
        _, status = os.waitpid(pid, 0)
        assert status == 0
        assert client.dispatch("h", {}) == first
