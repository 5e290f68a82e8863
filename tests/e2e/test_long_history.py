"""A start costs what is alive, not what has happened."""

from __future__ import annotations

import time

import pytest

from bench.history import make
from tests.e2e.support.daemon import Daemon, new_daemon

RECORDS, LIVE = 1_000_000, 100
# The first start reads all of it, which takes minutes: a snapshot is what it leaves.
READ_S = 900
# What is kept besides: 1,100 operations, and a tombstone for each of 125,000. Most of this is room
# for a slow machine.
MORE_S = 0.8


def first_dispatch(daemon: Daemon) -> float:
    """Seconds from the start of the process to the end of its first call."""
    began = time.monotonic()
    daemon.start()
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    spent = time.monotonic() - began
    assert daemon.stop() == 0
    return spent


@pytest.mark.long
@pytest.mark.timeout(2 * READ_S)
@pytest.mark.guarantee("J4")
def test_a_million_records_of_history_are_not_read_again() -> None:
    with new_daemon() as daemon, new_daemon() as young:
        made = make(daemon.state / "journal", records=RECORDS, live=LIVE)
        assert made.records >= RECORDS
        daemon.start(READ_S)
        assert daemon.stop() == 0
        empty_s = min(first_dispatch(young) for _ in range(3))
        old_s = min(first_dispatch(daemon) for _ in range(3))
        journal = daemon.start().api.status()["journal"]
        recovery = journal["recovery"]
        print(f"to the first dispatch: {old_s:.2f} s; empty journal {empty_s:.2f} s: {recovery}")
        # A few decisions behind the snapshot.
        assert journal["position"] - recovery["from_position"] < 100
        unfinished = daemon.api.get("operations", state="interrupted,unknown", limit=1_000)["items"]
        assert len(unfinished) == LIVE
        assert old_s < empty_s + MORE_S
