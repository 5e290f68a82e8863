"""Bad input of any kind: a clear error, nothing changed, and the daemon still serves."""

from __future__ import annotations

import socket

import pytest

from tests.e2e.support.api import fresh_id
from tests.e2e.support.daemon import Daemon


def position(daemon: Daemon) -> int:
    return daemon.api.status()["journal"]["position"]


BODY = {"request_id": "r", "handler": "plain", "input": {}}

BODIES = {
    "no JSON": (b"{", "", "not JSON"),
    "no object": (b"[]", "", "an object is expected"),
    "a key twice": (b'{"handler": "a", "handler": "b"}', "", "'handler' is there twice"),
    "NaN": (b'{"input": NaN}', "", "NaN is not JSON"),
    "an integer that a double cannot carry": (b'{"input": 9007199254740993}', "", "kept exactly"),
    "a lone surrogate": (b'{"input": "\\ud800"}', "", "kept exactly"),
    "no UTF-8": (b'{"input": "\xff"}', "", "UTF-8"),
    "nested too deeply": (b'{"input": ' + b"[" * 100_000, "", "nested too deeply"),
    "a missing key": ({"request_id": "r", "handler": "plain"}, "/input", "'input' is missing"),
    "an unknown key": ({**BODY, "timeout": 5}, "/timeout", "did you mean 'timeout_ms'?"),
    "a wrong type": ({**BODY, "timeout_ms": "5"}, "/timeout_ms", "must be an integer"),
    "a boolean for a number": ({**BODY, "timeout_ms": True}, "/timeout_ms", "must be an integer"),
    "zero": ({**BODY, "max_run_ms": 0}, "/max_run_ms", "from 1"),
    "an id with a space": ({**BODY, "request_id": "a b"}, "/request_id", "letters, digits"),
    "an id that is too long": ({**BODY, "request_id": "a" * 129}, "/request_id", "1 to 128"),
    "labels of another kind": ({**BODY, "labels": {"a": 1}}, "/labels", "labels"),
    "more than the manifest's time": ({**BODY, "timeout_ms": 120_001}, "/timeout_ms", "at most"),
    "a wait that is too long": ({**BODY, "wait_ms": 60_001}, "/wait_ms", "from 0 to 60000"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_refused_with_its_pointer_and_changes_nothing(
    calm_daemon: Daemon, name: str
) -> None:
    body, pointer, words = BODIES[name]
    before = position(calm_daemon)
    answer = calm_daemon.api.post("dispatch", body)
    assert (answer.status, answer.code) == (400, "InvalidInput"), answer
    assert words in answer.document["detail"]
    assert answer.document["pointer"] == pointer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.document["fix"]
    assert position(calm_daemon) == before


def test_a_body_of_ten_megabytes_is_refused_unread(calm_daemon: Daemon) -> None:
    before = position(calm_daemon)
    connection = socket.socket(socket.AF_UNIX)
    with connection:
        connection.connect(calm_daemon.api.socket_path)
        connection.sendall(
            b"POST /v1/dispatch HTTP/1.1\r\nhost: x\r\ncontent-length: 10485760\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    assert position(calm_daemon) == before


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1/status",
        b"\x00" * 1_000,
        b"POST /v1/dispatch HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{",
    ],
    ids=["TLS", "HTTP/2", "half a line", "zeros", "half a body"],
)
def test_garbage_on_the_socket_disturbs_nobody(calm_daemon: Daemon, sent: bytes) -> None:
    before = position(calm_daemon)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(calm_daemon.api.socket_path)
        connection.sendall(sent)
        assert calm_daemon.api.dispatch("plain", {}, wait_ms=60_000).status == 200
    assert position(calm_daemon) > before
    assert "Traceback" not in calm_daemon.log


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "nothing", 404, "NotFound"),
        ("GET", "operations/op_00000000000000000000", 404, "NotFound"),
        ("GET", "calls/call_0000", 404, "NotFound"),
        ("GET", "effects/eff_0000", 404, "NotFound"),
        ("GET", "handlers/nobody", 404, "UnknownHandler"),
        ("GET", "operations?limit=0", 400, "InvalidInput"),
        ("GET", "operations?colour=red", 400, "InvalidInput"),
        ("GET", "operations?state=a&state=b", 400, "InvalidInput"),
        ("GET", "events?after=-1", 400, "InvalidInput"),
        ("POST", "status", 405, "InvalidInput"),
        ("DELETE", "operations/op_0", 405, "InvalidInput"),
        ("GET", "operations/..%2f..%2fetc", 404, "NotFound"),
    ],
)
def test_a_path_or_query_that_is_none_says_what_it_may_be(
    calm_daemon: Daemon, method: str, path: str, status: int, code: str
) -> None:
    answer = calm_daemon.api.ask(method, path, {} if method == "POST" else None)
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.document["fix"]


def test_input_that_does_not_fit_the_schema_names_the_place(calm_daemon: Daemon) -> None:
    schema = calm_daemon.handlers / "strict.schema.json"
    schema.write_text(
        '{"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}'
    )
    calm_daemon.add_handler(
        "strict",
        'manifest = 1\ncommand = ["/bin/cat"]\ntimeout_ms = 60_000\nread_only = true\n'
        'input_schema = "strict.schema.json"\n',
    )
    bad = calm_daemon.api.dispatch("strict", {"to": 5})
    assert (bad.code, bad.document["pointer"]) == ("InvalidInput", "/input/to")
    good = calm_daemon.api.dispatch("strict", {"to": "ann"}, wait_ms=60_000)
    assert good.ok()["result"] == {"to": "ann"}


def test_a_broken_manifest_takes_down_nobody_else(calm_daemon: Daemon) -> None:
    calm_daemon.add_handler("broken", 'manifest = 1\ncomand = ["/bin/true"]\ntimeout_ms = 1\n')
    answer = calm_daemon.api.dispatch("broken", {})
    assert answer.code == "UnknownHandler"
    assert "did you mean" in answer.document["detail"] or "command" in answer.document["detail"]
    assert calm_daemon.api.dispatch("plain", {}, wait_ms=60_000).status == 200
    (calm_daemon.handlers / "broken.toml").unlink()


def test_a_handler_that_talks_garbage_fails_alone(calm_daemon: Daemon) -> None:
    calm_daemon.add_program(
        "garbage",
        "import json, os, sys\n"
        "channel = open(3, 'r+b', buffering=0)\n"
        "heard = []\n"
        "for line in (b'\\xff\\xfe', b'[1]', b'{}', b'{\"type\":\"announce\"}',"
        ' b\'{"type":"confirm","ordinal":true,"outcome":"applied"}\'):\n'
        "    channel.write(line + b'\\n')\n"
        "    heard.append(json.loads(channel.readline())['type'])\n"
        'channel.write(b\'{"type":"confirm","ordinal":7,"outcome":"applied"}\\n\')\n'
        "heard.append(json.loads(channel.readline())['code'])\n"
        "print(json.dumps(heard))\n",
    )
    calm_daemon.add_handler(
        "garbage",
        f'manifest = 1\ncommand = ["{calm_daemon.programs}/garbage"]\ntimeout_ms = 60_000\n'
        '[[effect]]\nname = "a"\ncontract = "no_safe_retry"\nmany = true\n',
    )
    document = calm_daemon.api.dispatch("garbage", {}, wait_ms=60_000).ok()
    assert document["result"] == ["refused"] * 5 + ["EffectCorrelationMismatch"]
    output = calm_daemon.api.get(f"calls/{document['call']['call_id']}/output")
    assert output["stderr"]["head"].count("effectd: fd 3:") == 5


def test_a_handler_that_floods_fd_3_is_ended(calm_daemon: Daemon) -> None:
    calm_daemon.add_program(
        "flood", "channel = open(3, 'wb', buffering=0)\nwhile True: channel.write(b'x\\n' * 1000)"
    )
    calm_daemon.add_handler(
        "flood",
        f'manifest = 1\ncommand = ["{calm_daemon.programs}/flood"]\ntimeout_ms = 60_000\n'
        'grace_ms = 100\n[[effect]]\nname = "a"\ncontract = "no_safe_retry"\nmany = true\n',
    )
    document = calm_daemon.api.dispatch("flood", {}, fresh_id(), wait_ms=60_000).ok()
    assert document["state"] == "failed"
    assert document["call"]["error"]["code"] == "LimitExceeded"
    assert calm_daemon.handler_processes() == []


@pytest.mark.guarantee("J7", "R2")
def test_a_second_daemon_on_the_same_state_is_refused_and_harms_nothing(daemon: Daemon) -> None:
    before = daemon.api.dispatch("plain", {}, "first", wait_ms=60_000).ok()
    second = daemon.start_another()
    assert second.returncode == 1
    assert "cannot start" in second.stderr
    assert str(daemon.pid) in second.stderr
    assert "Traceback" not in second.stderr
    assert daemon.api.dispatch("plain", {}, "first").ok()["operation_id"] == before["operation_id"]
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
