"""effectctl against a real daemon: every verb, every exit code, the words people act on."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

import pytest

from supervisor.cli.exits import Exit
from tests.cli.conftest import ROOT, Ctl, Daemon

OP = re.compile(r"op_[0-9a-z]{20}")


def dispatched(ctl: Ctl, handler: str, *more: str) -> dict[str, object]:
    """Dispatch and return the operation as JSON."""
    document: dict[str, object] = ctl("dispatch", handler, "-o", "json", *more).document
    return document


# --- dispatch ---------------------------------------------------------------------------------


def test_dispatch_prints_the_result_as_json_and_nothing_else(ctl: Ctl) -> None:
    said = ctl("dispatch", "echo", "--input", '{"b": [1, "größe"]}')
    assert said.code == Exit.DONE
    assert said.document == {"b": [1, "größe"]}
    assert said.err == ""


def test_dispatch_reads_its_input_from_a_file_and_from_stdin(
    ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"from": "file"}')
    assert ctl("dispatch", "echo", "--input", f"@{file}").document == {"from": "file"}
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"from": "stdin"}'))
    assert ctl("dispatch", "echo", "--input", "-").document == {"from": "stdin"}


def test_an_applied_effect_exits_0_with_its_result(ctl: Ctl) -> None:
    said = ctl("dispatch", "charge")
    assert said.code == Exit.DONE
    assert said.document == {"receipt": 7}


def test_the_same_request_id_gives_the_same_operation_and_another_body_conflicts(ctl: Ctl) -> None:
    first = dispatched(ctl, "charge", "--request-id", "same-1")
    second = dispatched(ctl, "charge", "--request-id", "same-1")
    assert first["operation_id"] == second["operation_id"]
    said = ctl("dispatch", "echo", "--request-id", "same-1")
    assert said.code == Exit.CONFLICT
    assert "RequestConflict" in said.err


def test_a_failed_call_exits_1_and_shows_its_sandbox_beside_its_stderr(ctl: Ctl) -> None:
    said = ctl("dispatch", "fail")
    assert said.code == Exit.FAILED
    assert said.out == ""
    assert "Nothing was applied" in said.err.split("\n")[0]
    assert "exit 3" in said.err
    assert "it broke: \\x1b[2J badly" in said.err
    assert re.search(r"sandbox +strict; network none; ", said.err)
    assert "\x1b" not in said.err


@pytest.mark.guarantee("S12")
def test_a_hidden_file_is_named_with_the_key_that_would_show_it(ctl: Ctl, daemon: Daemon) -> None:
    said = ctl("dispatch", "hidden")
    assert said.code == Exit.FAILED
    assert f"hint: {daemon.base}/hidden.txt exists but is hidden" in said.err


def test_a_timed_out_call_exits_8(ctl: Ctl) -> None:
    said = ctl("dispatch", "slow")
    assert said.code == Exit.TIMED_OUT
    assert "timed out" in said.err


def test_an_unknown_outcome_exits_6_plainly_and_says_how_to_look(ctl: Ctl) -> None:
    said = ctl("dispatch", "doubt")
    assert said.code == Exit.OUTCOME_UNKNOWN
    assert "OUTCOME UNKNOWN. Do not retry" in said.err.split("\n")[0]
    assert re.search(r"effectctl effects show eff_[0-9a-z]{20}", said.err)
    assert not re.search(r"(send|try|run) (it )?again", said.err)


def test_a_partly_applied_call_exits_10(ctl: Ctl) -> None:
    said = ctl("dispatch", "half")
    assert said.code == Exit.PARTLY_APPLIED
    assert "WERE APPLIED. Do not send it again" in said.err
    assert "effectctl operations recovery op_" in said.err


def test_a_dispatch_that_the_budget_refuses_exits_7(ctl: Ctl) -> None:
    said = ctl("dispatch", "echo", "--max-run-ms", "10000", "--timeout-ms", "10000")
    assert said.code == Exit.REFUSED
    assert "RunTimeBudgetExceeded" in said.err
    assert "Nothing was started" in said.err


def test_no_such_handler_exits_4(ctl: Ctl) -> None:
    said = ctl("dispatch", "nobody")
    assert said.code == Exit.NOT_FOUND
    assert "UnknownHandler" in said.err
    assert "effectctl handlers list" in said.err


def test_an_invalid_field_exits_2_with_its_pointer(ctl: Ctl) -> None:
    said = ctl("dispatch", "echo", "--request-id", "a b")
    assert said.code == Exit.USAGE
    assert "/request_id" in said.err


def test_detached_dispatch_prints_only_the_id_and_calls_wait_follows_it(ctl: Ctl) -> None:
    said = ctl("dispatch", "charge", "-d")
    assert said.code == Exit.DONE
    assert OP.fullmatch(said.out.strip())
    call_id = re.search(r"effectctl calls wait (call_\w+)", said.err)
    assert call_id is not None
    waited = ctl("calls", "wait", call_id.group(1))
    assert waited.code == Exit.DONE
    assert "succeeded" in waited.out


def test_a_dry_run_starts_nothing(ctl: Ctl) -> None:
    said = ctl("dispatch", "charge", "--dry-run", "--request-id", "dry-1")
    assert said.code == Exit.DONE
    assert said.document["dry_run"] is True
    assert ctl("operations", "list", "--request-id", "dry-1", "-o", "ids").out == ""


def test_labels_travel(ctl: Ctl) -> None:
    operation = dispatched(ctl, "echo", "--label", "team=billing", "--label", "why=test")
    assert operation["labels"] == {"team": "billing", "why": "test"}
    assert "team=billing" in ctl("operations", "show", str(operation["operation_id"])).out


# --- interruption and lost connections --------------------------------------------------------


def _child(daemon: Daemon, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli", *arguments],
        env={**os.environ, "EFFECTD_SOCKET": daemon.socket},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _until(ctl: Ctl, *arguments: str) -> str:
    """Ask until there is an answer."""
    deadline = time.monotonic() + 60
    while not (out := ctl(*arguments).out.strip()):
        assert time.monotonic() < deadline, arguments
        time.sleep(0.05)
    return out


def test_ctrl_c_exits_130_and_the_operation_goes_on(ctl: Ctl, daemon: Daemon) -> None:
    process = _child(daemon, "dispatch", "long", "--request-id", "ctrl-c")
    operation_id = _until(
        ctl, "operations", "list", "--request-id", "ctrl-c", "--state", "running", "-o", "ids"
    )
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == Exit.INTERRUPTED, err
    assert out == ""
    assert f"the operation goes on: {operation_id}" in err
    assert "Traceback" not in err
    show = ctl("operations", "show", operation_id, "-o", "json").document
    assert show["state"] == "running"
    cancelled = ctl("operations", "cancel", operation_id, "--reason", "test")
    assert cancelled.code == Exit.DONE
    assert "cancelled" in cancelled.out
    assert ctl("calls", "wait", show["calls"][0]).code == Exit.CANCELLED


class Proxy:
    """Stands between a client and the daemon: keeps the requests, and may swallow an answer."""

    def __init__(self, daemon: Daemon, path: Path, *, swallow_first: bool = False) -> None:
        self.path = str(path)
        self.requests: list[bytes] = []
        self._upstream = daemon.socket
        self._swallow = swallow_first
        self._listener = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(15)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                self._forward(client)

    def _forward(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as upstream, contextlib.suppress(OSError):
            upstream.connect(self._upstream)
            while data := client.recv(65_536):
                self.requests.append(data)
                upstream.sendall(data)
                answer = upstream.recv(65_536)
                if self._swallow:
                    self._swallow = False
                    return
                client.sendall(answer)


def test_ctrl_c_while_waiting_for_a_call_says_that_it_goes_on(
    ctl: Ctl, daemon: Daemon, tmp_path: Path
) -> None:
    said = ctl("dispatch", "long", "-d", "-o", "json").document
    line = ["calls", "wait", said["calls"][0], "-o", "json"]
    with Proxy(daemon, tmp_path / "proxy.sock") as proxy:
        process = _child(daemon, *line, "--socket", proxy.path)
        deadline = time.monotonic() + 60
        while not any(b"wait_ms=" in one for one in proxy.requests):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        ctl("operations", "cancel", said["operation_id"], "--reason", "test")
    assert process.returncode == Exit.INTERRUPTED, err
    assert f"the operation goes on: {said['operation_id']}" in err


def test_a_lost_connection_is_answered_by_the_same_request_id(
    ctl: Ctl, daemon: Daemon, tmp_path: Path
) -> None:
    """The first answer is swallowed: the request was carried out, and nobody was told."""
    with Proxy(daemon, tmp_path / "proxy.sock", swallow_first=True) as proxy:
        said = ctl("dispatch", "charge", "--socket", proxy.path)
    assert said.code == Exit.DONE
    assert said.document == {"receipt": 7}
    assert "asking again with the same request id" in said.err
    found = {one for data in proxy.requests for one in re.findall(rb'"request_id":"([^"]+)"', data)}
    assert len(found) == 1
    [request_id] = found
    listed = ctl("operations", "list", "--request-id", request_id.decode(), "-o", "ids")
    assert len(listed.out.split()) == 1


def test_at_a_terminal_the_wait_shows_progress_and_escapes_it(daemon: Daemon) -> None:
    import pty

    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli", "dispatch", "steps", "--socket", daemon.socket],
        env={**os.environ, "LANG": "C.UTF-8", "LC_ALL": "", "TERM": "xterm"},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=follower,
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:  # EIO: the last writer has closed the terminal
            break
        if not chunk:
            break
        seen += chunk
    os.close(leader)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.read() == b'""\n'
    assert process.wait(60) == Exit.DONE
    assert b"steps half\\x1b[2Jway" in seen
    assert b"half\x1b[2J" not in seen


# --- looking ----------------------------------------------------------------------------------


def test_operations_are_listed_shown_and_found_by_a_beginning(ctl: Ctl) -> None:
    operation = dispatched(ctl, "charge")
    operation_id = str(operation["operation_id"])
    assert operation_id in ctl("operations", "list").out
    shown = ctl("operation", "show", operation_id[:12])
    assert shown.code == Exit.DONE
    assert operation_id in shown.out
    for event in ("accepted", "attempt 0 started", "effect charge", "attempt 0 succeeded"):
        assert event in shown.out
    document = ctl("operations", "show", operation_id[3:11], "-o", "json").document
    assert document["operation_id"] == operation_id


def test_a_beginning_that_fits_nothing_exits_4(ctl: Ctl) -> None:
    said = ctl("operations", "show", "zzzzzzzz")
    assert said.code == Exit.NOT_FOUND
    assert "effectctl operations list" in said.err


def test_no_such_id_exits_4(ctl: Ctl) -> None:
    assert ctl("operations", "show", "op_" + "0" * 20).code == Exit.NOT_FOUND
    assert ctl("calls", "show", "call_" + "0" * 20).code == Exit.NOT_FOUND
    assert ctl("effects", "show", "eff_" + "0" * 20).code == Exit.NOT_FOUND


def test_ids_of_one_command_feed_the_next(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        dispatched(ctl, "echo", "--label", "k=v")
    ids = ctl("operations", "list", "--handler", "echo", "--limit", "2", "-o", "ids").out
    monkeypatch.setattr(sys, "stdin", io.StringIO(ids))
    document = ctl("operations", "show", "-", "-o", "json").document
    assert [one["operation_id"] for one in document["items"]] == ids.split()
    monkeypatch.setattr(sys, "stdin", io.StringIO(ids))
    lines = ctl("operations", "show", "-", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["operation_id"] for line in lines] == ids.split()


def test_a_list_that_was_cut_says_so_on_stderr(ctl: Ctl) -> None:
    dispatched(ctl, "echo")
    dispatched(ctl, "echo")
    said = ctl("operations", "list", "--limit", "1")
    assert len(OP.findall(said.out)) == 1
    assert "--all" in said.err
    assert len(OP.findall(ctl("operations", "list", "--all").out)) > 1


def test_a_call_is_shown_with_its_result_and_output(ctl: Ctl) -> None:
    operation = dispatched(ctl, "echo", "--input", '{"x": 1}')
    [call_id] = operation["calls"]  # type: ignore[misc]
    assert ctl("calls", "result", call_id).document == {"x": 1}
    assert ctl("calls", "output", call_id, "--stdout").out.strip() == '{"x":1}'
    assert "echo" in ctl("call", "show", call_id[:14]).out
    assert ctl("calls", "wait", call_id).code == Exit.DONE


def test_the_result_of_a_call_that_has_none_exits_as_the_call_ended(ctl: Ctl) -> None:
    [call_id] = dispatched(ctl, "fail")["calls"]  # type: ignore[misc]
    assert ctl("calls", "result", call_id).code == Exit.FAILED
    [call_id] = dispatched(ctl, "doubt")["calls"]  # type: ignore[misc]
    said = ctl("calls", "result", call_id)
    assert said.code == Exit.OUTCOME_UNKNOWN


def test_handlers_are_listed_and_shown(ctl: Ctl) -> None:
    assert "charge: no_safe_retry" in ctl("handlers", "list").out
    shown = ctl("handler", "show", "doubt")
    assert "the dashboard, search" in shown.out
    assert ctl("handlers", "show", "nobody").code == Exit.NOT_FOUND


def test_events_come_in_order_and_after_a_position(ctl: Ctl) -> None:
    operation = dispatched(ctl, "charge")
    lines = ctl("events", "--operation", str(operation["operation_id"]), "-o", "jsonl").out
    events = [json.loads(line) for line in lines.splitlines()]
    kinds = [one["type"] for one in events]
    assert kinds[0] == "operation_accepted"
    assert kinds[-1] == "attempt_ended"
    assert kinds.index("effect_announced") < kinds.index("effect_confirmed")
    last = events[-1]["position"]
    assert all(one["position"] <= last for one in events)
    assert ctl("events", "--after", str(last), "-o", "jsonl").out == ""
    assert "effect_announced" in ctl("events").out


def test_events_follow_until_ctrl_c(ctl: Ctl, daemon: Daemon) -> None:
    before = ctl("events", "-o", "ids").out.split()[-1]
    process = _child(daemon, "events", "-f", "--after", before, "-o", "jsonl")
    operation = dispatched(ctl, "echo")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == "attempt_ended":
            assert json.loads(line)["operation_id"] == operation["operation_id"]
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == Exit.DONE
    assert err == ""


# --- settling ---------------------------------------------------------------------------------


def _unknown(ctl: Ctl, handler: str) -> tuple[str, str]:
    """A fresh operation whose effect is unknown, and that effect."""
    operation = dispatched(ctl, handler)
    assert operation["state"] == "unknown"
    effect = operation["call"]["effects"][0]  # type: ignore[index]
    return str(operation["operation_id"]), effect["effect_id"]


HEADINGS = {"applied": "it DID happen", "not_applied": "it did NOT happen"}


@pytest.mark.parametrize("outcome", ["applied", "not_applied"])
def test_the_printed_resolve_command_settles_the_effect(ctl: Ctl, outcome: str) -> None:
    """What `effects show` prints is pasted as it stands, quotes and all."""
    operation_id, effect_id = _unknown(ctl, "doubt")
    shown = ctl("effects", "show", effect_id).out
    assert f"the dashboard, search {effect_id}" in shown
    start = shown.index("effectctl effects resolve", shown.index(HEADINGS[outcome]))
    command = shown[start : shown.index("WHAT YOU SAW'", start) + len("WHAT YOU SAW'")]
    words = subprocess.run(
        ["sh", "-c", command.replace("effectctl", "printf '%s\\n'", 1)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    words[words.index("WHAT YOU SAW")] = "seen in the dashboard"
    settled = ctl(*words)
    assert settled.code == Exit.DONE
    assert "operator" in settled.out
    assert "seen in the dashboard" in settled.out
    assert ctl("operations", "show", operation_id, "-o", "json").document["state"] != "unknown"


def test_a_moved_revision_settles_nothing(ctl: Ctl) -> None:
    _, effect_id = _unknown(ctl, "doubt")
    line = ["effects", "resolve", effect_id, "--outcome", "applied", "--evidence", "e"]
    said = ctl(*line, "--if-revision", "0")
    assert said.code == Exit.CONFLICT
    assert ctl("effects", "show", effect_id, "-o", "json").document["outcome"] == "unknown"


def test_a_supplied_result_is_handed_back_by_resume(ctl: Ctl) -> None:
    operation_id, effect_id = _unknown(ctl, "doubt")
    revision = ctl("effects", "show", effect_id, "-o", "json").document["revision"]
    line = ["effects", "resolve", effect_id, "--outcome", "applied", "--evidence", "seen"]
    done = ctl(*line, "--if-revision", str(revision), "--result", '{"receipt": 9}')
    assert done.code == Exit.DONE, done.err
    assert "operations resume" in ctl("operations", "recovery", operation_id).out
    resumed = ctl("operations", "resume", operation_id, "-o", "json")
    assert resumed.code == Exit.DONE, resumed.err
    assert resumed.document["result"] == {"receipt": 9}


def test_an_unknown_effect_refuses_resume_with_exit_6(ctl: Ctl) -> None:
    operation_id, effect_id = _unknown(ctl, "doubt")
    recovery = ctl("operations", "recovery", operation_id)
    assert recovery.code == Exit.DONE
    assert f"effectctl effects show {effect_id}" in recovery.out
    assert "operations resume" not in recovery.out
    said = ctl("operations", "resume", operation_id)
    assert said.code == Exit.OUTCOME_UNKNOWN
    assert "Do not retry" in said.err


def test_reconcile_asks_the_provider_and_settles(ctl: Ctl) -> None:
    operation_id, effect_id = _unknown(ctl, "asked")
    assert f"effectctl effects reconcile {effect_id}" in ctl("status").out
    said = ctl("effects", "reconcile", effect_id)
    assert said.code == Exit.DONE, said.err
    assert "reconciler" in said.out
    resumed = ctl("operations", "resume", operation_id, "-o", "json").document
    assert resumed["result"] == {"receipt": 8}


def test_a_terminal_operation_is_cancelled_without_change(ctl: Ctl) -> None:
    operation_id = str(dispatched(ctl, "echo")["operation_id"])
    said = ctl("operations", "cancel", operation_id, "--reason", "late", "-o", "json")
    assert said.code == Exit.DONE
    assert said.document["state"] == "succeeded"
    assert ctl("operations", "resume", operation_id).code == Exit.REFUSED


def test_a_budget_is_extended_with_a_reason(ctl: Ctl) -> None:
    operation_id, _ = _unknown(ctl, "doubt")
    said = ctl(
        *["operations", "extend", operation_id, "--max-run-ms", "9000000"],
        *["--reason", "the provider was slow", "-o", "json"],
    )
    assert said.code == Exit.DONE, said.err
    assert said.document["budget"]["max_run_ms"] == 9_000_000


# --- status -----------------------------------------------------------------------------------


def test_status_lists_what_needs_a_person_and_check_is_critical(ctl: Ctl) -> None:
    _, effect_id = _unknown(ctl, "doubt")
    said = ctl("status")
    assert said.code == 0
    assert f"effectctl effects show {effect_id}" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    check = ctl("status", "--check")
    assert check.code == 2
    assert "CRITICAL" in check.out
    assert effect_id in ctl("status", "-o", "ids").out.split()
    assert ctl("status", "-o", "json").document["state"] in {"ready", "degraded"}


def test_of_several_ids_the_gravest_ending_is_the_exit_code(ctl: Ctl) -> None:
    calls = [dispatched(ctl, name)["calls"][0] for name in ("echo", "doubt", "fail")]  # type: ignore[index]
    said = ctl("calls", "wait", *calls, "-o", "ids")
    assert said.code == Exit.OUTCOME_UNKNOWN
    assert said.out.split() == calls


def test_doctor_shows_each_layer_and_the_disk(ctl: Ctl, daemon: Daemon) -> None:
    said = ctl("doctor", "--dev", "--state-dir", str(daemon.state))
    assert "version" in said.out
    for expected in ("pid_namespace", "root", "disk of", "sync in"):
        assert expected in said.out
    parts = {one["part"] for one in ctl("doctor", "--dev", "-o", "json").document["items"]}
    assert {"Daemon", "State disk", "Configuration"} <= parts


# --- a crash ----------------------------------------------------------------------------------


def test_after_a_crash_status_names_the_operation_and_resume_goes_on(
    ctl: Ctl, daemon: Daemon
) -> None:
    process = _child(daemon, "dispatch", "crashed", "--request-id", "crash-1")
    listed = ["operations", "list", "--request-id", "crash-1", "--state", "running", "-o", "ids"]
    operation_id = _until(ctl, *listed)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    out, err = process.communicate(timeout=60)
    # The waiting client outlives the restart, and hears that nothing was applied.
    assert process.returncode == Exit.TEMPORARY, err
    assert out == ""
    assert f"effectctl operations resume {operation_id}" in err
    assert f"effectctl operations recovery {operation_id}" in ctl("status").out
    resumed = ctl("operations", "resume", operation_id, "-o", "json")
    assert resumed.code == Exit.TIMED_OUT
    assert resumed.document["state"] == "failed"


# --- programs ---------------------------------------------------------------------------------

PROGRAM = {
    "schema_version": "effectd-program-v1",
    "nodes": [
        {
            "id": "ok",
            "approve": {"by": ["uid:0"], "expires_ms": 600_000, "prompt": "Charge it?"},
        },
        {"id": "said", "call_tool": {"handler": "echo", "input": {"$": "input"}}},
        {"id": "out", "give": {"$": "said.amount"}},
    ],
}


def test_a_program_is_sent_approved_and_shown(ctl: Ctl) -> None:
    session = ctl("sessions", "create", "--label", "team=billing").out.strip()
    sent = ctl(
        *("sessions", "send", session, "--program", json.dumps(PROGRAM)),
        *("--input", '{"amount": 3}', "--message-id", "m1"),
    )
    assert sent.code == Exit.TEMPORARY
    assert "effectctl approvals list" in sent.out
    operation = OP.findall(sent.out)[0]
    assert "team=billing" in ctl("sessions", "list").out
    assert ctl("status", "-o", "json").document["needs"]["approval"] == 1
    assert operation in ctl("status").out
    assert "1 approval is awaited" in ctl("status", "--check").out
    asked = ctl("approvals", "list").out
    assert f"effectctl approvals answer {operation} ok --choice approve|reject" in asked
    said = ctl("approvals", "answer", operation, "ok", "--choice", "approve")
    assert said.code == Exit.DONE
    assert ctl("approvals", "answer", operation, "ok", "--choice", "reject").code == Exit.CONFLICT
    again = ctl(
        *("sessions", "send", session, "--program", json.dumps(PROGRAM), "-o", "json"),
        *("--input", '{"amount": 3}', "--message-id", "m1"),
    )
    assert again.code == Exit.DONE
    assert again.document["operation_id"] == operation
    assert again.document["result"] == 3
    shown = ctl("operations", "show", operation).out
    assert "approval ok answered: approve" in shown
    assert "for node said" in shown
    assert operation in ctl("sessions", "show", session).out
    pinned = ctl("operations", "checkpoint", operation).document
    assert pinned["program"]["calls"].keys() == {"said"}


def test_a_program_that_is_none_is_refused_and_its_fault_named(ctl: Ctl) -> None:
    document = {**PROGRAM, "nodes": [{"id": "a", "bnid": "input"}]}
    said = ctl("sessions", "send", "--program", json.dumps(document))
    assert said.code == Exit.USAGE
    assert "/program/nodes/0/bnid" in said.err
    assert "at /program/nodes/0\n" in said.err  # every other fault as well
    calls = [
        {"id": name, "call_tool": {"handler": handler, "input": 1}}
        for name, handler in (("a", "nobody"), ("b", "eccho"))
    ]
    document = {**PROGRAM, "nodes": [*calls, {"id": "out", "give": None}]}
    said = ctl("sessions", "send", "--program", json.dumps(document))
    assert said.code == Exit.NOT_FOUND
    assert "/program/nodes/0/call_tool/handler" in said.err
    assert "did you mean 'echo'?" in said.err


def test_a_program_shows_where_it_stands_and_raw_inputs_are_not_shown(ctl: Ctl) -> None:
    nodes = [
        {"id": "said", "call_tool": {"handler": "echo", "input": {"$": "inputs.token"}}},
        {"id": "b", "parallel": {"branches": {"x": [
            {"id": "no", "call_tool": {"handler": "fail", "input": 1}}]}}},
        {"id": "out", "give": None},
    ]  # fmt: skip
    sent = ctl(
        *("sessions", "send", "--program", json.dumps({**PROGRAM, "nodes": nodes})),
        *("--inputs", '{"token": "nobody-shows-this"}'),
    )
    assert sent.code == Exit.PARTLY_APPLIED
    assert re.search(r"stands at +b\.x\.no: failed: exit ", sent.out)
    assert "input 'token' is raw" in sent.out
    operation = OP.findall(sent.out)[0]
    first = ctl("operations", "show", operation, "-o", "json").document["calls"][0]
    for asked in (("calls", "show", first), ("calls", "result", first), ("calls", "output", first)):
        assert "nobody-shows-this" not in ctl(*asked).out
    assert "inputs.token" in ctl("calls", "show", first, "-o", "json").out
