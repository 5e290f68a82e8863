"""A handler that takes all it can get hurts only itself, is told why it ended and what it used."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.spec import LAYERS
from tests.e2e.support.api import Document
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until

MIB = 1 << 20
TASKS_MAX = 12
MEMORY_MAX = 48 * MIB

MANIFEST = f"""\
manifest = 1
command = ["%s"]
timeout_ms = 60_000
grace_ms = 200
max_running = 8
read_only = true
[sandbox]
cpu_max_ms = 1_000
file_size_max = "8M"
tasks_max = {TASKS_MAX}
memory_max = "48M"
"""


def used_by(daemon: Daemon, do: str, handler: str = "use", **more: Any) -> Document:
    """The call of a handler that does so, at its end."""
    answer = daemon.api.dispatch(handler, {"do": do, **more}, wait_ms=60_000).ok()
    call: Document = answer["call"]
    assert answer["state"] in {"succeeded", "failed"}, answer
    return call


def attempt_of(call: Document) -> Document:
    attempts: list[Document] = call["attempts"]
    return attempts[-1]


def add_handlers(daemon: Daemon) -> None:
    text = MANIFEST % (daemon.programs / "use")
    daemon.add_handler("use", text)
    # It may let a file grow as long as there is room, and count for a while.
    roomy = text.replace('"8M"', '"1G"').replace("cpu_max_ms = 1_000", "cpu_max_ms = 60_000")
    daemon.add_handler("roomy", roomy)


@pytest.fixture(scope="module")
def daemon_with_users() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        add_handlers(daemon)
        yield daemon.start()


# --- limits that every host has ---------------------------------------------------------


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("do", "limit", "signal_number"),
    [("cpu", "cpu", 24), ("deaf cpu", "cpu", 9), ("file", "file_size", 25)],
)
def test_a_limit_that_ended_a_handler_is_named_with_what_to_raise(
    daemon_with_users: Daemon, do: str, limit: str, signal_number: int
) -> None:
    call = used_by(daemon_with_users, do)
    attempt = attempt_of(call)
    assert (attempt["outcome"], attempt["exit"]) == ("failed", {"signal": signal_number})
    assert (attempt["code"], attempt["usage"]["limit"]) == ("LimitExceeded", limit)
    assert call["error"]["detail"].startswith(f"{limit}: ")
    assert f"{limit}_max" in call["error"]["fix"]
    if limit == "cpu":
        # What is counted for the limit and what is measured differ on a busy virtual machine.
        assert 400 <= attempt["usage"]["cpu_ms"] < 6_000


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize("do", ["space", "inodes"])
def test_a_full_tmp_is_full_for_its_own_handler_alone(daemon_with_users: Daemon, do: str) -> None:
    free = os.statvfs("/tmp")
    answer = daemon_with_users.api.dispatch("roomy", {"do": do}, wait_ms=60_000).ok()
    assert answer["result"]["errno"] == "ENOSPC"
    # 64 MiB and 16 thousand names, a few of them taken.
    low, high = {"space": (60, 64), "inodes": (16_000, 16_384)}[do]
    assert low <= answer["result"]["count"] <= high
    after = os.statvfs("/tmp")
    assert (free.f_bfree - after.f_bfree) * free.f_frsize < 48 * MIB  # others use it as well
    assert daemon_with_users.api.dispatch("roomy", {"do": "nothing"}, wait_ms=30_000).ok()[
        "state"
    ] == ("succeeded")


@pytest.mark.guarantee("S6")
def test_a_fork_bomb_stops_at_its_limit_and_another_handler_of_its_uid_still_forks(
    daemon_with_users: Daemon,
) -> None:
    for _ in range(2):
        call = used_by(daemon_with_users, "tasks")
        assert call["result"]["errno"] == "EAGAIN"
        # With itself it is one more.
        assert call["result"]["count"] == TASKS_MAX - 1
        attempt = attempt_of(call)
        assert attempt["leftovers_killed"] == TASKS_MAX - 1
        if attempt["usage"]["tasks_started"] is not None:
            assert attempt["usage"]["tasks_started"] >= TASKS_MAX
        if attempt["usage"]["tasks_peak"] is not None:
            assert attempt["usage"]["tasks_peak"] == TASKS_MAX


@pytest.mark.guarantee("S6", "S9")
def test_what_was_used_is_recorded_with_whose_it_is_and_survives_a_restart(daemon: Daemon) -> None:
    add_handlers(daemon)
    call = used_by(daemon, "memory", "roomy", bytes=20 * MIB)
    attempt = attempt_of(call)
    usage = attempt["usage"]
    assert usage["cpu_ms"] > 0
    assert usage["cpu_scope"] in {"tree", "reaped"}
    assert usage["limit"] is None
    assert usage["memory_scope"] in {"tree", "largest_process"}
    assert 20 * MIB < usage["memory_peak_bytes"] < 80 * MIB
    assert set(attempt["layers"]) <= set(LAYERS)
    assert "tasks" in attempt["layers"]
    daemon.restart()
    assert daemon.api.call(call["call_id"])["attempts"] == [attempt]


# --- with a cgroup of our own -----------------------------------------------------------


class Delegated(Daemon):
    """A daemon in a cgroup that says it is delegated, as systemd would start it."""

    cgroup: Path

    def _command(self) -> list[str]:
        enter = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
        return ["/bin/sh", "-c", enter, str(self.cgroup), *super()._command()]


def _mount() -> Path:
    for mount in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        if (mount / "cgroup.procs").exists():
            return mount
    pytest.skip("no cgroup v2 hierarchy is mounted")


@pytest.fixture(scope="module")
def delegated() -> Iterator[Delegated]:
    if os.geteuid() != 0:
        pytest.skip("only root can delegate a cgroup without a service manager")
    unit = _mount() / f"effectd-limits-{os.getpid()}"
    try:
        unit.mkdir()
        os.setxattr(unit, "trusted.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no cgroup can be delegated here: {error}")
    base = Path(tempfile.mkdtemp(prefix="effectd-limits-"))
    base.chmod(0o755)  # handlers run as nobody
    daemon = Delegated(base)
    daemon.cgroup = unit
    try:
        add_handlers(daemon)
        yield daemon.start()
    finally:
        daemon.close()
        for folder in (*sorted(unit.rglob("*/"), reverse=True), unit):
            wait_until(lambda folder=folder: _removed(folder), 60, f"{folder} is empty")


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def slots(daemon: Delegated) -> list[Path]:
    return list((daemon.cgroup / "runs").glob("slot-*"))


@pytest.mark.guarantee("S6")
def test_the_supervisor_lives_beside_its_sandboxes_and_none_is_left_behind(
    delegated: Delegated,
) -> None:
    attempt = attempt_of(used_by(delegated, "nothing"))
    assert "cgroup" in attempt["layers"]
    inside = (delegated.cgroup / "supervisor" / "cgroup.procs").read_text().split()
    assert {str(delegated.pid), str(delegated.launcher)} <= set(inside)
    assert (delegated.cgroup / "cgroup.procs").read_text() == ""


@pytest.mark.guarantee("S6")
def test_processor_time_is_the_trees_even_of_processes_that_nobody_waited_for(
    delegated: Delegated,
) -> None:
    usage = attempt_of(used_by(delegated, "orphans", seconds=0.6))["usage"]
    assert usage["cpu_scope"] == "tree"
    assert 600 <= usage["cpu_ms"] < 3_000


def needs_controller(daemon: Daemon, layer: str, controller: str) -> Document:
    """An attempt there; skips where that controller does not reach its sandbox."""
    attempt = attempt_of(used_by(daemon, "nothing"))
    there = (_mount() / "cgroup.controllers").read_text().split()
    if controller not in there:
        assert layer == "tasks" or layer not in attempt["layers"]
        pytest.skip(f"this host's cgroup v2 hierarchy has no {controller} controller")
    assert layer in attempt["layers"]
    return attempt


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize("do", ["memory", "child memory"])
def test_a_handler_that_runs_out_of_memory_ends_whole_alone_and_is_told_why(
    delegated: Delegated, do: str
) -> None:
    needs_controller(delegated, "memory", "memory")
    before = (delegated.pid, delegated.launcher)
    call = used_by(delegated, do, "roomy")
    attempt = attempt_of(call)
    assert (attempt["outcome"], attempt["exit"]) == ("failed", {"signal": 9})
    assert (attempt["code"], attempt["usage"]["limit"]) == ("LimitExceeded", "memory")
    assert f"memory_max = {MEMORY_MAX}" in call["error"]["detail"]
    assert "memory_max" in call["error"]["fix"]
    assert attempt["usage"]["memory_scope"] == "tree"
    assert 0.8 * MEMORY_MAX < attempt["usage"]["memory_peak_bytes"] <= MEMORY_MAX
    assert attempt["proven_dead"] is True
    # Whoever is beside it goes on.
    assert (delegated.pid, delegated.launcher) == before
    fine = used_by(delegated, "memory", "roomy", bytes=16 * MIB)
    assert attempt_of(fine)["outcome"] == "succeeded"
    assert attempt_of(fine)["usage"]["memory_peak_bytes"] > 16 * MIB


@pytest.mark.guarantee("S6")
def test_tmp_counts_as_memory(delegated: Delegated) -> None:
    needs_controller(delegated, "memory", "memory")
    call = used_by(delegated, "space", "roomy")
    assert attempt_of(call)["usage"]["limit"] == "memory"  # 48 MiB, where /tmp would hold 64


@pytest.mark.guarantee("S6")
def test_tasks_are_counted_where_a_controller_counts_them(delegated: Delegated) -> None:
    needs_controller(delegated, "tasks", "pids")
    usage = attempt_of(used_by(delegated, "tasks", "roomy"))["usage"]
    # pids.peak came with Linux 6.1.
    assert usage["tasks_peak"] in {TASKS_MAX, None}
    runs = delegated.cgroup / "runs"
    assert int((runs / "pids.max").read_text()) > 0
    assert (delegated.cgroup / "supervisor" / "pids.max").read_text() == "max\n"


@pytest.mark.guarantee("S6")
def test_all_sandboxes_together_leave_the_supervisor_its_room(delegated: Delegated) -> None:
    needs_controller(delegated, "memory", "memory")
    runs, supervisor = delegated.cgroup / "runs", delegated.cgroup / "supervisor"
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < int((runs / "memory.max").read_text()) < total
    assert (supervisor / "memory.max").read_text() == "max\n"
    assert int((supervisor / "memory.min").read_text()) > 0
