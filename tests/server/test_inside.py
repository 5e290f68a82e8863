"""Who is inside a sandbox, also when the chain of parents leads past its launcher."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from sandbox.census import start_time
from supervisor.server import inside
from supervisor.server.inside import Init, UnsteadyError, is_inside

NOT_A_PID = 1 << 30
# The first process of a pid namespace, with a child whose parent is gone.
_ORPHANED = ("unshare", "--user", "--pid", "--fork", "sh", "-c", "(sleep 600 &); sleep 600; :")
_CGROUPS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))


def init_of(pid: int, **members: str) -> Init:
    return Init(pid, start_time(pid) or 0, **members)


def children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def name_of(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def until(claim, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := claim()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.002)
    return found


@pytest.fixture
def tree() -> Iterator[tuple[subprocess.Popen[bytes], int, list[int]]]:
    """A process outside, the init of a pid namespace below it, and that one's two children."""
    outer = subprocess.Popen(_ORPHANED)
    try:
        (init,) = until(lambda: children(outer.pid))
        until(lambda: [name_of(pid) for pid in children(init)] == ["sleep"] * 2)
        yield outer, init, children(init)
    finally:
        outer.kill()
        with contextlib.suppress(ProcessLookupError, UnboundLocalError):
            os.kill(init, signal.SIGKILL)
        outer.wait()


@pytest.mark.guarantee("S11", "R12")
def test_whoever_descends_from_the_launcher_is_inside_and_nobody_else(tree):
    outer, init, inner = tree
    for pid in (outer.pid, init, *inner):
        assert is_inside(pid, outer.pid, [])
    assert not is_inside(os.getpid(), outer.pid, [])
    # Somebody else's container is not one of our sandboxes.
    assert not is_inside(inner[0], NOT_A_PID, [init_of(os.getpid() + 1)])


@pytest.mark.guarantee("S11", "R12")
def test_who_is_inside_stays_so_when_the_launcher_is_dead_and_replaced(tree):
    outer, init, inner = tree
    known = init_of(init)
    outer.kill()
    outer.wait()
    for pid in (init, *inner):
        assert not is_inside(pid, NOT_A_PID, [])
        assert is_inside(pid, NOT_A_PID, [known])


@pytest.mark.guarantee("S11")
def test_an_init_is_known_by_its_pid_and_its_start_time_together(tree):
    _, init, inner = tree
    recycled = attrs.evolve(init_of(init), start_time=1)
    assert not is_inside(inner[0], NOT_A_PID, [recycled])


@pytest.mark.guarantee("S11", "R12")
def test_an_orphan_that_escaped_its_parents_is_found_by_its_cgroup(tree):
    outer, _, _ = tree
    root = next((one for one in _CGROUPS if (one / "cgroup.procs").exists()), _CGROUPS[-1])
    mine = root / f"effectd-inside-{os.getpid()}"
    slot = mine / "runs" / "slot-17-3"
    below = slot / "own"
    try:
        below.mkdir(parents=True)
        (below / "cgroup.procs").write_text(str(outer.pid))
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        there = Init(NOT_A_PID, 1, str(slot))
        other = Init(NOT_A_PID, 1, str(mine / "runs" / "slot-17-33"))
        assert is_inside(outer.pid, NOT_A_PID, [there])
        assert not is_inside(outer.pid, NOT_A_PID, [other])
        assert not is_inside(os.getpid(), NOT_A_PID, [there])
    finally:
        (root / "cgroup.procs").write_text(str(outer.pid))
        for folder in (below, slot, slot.parent, mine):
            folder.rmdir()


def test_parents_that_change_while_they_are_read_are_read_again(monkeypatch):
    reads = [[(5, 1), (4, -1)], [(5, 1), (1, 1)], [(5, 1), (1, 1)]]
    monkeypatch.setattr(inside, "_chain", lambda _pid: reads.pop(0))
    assert not is_inside(5, 4, [])
    assert reads == []


def test_nobody_is_let_in_whose_parents_never_stand_still(monkeypatch):
    numbers = iter(range(1_000))
    monkeypatch.setattr(inside, "_chain", lambda _pid: [(5, next(numbers))])
    with pytest.raises(UnsteadyError, match="process 5"):
        is_inside(5, 4, [])


def test_a_process_that_is_gone_is_inside_of_nothing():
    assert not is_inside(NOT_A_PID, 1, [Init(2, 3)])
