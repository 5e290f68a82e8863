"""Handlers that say far too much: they are cut, slowed or ended, and nobody else feels it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.record import OperationRecord
from tests.e2e.support import journals
from tests.e2e.support.api import Document
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until

MIB = 1 << 20
ALL = ["out", "err", "words"]
# What the daemon may grow by: the buffers of a few attempts, and what the allocator keeps.
FLAT_KIB = 64 * 1024
ENDLESS = "1T"
EFFECTS_MAX = 20

MANIFEST = """\
manifest = 1
command = ["{program}"]
timeout_ms = 120_000
grace_ms = 1_000
max_running = 64
{more}
[[effect]]
name = "many"
contract = "idempotency_key"
many = true
[sandbox]
effects_max = {effects_max}
[output]
output_max_bytes = "{most}"
"""


@pytest.fixture(scope="module")
def _flooded() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        program = daemon.programs / "flood"
        for name, most in (("flood", "64M"), ("endless", ENDLESS), ("small", "2M")):
            text = MANIFEST.format(program=program, more="", effects_max=EFFECTS_MAX, most=most)
            daemon.add_handler(name, text)
        yield daemon.start()


@pytest.fixture
def flooded(_flooded: Daemon) -> Iterator[Daemon]:
    """A daemon with handlers that flood, none of which still runs afterwards."""
    yield _flooded
    for operation in _flooded.api.get("operations", state="running")["items"]:
        _flooded.api.cancel(operation["operation_id"])


def memory_kib(pid: int, name: str = "VmRSS") -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"{name} of {pid}")


def cpu_s(pid: int) -> float:
    """Processor time of that process alone, its children not counted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@contextlib.contextmanager
def flat(daemon: Daemon) -> Iterator[None]:
    """Whatever happens inside, the daemon never holds much more than before: not even shortly."""
    with contextlib.suppress(PermissionError):  # else only a rise above the mark so far is seen
        Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")  # it starts here
    before = memory_kib(daemon.pid, "VmHWM")
    yield
    assert memory_kib(daemon.pid, "VmHWM") - before < FLAT_KIB


def attempt_of(document: Document) -> Document:
    attempts: list[Document] = document["call"]["attempts"]
    return attempts[-1]


def ended_for(document: Document, limit: str) -> Document:
    """The last attempt of a call that ran into that limit, and says so."""
    assert document["state"] in {"failed", "interrupted", "unknown"}, document
    attempt = attempt_of(document)
    assert (attempt["outcome"], attempt["code"]) == ("failed", "LimitExceeded")
    assert attempt["usage"]["limit"] == limit
    assert attempt["proven_dead"] is True
    return attempt


# --- past the cap ----------------------------------------------------------------------


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("kind", "streams"),
    [("raw", ALL), ("lines", ["out", "err"]), ("progress", ALL), ("results", ALL)],
)
def test_a_flood_on_all_streams_at_once_ends_the_attempt_and_is_told(
    flooded: Daemon, kind: str, streams: list[str]
) -> None:
    with flat(flooded):
        answer = flooded.api.dispatch("flood", {"streams": streams, "kind": kind}, wait_ms=60_000)
    attempt = ended_for(answer.ok(), "output")
    assert f"{64 * MIB} bytes" in attempt["detail"]
    error = answer.document["call"]["error"]
    assert "output_max_bytes" in error["fix"]
    call_id = answer.document["call"]["call_id"]
    kept = flooded.api.get(f"calls/{call_id}/output")
    read = sum(kept[name]["bytes"] for name in ("stdout", "stderr"))
    assert read < 66 * MIB
    for name in ("stdout", "stderr"):
        stream = kept[name]
        assert len(stream["tail"].encode()) <= 65_536
        assert stream["omitted"] > 0
        assert stream["bytes"] - stream["omitted"] <= MIB + 2 * 65_536


@pytest.mark.guarantee("S6")
def test_output_up_to_the_cap_is_no_fault_and_is_cut_with_a_count(flooded: Daemon) -> None:
    given = {"streams": ["err"], "kind": "raw", "bytes": 60 * MIB}
    document = flooded.api.dispatch("flood", given, wait_ms=60_000).ok()
    assert document["state"] == "succeeded", document
    kept = flooded.api.get(f"calls/{document['call']['call_id']}/output")["stderr"]
    assert (kept["bytes"], kept["omitted"]) == (60 * MIB, 60 * MIB - 2 * 65_536)
    assert (len(kept["head"]), len(kept["tail"])) == (65_536, 65_536)


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize("kind", ["junk", "blank"])
def test_lines_that_are_not_in_the_protocol_end_the_attempt_after_a_thousand(
    flooded: Daemon, kind: str
) -> None:
    with flat(flooded):
        answer = flooded.api.dispatch("endless", {"streams": ["words"], "kind": kind})
        document = flooded.api.final(answer.ok()["operation_id"])
    ended_for(document, "faults")
    kept = flooded.api.get(f"calls/{document['call']['call_id']}/output")["stderr"]
    assert kept["head"].count("effectd: fd 3:") == 20


@pytest.mark.guarantee("S6")
def test_what_is_confirmed_after_the_cap_still_counts(flooded: Daemon) -> None:
    given = {"streams": ["out", "err"], "kind": "raw", "last": True}
    document = flooded.api.dispatch("small", given, wait_ms=60_000).ok()
    ended_for(document, "output")
    (effect,) = document["call"]["effects"]
    assert (effect["outcome"], effect["settled_by"]) == ("applied", "handler")


# --- in the journal --------------------------------------------------------------------


def kinds_of(daemon: Daemon, operation_id: str) -> list[str]:
    """The kinds of the records of one operation, as they stand in the journal."""
    return [
        type(record).__name__
        for frame in journals.read(daemon.state / "journal")
        for record in frame
        if isinstance(record, OperationRecord) and record.operation_id == operation_id
    ]


@pytest.mark.guarantee("S6", "J8")
@pytest.mark.parametrize(
    ("kind", "limit", "record", "most"),
    [
        ("announce", "effects", "EffectAnnounced", EFFECTS_MAX),
        ("unknown", "faults", "AnnouncementRefused", 1_100),
        ("dispute", "faults", "ConfirmationDisputed", 1_100),
    ],
)
def test_what_a_handler_may_write_into_the_journal_is_bounded(
    flooded: Daemon, kind: str, limit: str, record: str, most: int
) -> None:
    given = {"streams": ["words"], "kind": kind, "hears": kind != "announce"}
    with flat(flooded):
        answer = flooded.api.dispatch("endless", given, wait_ms=60_000).ok()
        document = flooded.api.final(answer["operation_id"])
    ended_for(document, limit)
    kinds = kinds_of(flooded, document["operation_id"])
    assert 0 < kinds.count(record) <= most
    assert len(kinds) < most + 20


# --- what is allowed to go on ----------------------------------------------------------


@pytest.mark.guarantee("S6")
def test_floods_that_may_go_on_slow_only_themselves(flooded: Daemon) -> None:
    given: list[dict[str, Any]] = [
        {"streams": ALL, "kind": "raw"},
        {"streams": ALL, "kind": "progress"},
        {"streams": ALL, "kind": "lines", "tiny": True},
        {"streams": ALL, "kind": "progress", "tiny": True},
        {"streams": ["words"], "kind": "results", "tiny": True},
    ]
    given[2]["streams"] = ["out", "err"]
    api, pid = flooded.api, flooded.pid
    with flat(flooded):
        accepted = [api.dispatch("endless", one).ok() for one in given]
        told = accepted[1]["calls"][0]
        wait_until(lambda: "progress" in api.call(told), 60, "progress is shown")
        # What may come at full speed has come; from here on they are held back.
        wait_until(lambda: _calm(pid), 60, "the daemon is mostly idle")
        started, answers = time.monotonic(), []
        for _ in range(20):
            asked = time.monotonic()
            api.status()
            answers.append(time.monotonic() - asked)
        # Not the slowest ones: the floods and other work on the machine take their turns too.
        assert sorted(answers)[5] < 0.5
        other = api.dispatch("plain", {}, wait_ms=60_000).ok()
        assert other["state"] == "succeeded"
        assert time.monotonic() - started < 60
    for operation_id in [one["operation_id"] for one in accepted]:
        assert api.operation(operation_id)["state"] == "running"
        assert api.cancel(operation_id).ok()["state"] == "cancelled"
    assert not flooded.handler_processes()


def _calm(pid: int) -> bool:
    """Whether the daemon used less than half a processor over a second."""
    before = cpu_s(pid)
    time.sleep(1)
    return cpu_s(pid) - before < 0.5


@pytest.mark.guarantee("S6", "E4")
def test_confirmations_that_were_sent_count_although_no_answer_was_read(daemon: Daemon) -> None:
    program = daemon.add_program("unread", UNREAD)
    text = MANIFEST.format(program=program, more="", effects_max=1_000, most="64M")
    daemon.add_handler("unread", text)
    document = daemon.api.dispatch("unread", {}, wait_ms=60_000).ok()
    effects = document["call"]["effects"]
    assert len(effects) == 120
    assert {effect["outcome"] for effect in effects} == {"applied"}


# It reads each leave, then confirms all at once with results that fill its socket with answers.
UNREAD = """
import json, os, socket
channel = socket.socket(fileno=3)
answers = channel.makefile("rb")
def say(**said):
    channel.sendall(json.dumps(said).encode() + b"\\n")
for n in range(120):
    say(type="announce", effect="many", request={"n": n})
    assert json.loads(answers.readline())["type"] == "leave"
for n in range(120):
    say(type="confirm", ordinal=n, outcome="applied", result=n)
os._exit(0)
"""


@pytest.mark.guarantee("S6")
def test_whoever_was_given_a_handlers_descriptors_holds_up_nobody(daemon: Daemon) -> None:
    """A declared socket lets a handler hand them out; who got them floods them for ever."""
    path = daemon.base / "outside.sock"
    program = daemon.add_program("giver", GIVER.replace("PATH", str(path)))
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(str(path))
        path.chmod(0o777)
        outside.listen()
        text = MANIFEST.format(program=program, more="", effects_max=1, most="64M")
        text = text.replace("[sandbox]", f'[sandbox]\nunix = ["{path}"]')
        daemon.add_handler("giver", text)
        accepted = daemon.api.dispatch("giver", {}).ok()
        outside.settimeout(60)
        with outside.accept()[0] as connection:
            _, held, _, _ = socket.recv_fds(connection, 1, 3)
            assert len(held) == 3
            outsiders = [threading.Thread(target=_write_for_ever, args=(fd,)) for fd in held]
            for outsider in outsiders:
                outsider.start()
            ended = daemon.api.final(accepted["operation_id"])
            for outsider in outsiders:
                outsider.join(60)  # nobody reads any more: the pipe is closed
                assert not outsider.is_alive()
            for fd in held:
                os.close(fd)
    assert ended["state"] in {"succeeded", "failed"}, ended
    assert attempt_of(ended)["active_ms"] < 60_000


def _write_for_ever(fd: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            os.write(fd, b"x" * 65_536)


# It gives its output and its fd 3 away, waits until somebody has them, and ends.
GIVER = """
import socket
with socket.socket(socket.AF_UNIX) as outside:
    outside.connect("PATH")
    socket.send_fds(outside, [b"!"], [1, 2, 3])
"""
