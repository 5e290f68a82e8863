"""What a daemon takes in memory grows with what is alive, not with what is finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.history import make
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until

# A live operation takes 6,000 bytes: 17 MiB for the difference. Measured: 0.1 MiB of 9,900. The
# rest is what two daemons, or one twice, differ in.
FEW, MANY, MOST = 100, 3_000, 1.5 * 2**20


def anonymous(daemon: Daemon) -> int:
    """Bytes of memory that no file is behind."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def begun(daemon: Daemon, kept: int) -> int:
    """What it takes when it has so many finished operations; at the least, within seconds: what
    its start took goes back."""
    make(daemon.state / "journal", records=kept * 10, live=10, kept=kept)
    daemon.start(300)
    assert daemon.stop() == 0  # a snapshot is what it leaves
    daemon.start()
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    found = [anonymous(daemon)]
    wait_until(lambda: found.append(anonymous(daemon)) or len(found) > 200)
    assert len(daemon.api.get("operations", state="succeeded", limit=FEW)["items"]) == FEW
    return min(found)


@pytest.mark.guarantee("J4")
def test_a_daemon_takes_the_same_with_thousands_of_finished_operations() -> None:
    with new_daemon() as few, new_daemon() as many:
        less, more = begun(few, FEW), begun(many, MANY)
    print(f"{less / 2**20:.1f} MiB with {FEW}, {more / 2**20:.1f} MiB with {MANY}")
    assert more - less < MOST
