"""What the disk can do to a daemon: rot, tears, failed syncs, no permission to write."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.support.clients import every
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.journal_files import (
    NEVER,
    at_rest,
    held,
    on_disk,
    segments,
    small_disk,
    verified,
)
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import needs_root

SECTOR = 512
needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is what makes the sync fail"
)


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
    # Nothing runs, whatever the proven part would have next.
    assert status["counts"]["running"] == 0
    cut = daemon.api.operation(second["operation_id"])
    assert cut["state"] == "interrupted"
    (attempt,) = cut["call"]["attempts"]
    assert (attempt["phase"], attempt["proven_dead"]) == ("interrupted", True)
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
    assert daemon.stop() == 0
    assert on_disk(daemon) == before
    assert verified(daemon) == 2


def ctl(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", *arguments]
    return subprocess.run(
        [*command, str(daemon.state / "journal")], check=False, capture_output=True, text=True
    )


@pytest.mark.guarantee("J2", "J6", "E6")
def test_what_a_repair_gave_up_is_unknown_and_never_run_again(daemon: Daemon) -> None:
    kept = daemon.api.dispatch("never", {"tag": "kept", **NEVER}, "kept", wait_ms=60_000).ok()
    running = held(daemon, "running")
    lost = daemon.api.dispatch("never", {"tag": "lost", **NEVER}, "lost", wait_ms=60_000).ok()
    daemon.kill9()
    (segment,) = segments(daemon)
    content = bytearray(segment.read_bytes())
    # The announcement of what was running: the effect was made, and nobody can read that.
    at = content.index(
        b"effect_announced",
        content.index(b"attempt_started", content.index(running["call"]["call_id"].encode())),
    )
    content[at] ^= 1
    segment.write_bytes(content)
    before = on_disk(daemon)

    looked = ctl(daemon, "repair")
    assert looked.returncode == 2, looked.stderr
    assert running["call"]["call_id"] in looked.stdout
    assert lost["call"]["call_id"] in looked.stdout
    assert on_disk(daemon) == before
    words = looked.stdout.split()
    accept = words[words.index("--accept-loss") + 1]
    refused = ctl(daemon, "repair", "--accept-loss", "1..2", "--reason", "test")
    assert refused.returncode != 0
    assert f"--accept-loss {accept}" in refused.stderr
    assert on_disk(daemon) == before
    done = ctl(daemon, "repair", "--accept-loss", accept, "--reason", "the disk was replaced")
    assert done.returncode == 0, done.stderr
    (copy,) = (daemon.state / "journal" / "quarantine").glob("*/*.jnl")
    assert copy.read_bytes() == content
    told = ctl(daemon, "verify", "--require", "chain")
    assert told.returncode == 0
    assert "the disk was replaced" in told.stdout

    daemon.start()
    assert daemon.api.status()["state"] == "ready"
    assert daemon.api.operation(kept["operation_id"])["state"] == "succeeded"
    assert daemon.api.operation(running["operation_id"])["state"] == "unknown"
    again = daemon.api.resume(running["operation_id"])
    assert again.code == "EffectOutcomeUnknown"
    assert "given up by a repair" in again.document["detail"]
    sent = daemon.api.dispatch("never", {"tag": "lost", **NEVER}, "lost")
    assert sent.code == "EffectOutcomeUnknown"
    assert daemon.world.arrivals("running made never") == 1
    assert daemon.world.arrivals("lost made never") == 1
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    daemon.restart()
    assert daemon.api.operation(running["operation_id"])["state"] == "unknown"


def half_a_batch(content: bytearray) -> int:
    """What the power left of a batch that was on its way: its first part, in fresh sectors."""
    end = len(content.rstrip(b"\n")) + 1
    free = -(-end // SECTOR) * SECTOR
    content[free : free + 300] = b"torn" * 75
    return 300


def half_a_mark(content: bytearray) -> int:
    """The newest frame, the mark of a quiet moment, with its second half never written."""
    end = len(content.rstrip(b"\n"))
    start = content.rindex(b"\n", 0, end) + 1
    half = (start + end) // 2
    content[half:end] = b"\n" * (end - half)
    return half - start


@pytest.mark.guarantee("J2", "J1")
@pytest.mark.parametrize("tear", [half_a_batch, half_a_mark])
def test_a_torn_tail_is_left_out_once_and_nothing_acknowledged_with_it(
    daemon: Daemon, tear: Callable[[bytearray], int]
) -> None:
    kept = daemon.api.dispatch("never", {"tag": "kept", **NEVER}, "kept", wait_ms=60_000).ok()
    wait_until(lambda: at_rest(daemon.api.status()["journal"]), 60, "the journal is at rest")
    daemon.kill9()
    (segment,) = segments(daemon)
    content = bytearray(segment.read_bytes())
    torn = tear(content)
    segment.write_bytes(content)

    daemon.start()
    recovery = daemon.api.status()["journal"]["recovery"]
    assert (recovery["verdict"], recovery["discarded_bytes"]) == ("torn-tail", torn)
    again = daemon.api.dispatch("never", {"tag": "kept", **NEVER}, "kept").ok()
    assert (again["operation_id"], again["result"]) == (kept["operation_id"], kept["result"])
    assert daemon.world.arrivals("kept made never") == 1
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    daemon.restart()
    assert daemon.api.status()["journal"]["recovery"]["verdict"] == "clean"
    assert daemon.stop() == 0
    assert verified(daemon) == 0


# --- a failing sync ------------------------------------------------------------------------


FAIL = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO")


@contextlib.contextmanager
def failing_syncs(daemon: Daemon) -> Iterator[None]:
    """From here on every sync of the daemon fails, until it ends."""
    # The mark of a quiet moment is a write too, and not the one that is to fail.
    wait_until(lambda: at_rest(daemon.api.status()["journal"]), 60, "the journal is at rest")
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
        strace.communicate(timeout=60)


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
        wait_until(lambda: "the journal failed" in daemon.log, 60, "it says so")

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
        assert daemon.process.wait(60) == 75
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


# --- no permission -------------------------------------------------------------------------


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
