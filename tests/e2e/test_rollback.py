"""Restoring a backup, as docs/backup.md tells it, on a real daemon and its witness."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support.daemon import Daemon
from tests.e2e.support.processes import wait_until

NEVER = {"effects": ["never"]}


def ctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def restored(daemon: Daemon, backup: Path) -> None:
    (daemon.state / "journal").rename(daemon.state / "journal.lost")
    shutil.copytree(backup / "journal", daemon.state / "journal")


@pytest.mark.guarantee("J10", "J5", "J6")
def test_a_restored_backup_is_refused_until_a_person_accepts_what_it_forgets(
    daemon: Daemon,
) -> None:
    api, backup, kept = daemon.api, daemon.base / "backup", daemon.base / "anchors"
    before = api.dispatch("never", {"tag": "before", **NEVER}, "before", wait_ms=60_000).ok()
    made = ctl("backup", str(backup), str(daemon.state), "-o", "json")
    assert made.returncode == 0, made.stderr
    after = api.dispatch("never", {"tag": "after", **NEVER}, "after", wait_ms=60_000).ok()
    anchored = ctl("anchor", str(daemon.state), "--out", str(kept), "-o", "json")
    assert anchored.returncode == 0, anchored.stderr
    assert daemon.stop(30) == 0
    last = json.loads((daemon.base / "state-witness/witness.json").read_text().rpartition(" ")[0])

    restored(daemon, backup)
    assert ctl("verify", str(daemon.state), "--anchor", str(backup / "ANCHOR")).returncode == 0
    assert ctl("verify", str(daemon.state), "--anchor", str(kept)).returncode == 4
    refused = daemon.start_another()
    assert refused.returncode == 78
    assert f"saw position {last['position']} at {last['at']}" in refused.stderr
    assert "--accept-rollback REASON" in refused.stderr

    daemon.options = ["--accept-rollback", "the disk died"]
    daemon.start()
    assert "a roll-back was accepted" in daemon.log
    assert api.status()["state"] == "ready"
    assert api.operation(before["operation_id"])["state"] == "succeeded"
    # Forgotten: whoever asks again makes it again.
    assert api.ask("GET", f"operations/{after['operation_id']}").code == "NotFound"
    started = [one for one in api.events() if one["type"] == "daemon_started"]
    assert started[-1]["rollback"].endswith("accepted: the disk died")
    assert "rollback" not in started[0]

    # What was lost tells what was done since.
    lost = ctl("dump", str(daemon.state / "journal.lost"))
    assert after["call"]["effects"][0]["effect_id"] in lost.stdout
    daemon.kill9()
    daemon.start()  # the option was left behind, and accepts nothing
    assert "take it away" in daemon.log


@pytest.mark.guarantee("J10")
def test_a_witness_that_cannot_be_kept_is_said_and_heals(daemon: Daemon) -> None:
    """The daemon goes on: its journal is good. A stop tells the witness what it missed."""
    witness = daemon.base / "state-witness"
    blocked = witness / "witness.json.tmp"
    blocked.mkdir()
    daemon.api.dispatch("never", {"tag": "t", **NEVER}, "t", wait_ms=60_000).ok()

    def degraded() -> list[str]:
        return [one["detail"] for one in daemon.api.status()["degraded"]]

    wait_until(lambda: any("roll-back" in one for one in degraded()), 60, "it is said")
    blocked.rmdir()
    wait_until(lambda: not degraded(), 60, "it is kept again")
    assert daemon.stop(30) == 0
