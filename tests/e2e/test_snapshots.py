"""Snapshots of a real daemon's journal: made at a stop, begun with at the next start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from bench import history
from tests.e2e.support.api import without_the_time
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import needs_root, new_service
from tests.journal.aged import aged as written

NEVER = {"effects": ["never"]}
LIVE, KEPT = 3, 40


def ctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.fixture
def aged() -> Iterator[Daemon]:
    """A daemon that has been started on a long past and stopped again: it has a snapshot."""
    with new_daemon() as made:
        history.make(made.state / "journal", records=4_000, live=LIVE, kept=KEPT)
        made.start()
        assert made.stop() == 0
        yield made


def snapshots(daemon: Daemon) -> list[Path]:
    return sorted((daemon.state / "journal").glob("snap-*.json"))


def operations(daemon: Daemon) -> dict[str, object]:
    return daemon.api.status()["counts"]["operations"]


@pytest.mark.guarantee("J4", "J9", "R9")
def test_a_start_begins_with_the_snapshot_and_old_events_are_gone(aged: Daemon) -> None:
    (made,) = snapshots(aged)
    api = aged.start().api
    recovery = api.status()["journal"]["recovery"]
    assert made.name == f"snap-{recovery['from_position']:012}.json"
    assert operations(aged) == {"unknown": LIVE, "succeeded": KEPT}
    gone = api.ask("GET", "events", query={"after": 0})
    assert (gone.status, gone.code) == (410, "EventsExpired")
    earliest = gone.document["earliest"]
    assert earliest > recovery["from_position"]
    assert api.events(after=recovery["from_position"]) == api.events(after=earliest - 1)
    first = api.events(after=earliest - 1)[0]
    assert (first["position"], first["type"]) == (earliest, "daemon_started")
    ended = api.dispatch("never", {"tag": "new", **NEVER}, "new", wait_ms=60_000).ok()
    assert ended["state"] == "succeeded"
    assert ctl("verify", str(aged.state), "--require", "chain").returncode == 0


def told(daemon: Daemon) -> list[object]:
    """All that the daemon tells of its operations, newest first."""
    api = daemon.api
    found: list[object] = []
    page = api.get("operations", limit=KEPT + LIVE)
    for one in page["items"]:
        operation = api.operation(one["operation_id"])
        calls = [api.call(call) for call in operation["calls"]]
        effects = [api.effect(e["effect_id"]) for call in calls for e in call["effects"]]
        found.append((one, operation, calls, effects, api.recovery(one["operation_id"])))
    return [without_the_time(one) for one in found]


@pytest.mark.guarantee("J9", "R9")
def test_what_is_told_of_operations_is_the_same_when_they_were_read_as_text() -> None:
    with new_daemon() as made:
        history.make(made.state / "journal", records=4_000, live=LIVE, kept=KEPT)
        before = told(made.start())
        assert made.stop() == 0
        assert len(before) == KEPT + LIVE
        assert told(made.start()) == before


@pytest.mark.guarantee("J2", "J9")
def test_a_damaged_snapshot_is_named_and_put_aside_and_the_log_serves(aged: Daemon) -> None:
    (made,) = snapshots(aged)
    content = bytearray(made.read_bytes())
    content[len(content) // 2] ^= 1
    made.write_bytes(content)
    api = aged.start().api
    recovery = api.status()["journal"]["recovery"]
    assert recovery["from_position"] == 0
    assert list(recovery["bad_snapshots"]) == [made.name]
    assert f"snapshot {made.name} was put into quarantine" in aged.log
    assert operations(aged) == {"unknown": LIVE, "succeeded": KEPT}
    assert (aged.state / "journal" / "quarantine" / made.name).read_bytes() == content


@pytest.mark.guarantee("J5", "J9")
def test_a_snapshot_that_was_written_anew_is_not_believed(aged: Daemon) -> None:
    """Its own checksum fits; the journal recorded another one."""
    (made,) = snapshots(aged)
    body = made.read_bytes().rpartition(b"sha256 ")[0].replace(b"succeeded", b"cancelled")
    made.write_bytes(body + b"sha256 %b\n" % sha256(body).hexdigest().encode())
    assert ctl("verify", str(aged.state), "--require", "chain").returncode == 2
    status = aged.start().api.status()
    assert status["state"] == "read_only"
    assert made.name in status["degraded"][0]["detail"]
    assert f"move {made.name} out of it" in status["degraded"][0]["fix"]
    assert operations(aged) == {"unknown": LIVE, "succeeded": KEPT}
    assert aged.stop() == 0
    made.rename(made.with_name("forged"))
    assert operations(aged.start()) == {"unknown": LIVE, "succeeded": KEPT}


SMALL = """
[journal]
segment_bytes = 65_536
state_bytes = 1_048_576
"""


@needs_root("under a configuration file the own uid of an ordinary user holds nothing")
@pytest.mark.guarantee("R10")
def test_a_full_state_directory_refuses_new_work_says_why_and_heals() -> None:
    with new_service(tables=SMALL) as daemon:
        api = daemon.start().api
        before = api.dispatch("never", {"tag": "before", **NEVER}, "before", wait_ms=60_000).ok()
        ballast = daemon.state / "ballast"
        ballast.write_bytes(b"x" * 1_000_000)
        wait_until(lambda: api.status()["state"] == "degraded", 60, "it is seen to be full")
        answer = api.dispatch("never", {"tag": "after", **NEVER}, "after")
        assert (answer.status, answer.code) == (429, "LimitExceeded")
        assert "journal.state_bytes 1048576" in answer.document["detail"]
        again = api.dispatch("never", {"tag": "before", **NEVER}, "before").ok()
        assert again["operation_id"] == before["operation_id"]
        taken = api.status()["journal"]["state_bytes"]
        assert taken["used"] > 1_000_000
        assert taken["limit"] == 1_048_576
        ballast.unlink()
        wait_until(lambda: api.status()["state"] == "ready", 60, "it heals by itself")
        api.dispatch("never", {"tag": "after", **NEVER}, "after", wait_ms=60_000).ok()


@needs_root("under a configuration file the own uid of an ordinary user holds nothing")
@pytest.mark.guarantee("J5", "J9")
def test_segments_that_no_start_needs_go_to_the_archive_and_complete_the_chain_there(
    tmp_path: Path,
) -> None:
    """Two snapshots are there; the daemon's own, at its stop, leaves what is before the older."""
    archive = tmp_path / "archive"
    tables = f'[journal]\nsegment_bytes = 65_536\narchive_dir = "{archive}"\n'
    with new_service(tables=tables) as daemon:
        journal = daemon.state / "journal"
        daemon.state.mkdir(mode=0o700, exist_ok=True)
        written(journal, records=6_400, cover=False)
        before = {one.name: one.read_bytes() for one in journal.glob("*.jnl")}
        daemon.start()
        assert daemon.stop() == 0
        archived = {one.name: one.read_bytes() for one in archive.iterdir()}
        kept = {one.name: one.read_bytes() for one in journal.glob("*.jnl")}
        assert archived
        assert not set(archived) & set(kept)
        assert {**kept, **archived}.keys() >= before.keys()
        newest = max(before)  # the daemon wrote on in this one
        assert {n: c for n, c in before.items() if n != newest}.items() <= (kept | archived).items()
        assert len(snapshots(daemon)) == 2
        began = ctl("verify", str(journal), "--require", "chain", "-o", "json")
        assert json.loads(began.stdout)["base"] > 0
        for one in archive.iterdir():
            one.rename(journal / one.name)
        whole = json.loads(ctl("verify", str(journal), "--require", "chain", "-o", "json").stdout)
        assert (whole["verdict"], whole["base"]) == ("intact", 0)
