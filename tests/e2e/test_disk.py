"""What the disk can do to a daemon: rot, tears, failed syncs, no room, no permission."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.api import Answer, Document, NoAnswer, fresh_id
from tests.e2e.support.clients import every
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import Service, needs_root, new_service

SECTOR = 512
# The smallest that a configuration allows: a few operations fill a segment.
SMALL = "[journal]\nsegment_bytes = 65_536\n"
NEVER = {"effects": ["never"]}
needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is what makes the sync fail"
)


def segments(daemon: Daemon) -> list[Path]:
    return sorted((daemon.state / "journal").glob("*.jnl"))


def on_disk(daemon: Daemon) -> dict[str, str]:
    """Every file of the journal and its digest; LOCK is for people and says who was there."""
    files = [one for one in (daemon.state / "journal").iterdir() if one.name != "LOCK"]
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def verified(daemon: Daemon) -> int:
    """What `effectctl journal verify` says of the chain, as an exit status."""
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", "verify"]
    where = [str(daemon.state / "journal"), "--require", "chain"]
    return subprocess.run([*command, *where], check=False, capture_output=True).returncode


def held(daemon: Daemon, tag: str, client: Any = None) -> Document:
    """An operation whose effect is made and not confirmed; its handler waits in the world."""
    point = f"{tag} made never"
    daemon.world.hold(point)
    document = (client or daemon.api).dispatch("never", {"tag": tag, **NEVER}).ok()
    daemon.world.arrived(point)
    return document


# --- damage -------------------------------------------------------------------------------


@pytest.mark.guarantee("J2")
def test_damage_to_what_was_acknowledged_is_served_read_only_and_said(daemon: Daemon) -> None:
    first, second, third = (
        daemon.api.dispatch("never", {"tag": tag, **NEVER}, tag, wait_ms=60_000).ok()
        for tag in ("first", "second", "third")
    )
    fourth = held(daemon, "fourth")
    daemon.kill9()
    (segment,) = segments(daemon)
    content = bytearray(segment.read_bytes())
    at = content.rindex(second["call"]["call_id"].encode())
    content[at] ^= 1
    segment.write_bytes(content)
    before = on_disk(daemon)

    daemon.start()
    status = daemon.api.status()
    assert status["state"] == "read_only"
    (said,) = status["degraded"]
    assert said["code"] == "JournalCorrupt"
    assert segment.name in said["detail"]
    line = content.rindex(b"\n", 0, at) + 1
    assert f"at byte {line} " in said["detail"]
    assert f"restore {segment.name} from a backup" in said["fix"]
    assert (said["file"], said["offset"]) == (segment.name, line)
    # Its end stood there: whether it did is not to be read any more.
    assert said["calls"] == [second["call"]["call_id"]]
    assert second["call"]["call_id"] in said["detail"]

    assert daemon.api.operation(first["operation_id"])["state"] == "succeeded"
    assert daemon.api.call(first["call"]["call_id"])["result"] == first["result"]
    assert daemon.api.recovery(first["operation_id"])["state"] == "succeeded"
    proven = {first["operation_id"], second["operation_id"]}
    assert {item["operation_id"] for item in every(daemon.api, "operations")} == proven
    assert {event["operation_id"] for event in daemon.api.events()} == {None, *proven}
    for lost in (third, fourth):
        assert daemon.api.ask("GET", f"operations/{lost['operation_id']}").code == "NotFound"

    refused = [
        daemon.api.dispatch("plain", {}),
        daemon.api.dispatch("never", {"tag": "first", **NEVER}, "first"),
        daemon.api.cancel(first["operation_id"]),
        daemon.api.resolve(first["call"]["effects"][0]["effect_id"], "applied"),
    ]
    for answer in refused:
        assert (answer.status, answer.code) == (503, "JournalCorrupt")
        assert segment.name in answer.document["detail"]
        assert answer.document["retryable"] is False
    assert daemon.stop(10) == 0
    assert on_disk(daemon) == before
    assert verified(daemon) == 2


@pytest.mark.guarantee("J2", "J1")
def test_a_torn_tail_is_left_out_once_and_nothing_acknowledged_with_it(daemon: Daemon) -> None:
    kept = daemon.api.dispatch("never", {"tag": "kept", **NEVER}, "kept", wait_ms=60_000).ok()
    daemon.kill9()
    (segment,) = segments(daemon)
    content = bytearray(segment.read_bytes())
    end = len(content.rstrip(b"\n")) + 1
    free = -(-end // SECTOR) * SECTOR
    # The first part of a batch that was on its way when the power went, into fresh sectors.
    content[free : free + 300] = b"torn" * 75
    segment.write_bytes(content)

    daemon.start()
    recovery = daemon.api.status()["journal"]["recovery"]
    assert (recovery["verdict"], recovery["discarded_bytes"]) == ("torn-tail", 300)
    again = daemon.api.dispatch("never", {"tag": "kept", **NEVER}, "kept").ok()
    assert (again["operation_id"], again["result"]) == (kept["operation_id"], kept["result"])
    assert daemon.world.arrivals("kept made never") == 1
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    daemon.restart()
    assert daemon.api.status()["journal"]["recovery"]["verdict"] == "clean"
    assert daemon.stop() == 0
    assert verified(daemon) == 0


# --- a failing sync ------------------------------------------------------------------------


def at_rest(journal: Document) -> bool:
    """Whether the mark of a quiet moment stands behind the last decision."""
    return journal["durable_position"] > journal["position"]


FAIL = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO")


@contextlib.contextmanager
def failing_syncs(daemon: Daemon) -> Iterator[None]:
    """From here on every sync of the daemon fails, until it ends."""
    # The mark of a quiet moment is a write too, and not the one that is to fail.
    wait_until(lambda: at_rest(daemon.api.status()["journal"]), 10, "the journal is at rest")
    strace = subprocess.Popen(
        [
            *("strace", "-f", "-p", str(daemon.pid), "-o", str(daemon.base / "strace")),
            *FAIL,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert strace.stderr is not None
        # It says so when it holds all threads; before that it may say what it cannot do.
        said = strace.stderr.readline()
        assert "attached" in said, said
        yield
    finally:
        if daemon.running:
            daemon.kill9()
        # It ends with whom it watches.
        strace.communicate(timeout=30)


@needs_root("the daemon lets nobody of its own uid trace it")
@needs_strace
@pytest.mark.guarantee("J3", "J1")
def test_after_a_failed_sync_nothing_is_started_and_the_restart_reads_the_disk(
    daemon: Daemon,
) -> None:
    running = held(daemon, "running")
    asked = {"tag": "doubtful", **NEVER}
    with failing_syncs(daemon):
        doubtful = daemon.api.dispatch("never", asked, "doubtful", wait_ms=60_000)
        assert (doubtful.status, doubtful.code) == (503, "AcceptanceUnknown")
        assert doubtful.document["retryable"] is True
        wait_until(lambda: "the journal failed" in daemon.log, 10, "it says so")

        again = daemon.api.dispatch("never", asked, "doubtful")
        assert again.code == "AcceptanceUnknown"
        refused = daemon.api.dispatch("plain", {}, "new")
        assert (refused.status, refused.document["retryable"]) == (503, True)
        told = daemon.api.status()
        assert "AcceptanceUnknown" in {one["code"] for one in told["degraded"]}
        assert daemon.world.arrivals("doubtful made never") == 0

        # What runs may finish; its words go where somebody reads them.
        assert daemon.running
        daemon.world.release()
        assert daemon.process is not None
        assert daemon.process.wait(30) == 75
    assert "not recorded: a confirmation" in daemon.log
    assert "not recorded: the end of an attempt" in daemon.log
    assert running["call"]["call_id"] in daemon.log.partition("not recorded: a confirmation")[2]
    assert "Traceback" not in daemon.log

    daemon.start()
    assert daemon.api.operation(running["operation_id"])["state"] == "unknown"
    sent = daemon.api.dispatch("never", asked, "doubtful").ok()
    assert len(every(daemon.api, "operations", request_id="doubtful")) == 1
    final = daemon.api.final(sent["operation_id"])
    if final["state"] == "interrupted":
        final = daemon.api.resume(sent["operation_id"]).ok()
    assert final["state"] == "succeeded"
    assert daemon.world.arrivals("doubtful made never") == 1
    assert daemon.api.dispatch("plain", {}, "new", wait_ms=60_000).ok()["state"] == "succeeded"


@needs_strace
@pytest.mark.guarantee("J3")
def test_a_disk_that_takes_not_even_the_first_frame_is_said_instead_of_starting() -> None:
    with new_daemon() as daemon:
        started = subprocess.run(
            [*("strace", "-f", "-o", "/dev/null"), *FAIL, *daemon._command()],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert started.returncode == 1
        assert "cannot start: the journal takes nothing" in started.stderr
        assert "Input/output error" in started.stderr
        assert "Traceback" not in started.stderr


# --- no room -------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(directory: Path, options: str) -> Iterator[None]:
    """A small file system of its own below the test's directory."""
    directory.mkdir(mode=0o700)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(ballast: Path) -> None:
    """Take every byte that is left."""
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (4096, 512, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def filled(service: Service) -> list[str]:
    """Ask for new work until it is refused; what was accepted and waits for room to start."""
    waiting: list[str] = []
    for _ in range(200):
        answer = service.api.dispatch("plain", {"pad": "x" * 6_000}, wait_ms=1_000)
        if answer.code is not None:
            assert (answer.status, answer.code) == (503, "JournalUnavailable")
            assert answer.document["retryable"] is True
            return waiting
        if answer.document["state"] != "succeeded":
            assert (answer.status, answer.document["state"]) == (202, "accepted"), answer
            waiting.append(answer.document["operation_id"])
    raise AssertionError("the disk never was full")


@needs_root("only root can mount a small file system")
@pytest.mark.guarantee("J8")
def test_a_full_disk_refuses_new_work_never_an_outcome_and_heals_by_itself() -> None:
    with new_service(tables=SMALL) as service, small_disk(service.state, "size=1m"):
        service.start()
        finishing, cancelled = held(service, "finishing"), held(service, "cancelled")
        ballast = service.state / "ballast"
        fill(ballast)

        waiting = filled(service)
        told = service.api.status()
        assert told["state"] == "degraded"
        assert [one["code"] for one in told["degraded"]] == ["JournalUnavailable"]
        assert "No space left" in told["degraded"][0]["detail"]

        service.world.release("finishing made never")
        ended = service.api.final(finishing["operation_id"])
        assert ended["state"] == "succeeded"
        assert ended["call"]["effects"][0]["outcome"] == "applied"
        assert service.api.cancel(cancelled["operation_id"]).ok()["state"] == "unknown"
        (effect,) = service.api.operation(cancelled["operation_id"])["call"]["effects"]
        service.api.resolve(effect["effect_id"], "applied").ok()
        assert service.api.operation(cancelled["operation_id"])["state"] == "cancelled"
        waiting += filled(service)

        pid = service.pid
        ballast.unlink()
        wait_until(lambda: service.api.status()["state"] == "ready", 30, "it heals")
        assert service.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
        assert {service.api.final(one)["state"] for one in waiting} <= {"succeeded"}
        assert service.pid == pid
        assert service.stop() == 0
        assert verified(service) == 0


@needs_root("only root can mount a small file system")
@pytest.mark.guarantee("J8", "R2")
def test_a_daemon_that_dies_on_a_full_disk_starts_again_on_it() -> None:
    with new_service(tables=SMALL) as service, small_disk(service.state, "size=1m"):
        service.start()
        interrupted = held(service, "interrupted")
        fill(service.state / "ballast")
        filled(service)
        for _ in range(2):
            service.restart()
        document = service.api.operation(interrupted["operation_id"])
        assert document["state"] == "unknown"
        (effect,) = document["call"]["effects"]
        service.api.resolve(effect["effect_id"], "applied", result={"receipt": 1}).ok()
        filled(service)
        (service.state / "ballast").unlink()
        wait_until(lambda: service.api.status()["state"] == "ready", 30, "it heals")
        assert service.api.resume(interrupted["operation_id"]).ok()["state"] == "succeeded"
        assert service.world.arrivals("interrupted made never") == 1


@pytest.mark.guarantee("J7")
def test_a_read_only_state_directory_is_said_at_once() -> None:
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(new_daemon())
        if os.geteuid() == 0:
            # Permissions do not hold root back; a file system that is mounted so does.
            stack.enter_context(small_disk(daemon.state, "ro"))
        else:
            daemon.state.mkdir(mode=0o500)
        failed = daemon.start_another()
        assert failed.returncode == 1
        assert str(daemon.state) in failed.stderr
        assert "Read-only file system" in failed.stderr or "Permission denied" in failed.stderr
        assert "Traceback" not in failed.stderr


# --- load ----------------------------------------------------------------------------------


class Load:
    """Clients that dispatch one after the other, and remember what they were told."""

    def __init__(self, daemon: Daemon, pad: int = 0, count: int = 6) -> None:
        self.acknowledged: dict[str, str] = {}
        self.unsure: list[str] = []
        self.faults: list[Answer] = []
        self._daemon = daemon
        self._pad = "x" * pad
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def ask(self, tag: str) -> None:
        given = {"tag": tag, "pad": self._pad, **NEVER}
        try:
            answer = self._daemon.api.dispatch("never", given, tag, wait_ms=60_000)
        except NoAnswer:
            self.unsure.append(tag)
            raise
        if answer.code is not None:
            self.faults.append(answer)
        else:
            self.acknowledged[tag] = answer.document["operation_id"]

    def _run(self) -> None:
        with contextlib.suppress(NoAnswer):
            while not self._stop.is_set():
                self.ask(fresh_id("load"))

    def until(self, claim: Callable[[], object], what: str) -> None:
        wait_until(claim, 60, what)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@needs_root("a configuration file makes segments small, and under one the own uid holds nothing")
@pytest.mark.guarantee("J1", "J2", "R8")
def test_segments_turn_over_under_load_and_a_restart_in_between_loses_nothing() -> None:
    with new_service(tables=SMALL) as service:
        service.start()
        before = Load(service, pad=4_000)
        before.until(lambda: len(segments(service)) >= 3, "segments turn over")
        service.kill9()
        before.end()
        service.start()
        for tag in before.unsure.copy():
            before.ask(tag)
        after = Load(service, pad=4_000)
        more = len(segments(service)) + 2
        after.until(lambda: len(segments(service)) >= more, "segments turn over again")
        after.end()
        assert before.faults == after.faults == []
        known = {one["request_id"]: one for one in every(service.api, "operations")}
        acknowledged = {**before.acknowledged, **after.acknowledged}
        assert {tag: known[tag]["operation_id"] for tag in acknowledged} == acknowledged
        assert all(known[tag]["state"] == "succeeded" for tag in after.acknowledged)
        assert set(service.world.everything().values()) == {1}
        wide = service.api.dispatch("plain", {"pad": "x" * 20_000}, "wide")
        assert wide.code == "LimitExceeded"
        assert service.api.dispatch("plain", {}, "wide", wait_ms=60_000).status == 200
        assert service.stop() == 0
        assert verified(service) == 0


@pytest.mark.guarantee("R9", "B6")
def test_a_daemon_that_is_stopped_for_a_second_under_load_loses_nothing(daemon: Daemon) -> None:
    load = Load(daemon)
    load.until(lambda: len(load.acknowledged) >= 6, "the load is there")
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        time.sleep(1)
        seen = len(load.acknowledged)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    load.until(lambda: len(load.acknowledged) >= seen + 6, "it goes on")
    load.end()
    assert load.faults == []
    assert load.unsure == []
    known = {one["request_id"]: one for one in every(daemon.api, "operations")}
    assert {tag: known[tag]["operation_id"] for tag in known} == load.acknowledged
    assert {one["state"] for one in known.values()} == {"succeeded"}
    assert sorted(daemon.world.everything().values()) == [1] * len(known)
