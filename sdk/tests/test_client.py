"""The rest of the client: objects, lists, events, what may be sent twice, what is too long."""

from __future__ import annotations

import grp
import json
import os
import pwd  # noqa: F401  # loaded before the test that cannot read it any more
import socket
import subprocess
import sys
import time

import pytest

from effectd import errors
from effectd._socket import SYSTEM_SOCKET, candidates
from effectd.client import Client
from sdk.tests.fake_daemon import DROP, Raw, Say, chunked, problem

ITEM = Say(200, {"id": "x"})
CHECKPOINT = {"revision": 4, "digest": "sha256:aa"}


# --- objects -------------------------------------------------------------------------------

GETS = [
    ("status", (), {}, "/v1/status", ""),
    ("operation", ("op_1",), {}, "/v1/operations/op_1", ""),
    ("operation", ("op_1",), {"wait_ms": 50}, "/v1/operations/op_1", "wait_ms=50"),
    ("call", ("call_1",), {"wait_ms": 50}, "/v1/calls/call_1", "wait_ms=50"),
    ("recovery", ("op_1",), {}, "/v1/operations/op_1/recovery", ""),
    ("effect", ("eff_1",), {}, "/v1/effects/eff_1", ""),
    ("operation", ("../a b?c",), {}, "/v1/operations/..%2Fa%20b%3Fc", ""),
]


@pytest.mark.parametrize(("method", "args", "kwargs", "path", "query"), GETS)
def test_each_object_has_its_address(server, client, method, args, kwargs, path, query):
    server.replies(ITEM)
    assert getattr(client, method)(*args, **kwargs) == {"id": "x"}
    asked = server.asked[-1]
    assert (asked.method, asked.path, asked.query) == ("GET", path, query)


def test_gets_are_repeated_when_their_answer_is_lost(server, client):
    server.replies(DROP, problem(503, "Draining", retryable=True), ITEM)
    assert client.operation("op_1") == {"id": "x"}


POSTS = [
    # method, arguments, path, body, whether it is sent again when the answer is lost
    ("cancel", ("op_1", "why"), "operations/op_1/cancel", {"reason": "why"}, True),
    ("extend", ("op_1", 9, "x"), "operations/op_1/extend", {"max_run_ms": 9, "reason": "x"}, False),
    ("reconcile", ("eff_1",), "effects/eff_1/reconcile", {}, False),
]


@pytest.mark.parametrize(("method", "args", "path", "body", "repeatable"), POSTS)
def test_a_post_is_sent_twice_only_where_that_is_the_same_as_once(
    server, client, method, args, path, body, repeatable
):
    server.replies(DROP, ITEM)
    if repeatable:
        assert getattr(client, method)(*args) == {"id": "x"}
    else:
        with pytest.raises(errors.AnswerLost) as caught:
            getattr(client, method)(*args)
        assert not caught.value.retryable
        assert "again" not in str(caught.value) + caught.value.for_model
    assert len(server.asked) == 1 + repeatable
    assert all((one.path, one.body) == (f"/v1/{path}", body) for one in server.asked)


def test_an_unknown_acceptance_of_what_has_no_id_is_not_sent_again(server, client):
    server.replies(problem(503, "AcceptanceUnknown", retryable=True), ITEM)
    with pytest.raises(errors.Unavailable):
        client.extend("op_1", 9, "x")
    assert len(server.asked) == 1


def test_what_was_surely_refused_is_sent_again_even_without_an_id(server, client):
    server.replies(problem(503, "JournalUnavailable", retryable=True), ITEM)
    assert client.extend("op_1", 9, "x") == {"id": "x"}


def test_a_kept_connection_is_not_used_for_what_must_not_be_sent_twice(server, client):
    server.replies(ITEM)
    client.status()
    client.status()
    client.reconcile("eff_1")
    first, second, third = (one.connection for one in server.asked)
    assert first == second != third


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced_unnoticed(server, client):
    server.replies(ITEM)
    client.status()
    server.stop()
    server.start()
    assert client.status() == {"id": "x"}
    assert len(server.asked) == 2


def test_a_resolve_names_the_revision_that_was_looked_at(server, client):
    server.replies(Say(200, {"revision": 3}), DROP, ITEM)
    client.resolve("eff_1", "applied", "seen in the dashboard", result={"id": 1})
    assert [one.method for one in server.asked] == ["GET", "POST", "POST"]
    assert (
        server.asked[-1].body
        == server.asked[-2].body
        == {
            "outcome": "applied",
            "evidence": "seen in the dashboard",
            "if_revision": 3,
            "result": {"id": 1},
        }
    )
    client.resolve("eff_1", "not_applied", "no trace", if_revision=2)
    assert server.asked[-1].body == {
        "outcome": "not_applied",
        "evidence": "no trace",
        "if_revision": 2,
    }
    client.resolve("eff_1", "applied", "there", if_revision=2, result=None)
    assert server.asked[-1].body["result"] is None


def test_an_outcome_that_nobody_can_state_is_refused_before_anything_is_sent(server, client):
    with pytest.raises(ValueError, match="not_applied"):
        client.resolve("eff_1", "unknown", "?")
    assert server.asked == []


def test_a_resume_reads_recovery_first(server, client):
    server.replies(Say(200, {"allowed_actions": ["resume"], "checkpoint": CHECKPOINT}), ITEM)
    client.resume("op_1", resume_request_id="rr-1")
    assert server.asked[-1].body == {
        "schema_version": "effectd-operation-resume-request-v1",
        "operation_id": "op_1",
        "checkpoint_revision": 4,
        "checkpoint_digest": "sha256:aa",
        "resume_request_id": "rr-1",
    }


def test_a_resume_from_a_checkpoint_that_was_kept_reads_nothing(server, client):
    server.replies(ITEM)
    client.resume("op_1", resume_request_id="rr-1", checkpoint=CHECKPOINT)
    assert [one.path for one in server.asked] == ["/v1/operations/op_1/resume"]


@pytest.mark.parametrize(
    ("refusals", "kind", "code"),
    [
        ([{"code": "EffectOutcomeUnknown"}], errors.OutcomeUnknown, "EffectOutcomeUnknown"),
        ([{"code": "PreviousAttemptAlive"}], errors.Conflict, "PreviousAttemptAlive"),
        ([], errors.Refused, "NotResumable"),
    ],
)
def test_a_resume_that_is_not_offered_says_why(server, client, refusals, kind, code):
    server.replies(Say(200, {"allowed_actions": [], "refusals": refusals, "state": "failed"}))
    with pytest.raises(kind) as caught:
        client.resume("op_1")
    assert caught.value.code == code
    assert len(server.asked) == 1


# --- lists ---------------------------------------------------------------------------------


@pytest.mark.parametrize("noun", ["operations", "effects"])
def test_lists_are_read_page_by_page(server, client, noun):
    server.replies(
        Say(200, {"items": [{"n": 3}, {"n": 2}], "next_cursor": "c1"}),
        DROP,
        Say(200, {"items": [{"n": 1}], "next_cursor": None}),
    )
    found = getattr(client, noun)(state="unknown", needs=None)
    assert [item["n"] for item in found] == [3, 2, 1]
    assert [one.query for one in server.asked] == [
        "limit=200&state=unknown",
        *["limit=200&state=unknown&cursor=c1"] * 2,
    ]


def test_the_list_of_handlers_has_no_pages(server, client):
    server.replies(Say(200, {"items": [{"name": "a"}]}))
    assert client.handlers() == [{"name": "a"}]
    assert server.asked[0].query == ""


def test_a_list_that_runs_in_a_circle_is_not_followed_for_ever(server, client):
    server.replies(Say(200, {"items": [], "next_cursor": "c1"}))
    with pytest.raises(errors.BadAnswer, match="cursor"):
        client.operations()


# --- events --------------------------------------------------------------------------------


def event(position, name):
    return json.dumps({"position": position, "type": name}).encode() + b"\n"


def names(events):
    return [one["type"] for one in events]


def test_events_are_given_once_and_keep_alive_lines_are_not_events(server, client):
    server.replies(
        Raw(chunked(b"\n", event(1, "a") + b"\r\n", b"\n", event(2, "b")[:9], event(2, "b")[9:]))
    )
    assert names(client.events()) == ["a", "b"]
    assert server.asked[0].query == "after=0"


@pytest.mark.guarantee("R9")
def test_a_stream_that_breaks_goes_on_where_it_was_even_within_one_frame(server, client):
    frame = [event(5, "b1"), event(5, "b2"), event(5, "b3")]
    server.replies(
        Raw(chunked(event(4, "a"), frame[0], frame[1], frame[2][:5], end=False)),
        DROP,
        Raw(chunked(*frame[:1], end=False)),  # shorter than before
        Raw(chunked(*frame, event(6, "c"))),
    )
    assert names(client.first_events(5, after=3)) == ["a", "b1", "b2", "b3", "c"]
    assert [one.query for one in server.asked] == [
        "after=3&follow=1",
        *["after=4&follow=1"] * 3,
    ]


def test_a_followed_stream_that_ends_is_asked_for_again(server, client):
    server.replies(Raw(chunked(event(1, "a"))), Raw(chunked(event(1, "a"), event(2, "b"))))
    assert names(client.first_events(2)) == ["a", "b"]


def test_a_stream_that_is_followed_across_a_restart_is_found_again(server, client):
    server.replies(Raw(chunked(event(1, "a"), end=False)), Raw(chunked(event(2, "b"), end=False)))
    script = server.script

    def restarts(asked):
        server.script = script
        reply = script(asked)
        server.stop()
        server.start()
        return reply

    server.script = restarts
    assert names(client.first_events(1)) == ["b"]


def test_events_that_are_gone_are_a_refusal(server, client):
    server.replies(problem(410, "EventsExpired", earliest=17))
    with pytest.raises(errors.Expired) as caught:
        client.events(3, follow=True)
    assert caught.value.document["earliest"] == 17


def test_an_endless_stream_that_stays_silent_ends_with_patience(server, make_client):
    server.replies(Raw(chunked()))
    with pytest.raises(errors.AnswerLost):
        make_client(server.path, patience_ms=200).first_events(1)
    assert 2 <= len(server.asked) < 20


@pytest.mark.parametrize("data", [b"[1]\n", b"{}\n", b"nonsense\n", event(5, "x") + event(4, "y")])
def test_what_is_not_an_event_is_not_passed_on(server, client, data):
    server.replies(Raw(chunked(data)))
    with pytest.raises(errors.BadAnswer):
        client.events(follow=True)


def test_an_event_without_an_end_is_not_read_for_ever(server, client):
    server.replies(Raw(chunked(*[b"x" * 1_000_000] * 5)))
    with pytest.raises(errors.BadAnswer, match="longer"):
        client.events(follow=True)


# --- bounds and garbage --------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\n"
BAD = [
    b"SSH-2.0-OpenSSH\r\n",
    b"\x16\x03\x01\x02\x00garbage",
    b"HTTP/2 200 OK\r\n\r\n",
    b"HTTP/1.1 OK\r\n\r\n",
    OK + b"no colon\r\n\r\n",
    OK + b"Content-Length: -1\r\n\r\n",
    OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    OK + b"Content-Length: 99999999999999999999\r\n\r\n",
    OK + b"Content-Length: 1001\r\n\r\n",
    OK + b"X: " + b"y" * 70_000,
    OK + b"\r\n" + b"x" * 1_001,
    OK + b"Transfer-Encoding: gzip\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1_001,
    OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 2_000,
    OK + b"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
    OK + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n[]",
    OK + b"Content-Length: 2\r\n\r\n{}",
]


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data)[:60])
def test_an_answer_that_is_garbage_or_too_long_is_refused_at_once(server, make_client, data):
    server.replies(Raw(data, close=False))
    client = make_client(server.path, max_answer_bytes=1_000)
    with pytest.raises(errors.BadAnswer):
        client.status()
    assert len(server.asked) == 1


def test_json_that_nests_too_deep_is_a_bad_answer(server, client):
    body = b"[" * 200_000
    server.replies(Raw(OK + b"Content-Type: application/json\r\n\r\n" + body))
    with pytest.raises(errors.BadAnswer):
        client.status()


def test_an_interim_answer_is_not_the_answer(server, client):
    body = b'{"id": 1}'
    head = OK + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    server.replies(Raw(b"HTTP/1.1 100 Continue\r\n\r\n" + head + body, close=False))
    assert client.status() == {"id": 1}


def test_a_request_that_is_answered_before_it_is_read_gets_that_answer(directory, make_client):
    path = str(directory / "early.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(60)
        program = (
            "import sys\nfrom effectd.client import Client, LimitExceeded\n"
            "try:\n    Client(sys.argv[1]).dispatch('h', 'x' * 3_000_000)\n"
            "except LimitExceeded:\n    sys.exit(7)"
        )
        if make_client(path).loop is not None:
            program = (
                "import asyncio, sys\nfrom effectd.client import AsyncClient, LimitExceeded\n"
                "try:\n    asyncio.run(AsyncClient(sys.argv[1]).dispatch('h', 'x' * 3_000_000))\n"
                "except LimitExceeded:\n    sys.exit(7)"
            )
        child = subprocess.Popen([sys.executable, "-c", program, path])
        try:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1_000)
                body = b'{"code": "LimitExceeded"}'
                kind = b"Content-Type: application/problem+json\r\nConnection: close\r\n"
                length = b"Content-Length: %d\r\n\r\n" % len(body)
                connection.sendall(b"HTTP/1.1 413 X\r\n" + kind + length + body)
            assert child.wait(60) == 7
        finally:
            child.kill()
            child.wait()


# --- request -------------------------------------------------------------------------------


def test_a_request_is_sent_once_and_every_status_is_an_answer(server, client):
    server.replies(problem(409, "RequestConflict"), Raw(OK + b"Content-Length: 2\r\n\r\nhi"), DROP)
    refused = client.request("POST", "/v1/dispatch", {"a": 1})
    assert (refused.status, refused.document["code"]) == (409, "RequestConflict")
    assert refused.headers["content-type"] == "application/problem+json"
    assert client.request("GET", "/metrics").document == "hi"
    with pytest.raises(errors.AnswerLost):
        client.request("POST", "/v1/dispatch", {"a": 1})
    assert len(server.asked) == 3


def test_a_request_that_takes_too_long_is_given_up(server, client):
    server.replies(Raw(OK, close=False))
    began = time.monotonic()
    with pytest.raises(errors.AnswerLost, match="in time"):
        client.request("POST", "/v1/dispatch", {}, timeout=0.2)
    assert 0.2 <= time.monotonic() - began < 5
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/a b", None),
        ("GET", "/v1/a\r\nX: y", None),
        ("GET", "v1/status", None),
        ("GET /", "/", None),
        ("POST", "/v1/x", float("nan")),
        ("POST", "/v1/x", "\ud800"),
    ],
)
def test_what_http_or_json_cannot_carry_is_not_sent(server, client, method, path, body):
    with pytest.raises(ValueError):
        client.request(method, path, body)
    assert server.asked == []


# --- the socket ----------------------------------------------------------------------------

LOOKUP = [
    ("/a", {"EFFECTD_SOCKET": "/b"}, ("/a",)),
    (None, {"EFFECTD_SOCKET": "/b", "XDG_RUNTIME_DIR": "/c"}, ("/b",)),
    (
        None,
        {"XDG_RUNTIME_DIR": "/c", "HOME": "/h"},
        (SYSTEM_SOCKET, "/c/effectd/effectd.sock", "/h/.local/state/effectd/effectd.sock"),
    ),
    (
        None,
        {"XDG_STATE_HOME": "/s", "HOME": "/h"},
        (SYSTEM_SOCKET, "/s/effectd/effectd.sock"),
    ),
    (None, {}, (SYSTEM_SOCKET,)),
]


@pytest.mark.parametrize(("argument", "environ", "paths"), LOOKUP)
def test_the_socket_is_looked_for_in_this_order(argument, environ, paths):
    if environ == {}:
        assert candidates(argument, environ)[0] == SYSTEM_SOCKET
    else:
        assert candidates(argument, environ) == paths


def test_an_argument_can_be_any_path(server, directory):
    server.replies(ITEM)
    with Client(directory / "effectd.sock") as client:
        assert client.status() == {"id": "x"}


def test_a_client_stays_with_the_daemon_that_it_found(server, directory, monkeypatch):
    """Another daemon does not know the request ids of the first: asking it would run twice."""
    other = directory / "state" / "effectd" / "effectd.sock"
    other.parent.mkdir(parents=True)
    runtime = directory / "runtime" / "effectd"
    runtime.mkdir(parents=True)
    os.symlink(server.path, runtime / "effectd.sock")
    monkeypatch.delenv("EFFECTD_SOCKET", raising=False)
    monkeypatch.setattr("effectd._socket.SYSTEM_SOCKET", str(directory / "none"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(directory / "state"))
    server.replies(ITEM)
    with socket.socket(socket.AF_UNIX) as second, Client(patience_ms=200) as client:
        second.bind(str(other))
        second.listen()
        client.status()
        server.stop()
        with pytest.raises(errors.Unreachable) as caught:
            client.status()
    assert str(other) not in str(caught.value)


def test_nothing_there_says_where_was_looked(directory, monkeypatch, make_client):
    monkeypatch.delenv("EFFECTD_SOCKET", raising=False)
    monkeypatch.setattr("effectd._socket.SYSTEM_SOCKET", str(directory / "none"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory / "r"))
    monkeypatch.setenv("XDG_STATE_HOME", str(directory / "s"))
    with pytest.raises(errors.Unreachable) as caught:
        make_client(None, patience_ms=100).dispatch("h", {}, request_id="r-1")
    assert len(caught.value.checklist) == 3
    assert all(line.endswith(": missing") for line in caught.value.checklist)
    assert "EFFECTD_SOCKET" in caught.value.fix
    assert caught.value.request_id == "r-1"
    assert not isinstance(caught.value, errors.AnswerLost)


def _refused(directory):
    path = directory / "stale.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    return path


def _file(directory):
    path = directory / "file.sock"
    path.touch()
    return path


UNREACHABLE = [
    (lambda d: d / "none.sock", "missing", True),
    (_refused, "nobody listens", True),
    (_file, "not a socket", True),
    (lambda d: d / ("x" * 120), "too long", False),
]


@pytest.mark.parametrize(("make", "says", "temporary"), UNREACHABLE)
def test_each_kind_of_unreachable_says_what_it_is(directory, make_client, make, says, temporary):
    path = make(directory)
    with pytest.raises(errors.Unreachable, match=says) as caught:
        make_client(path, patience_ms=0).status()
    assert str(path) in str(caught.value)
    assert caught.value.temporary is temporary


def test_permission_denied_names_the_group_to_join_and_is_not_waited_out(server, directory):
    os.chmod(server.path, 0)
    os.chmod(directory, 0o755)
    group = grp.getgrgid(os.stat(server.path).st_gid).gr_name
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:  # root is let in whatever the mode says: be somebody else
        said = "nothing"
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        began = time.monotonic()
        try:
            Client(server.path).status()
        except errors.Unreachable as error:
            said = f"{time.monotonic() - began < 1.5} {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader) as pipe:
        said = pipe.read()
    assert said.startswith("True Unreachable")
    assert f"permission denied (the socket belongs to group {group})" in said
    assert "effectd-clients" in said if group == "root" else f"usermod -aG {group}" in said


def test_a_full_queue_is_waited_for_and_is_not_a_connection(directory, make_client):
    path = str(directory / "busy.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        while True:  # until the queue is full
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            waiting.append(sock)
            try:
                sock.connect(path)
            except BlockingIOError:
                break
        program = (
            "import socket, sys, time\nlistener = socket.socket(fileno=int(sys.argv[1]))\n"
            "time.sleep(0.2)\n"
            "while True:\n"
            "    sock, _ = listener.accept()\n"
            "    if sock.recv(65536):\n"
            "        sock.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi')\n"
            "        break\n"
        )
        fd = listener.fileno()
        child = subprocess.Popen([sys.executable, "-c", program, str(fd)], pass_fds=[fd])
        for sock in waiting:
            sock.close()
        try:
            assert make_client(path).request("GET", "/x").document == "hi"
            assert child.wait(60) == 0
        finally:
            child.kill()
            child.wait()
