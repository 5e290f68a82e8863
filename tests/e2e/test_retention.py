"""What a daemon lets go of by itself, on a journal whose records are a month old."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

import attrs
import pytest

from tests.e2e.support import journals
from tests.e2e.support.api import Document
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.journal_files import held
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import Service, needs_root

DAY_S = 86_400
DAY_NS = DAY_S * 1_000_000_000


def aged(daemon: Daemon, days: int) -> None:
    """A stopped daemon's journal, as if all of it had happened so long ago."""
    directory = daemon.state / "journal"
    frames = [
        tuple(attrs.evolve(record, at=record.at - days * DAY_NS) for record in frame)
        for frame in journals.read(directory)
    ]
    journals.write(directory, frames)


def gone(daemon: Daemon, operation: Document) -> bool:
    path = f"operations/{operation['operation_id']}"
    return daemon.api.ask("GET", path).code == "OperationExpired"


def made(daemon: Daemon, request_id: str) -> Document:
    return daemon.api.dispatch("plain", {}, request_id, wait_ms=60_000).ok()


@pytest.mark.guarantee("R10", "R11")
def test_a_month_lets_go_of_what_is_finished_and_gives_up_what_nobody_asks_for(
    daemon: Daemon,
) -> None:
    api = daemon.api
    finished = made(daemon, "finished")
    session = api.post("sessions", {"request_id": "s1"}).ok()["session_id"]
    message = {"message_id": "m1", "max_run_ms": 600_000, "wait_ms": 60_000}
    message["call"] = {"handler": "plain", "input": {}}
    said = api.post(f"sessions/{session}/messages", message).ok()
    doubted, given_up = held(daemon, "doubted"), held(daemon, "given-up")
    daemon.restart()
    [effect] = api.final(given_up["operation_id"])["call"]["effects"]
    api.resolve(effect["effect_id"], "not_applied").ok()
    assert daemon.stop() == 0
    aged(daemon, 31)
    young = daemon.start().api.dispatch("plain", {}, "young", wait_ms=60_000).ok()
    wait_until(lambda: gone(daemon, finished), 30, "the finished one is evicted")

    def state(operation: Document) -> str:
        said: str = api.operation(operation["operation_id"])["state"]
        return said

    wait_until(lambda: state(given_up) == "cancelled", 30, "the interrupted one is given up")
    abandoned = [one for one in api.events() if one["type"] == "operation_abandoned"]
    assert [(one["operation_id"], one["days"]) for one in abandoned] == [
        (given_up["operation_id"], 30)
    ]
    # What is unknown is kept until somebody settles it, however long that takes.
    assert (state(doubted), state(young)) == ("unknown", "succeeded")
    listed = {one["operation_id"] for one in api.get("operations")["items"]}
    assert listed == {one["operation_id"] for one in (doubted, given_up, young)}
    # Its message is known for longer, and never runs again.
    assert api.dispatch("plain", {}, "finished").code == "OperationExpired"
    assert api.dispatch("plain", {"tag": "x"}, "finished").code == "RequestConflict"
    assert api.post(f"sessions/{session}/messages", message).code == "OperationExpired"
    [left] = api.get(f"sessions/{session}")["messages"]
    assert (left["operation_id"], left["state"]) == (said["operation_id"], "expired")
    assert daemon.stop() == 0
    aged(daemon, 401)
    daemon.start()
    path = f"operations/{finished['operation_id']}"
    wait_until(lambda: api.ask("GET", path).code == "NotFound", 30, "its tombstone goes too")
    there = f"sessions/{session}"
    wait_until(lambda: api.ask("GET", there).code == "NotFound", 30, "the session ends")
    assert api.post(f"{there}/messages", message).code == "NotFound"
    assert api.ask("GET", f"operations/{said['operation_id']}").code == "NotFound"
    assert api.post("sessions", {"request_id": "s1"}).ok()["session_id"] != session
    assert (
        api.dispatch("plain", {"tag": "x"}, "finished", wait_ms=60_000).ok()["state"] == "succeeded"
    )


@needs_root("under a configuration file the own uid of an ordinary user holds nothing")
@pytest.mark.guarantee("R10")
def test_a_start_with_a_smaller_limit_lets_the_oldest_go() -> None:
    base = Path(tempfile.mkdtemp(prefix="effectd-e2e-"))
    with contextlib.closing(Service(base)) as daemon:
        base.chmod(0o755)
        daemon.start()
        first, second = made(daemon, "first"), made(daemon, "second")
        assert daemon.stop() == 0
        daemon.grant("[limits]\noperations_kept = 1")
        daemon.start()
        wait_until(lambda: gone(daemon, first), 30, "the oldest is evicted")
        assert daemon.api.operation(second["operation_id"])["state"] == "succeeded"


def test_outputs_go_after_a_week_and_so_does_what_a_crash_left_half_written(
    daemon: Daemon,
) -> None:
    call = made(daemon, "first")["call"]["call_id"]
    directory = daemon.state / "output"
    [old] = directory.iterdir()
    half = directory / "call_00000000000000000000-0.tmp"
    half.write_bytes(b"{")
    week_ago = time.time() - 8 * DAY_S
    for one in (old, half):
        os.utime(one, (week_ago, week_ago))
    daemon.restart()
    wait_until(lambda: not list(directory.iterdir()), 30, "old outputs are removed")
    assert daemon.api.get(f"calls/{call}/output")["stdout"]["bytes"] == 0
    made(daemon, "second")
    assert len(list(directory.iterdir())) == 1
