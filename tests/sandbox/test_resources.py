"""What is written into a cgroup and read out of it, on plain files: they are the interface."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sandbox import cgroups
from sandbox.cgroups import Cgroup, Used, put
from sandbox.spec import SandboxUnavailable
from supervisor.delegated import MEMORY_ROOM, TASKS_ROOM, share_out

MEMORY_FILES = ("memory.max", "memory.swap.max", "memory.oom.group")
GIB = 1 << 30


def files(folder: Path, **contents: str) -> Path:
    """A cgroup of plain files; in names `__` stands for the dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}


# --- one sandbox's limits ------------------------------------------------------------------


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("there", "held", "written"),
    [
        ((), (), {}),
        (("pids.max",), ("tasks",), {"pids.max": "65"}),
        (
            MEMORY_FILES,
            ("memory",),
            {"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1"},
        ),
        # A kernel that counts no swap has no file for it, and nothing is swapped out unseen.
        (
            ("memory.max", "memory.oom.group", "pids.max"),
            ("memory", "tasks"),
            {"memory.max": "1048576", "memory.oom.group": "1", "pids.max": "65"},
        ),
        (("memory.swap.max", "memory.oom.group"), (), None),
    ],
)
def test_a_limit_holds_exactly_where_its_file_took_it(
    tmp_path: Path, there: tuple[str, ...], held: tuple[str, ...], written: dict[str, str] | None
) -> None:
    for name in there:
        (tmp_path / name).write_text("max\n")
    made = Cgroup(tmp_path).limited(memory_max=1 << 20, tasks_max=64)
    assert made.limits == held
    if written is not None:
        assert texts(tmp_path) == written
    assert not {"memory.max", "pids.max"} - set(there) & set(os.listdir(tmp_path))


def test_what_is_not_asked_for_is_not_written(tmp_path: Path) -> None:
    files(tmp_path, memory__max="max\n", pids__max="max\n")
    assert Cgroup(tmp_path).limited(memory_max=None, tasks_max=None).limits == ()
    assert texts(tmp_path) == {"memory.max": "max\n", "pids.max": "max\n"}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBUSY, errno.EACCES])
def test_a_limit_that_the_kernel_refuses_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(fd: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    files(tmp_path, memory__max="max", pids__max="max")
    monkeypatch.setattr("sandbox.cgroups.os.write", refuse)
    before = len(os.listdir("/proc/self/fd"))
    assert Cgroup(tmp_path).limited(memory_max=1 << 20, tasks_max=4).limits == ()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_is_not_there_is_never_made(tmp_path: Path) -> None:
    assert not put(tmp_path / "memory.max", "1")
    assert os.listdir(tmp_path) == []


# --- what was used -------------------------------------------------------------------------

CPU = "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n"
EVENTS = "low 0\nhigh 0\nmax {0}\noom {0}\noom_kill {1}\noom_group_kill {1}\n"


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("contents", "used"),
    [
        ({}, Used()),
        ({"cpu__stat": CPU}, Used(cpu_us=1_234_567)),
        ({"cpu__stat": ""}, Used()),
        ({"cpu__stat": "usage_usec many\n"}, Used()),
        ({"memory__peak": "4096\n", "pids__peak": "1\n"}, Used(memory_peak=4096, tasks_peak=0)),
        ({"pids__peak": "9\n"}, Used(tasks_peak=8)),
        ({"memory__events": EVENTS.format(0, 0)}, Used()),
        ({"memory__events": EVENTS.format(0, 2)}, Used(out_of_memory=True)),
        (
            {"memory__events": EVENTS.format(5, 1)},
            Used(out_of_memory=True, over_memory_max=True),
        ),
        ({"memory__events": EVENTS.format(5, 0)}, Used(over_memory_max=True)),
        ({"pids__events": "max 17\n"}, Used(tasks_refused=17)),
        ({"pids__events": "max 0\n"}, Used()),
    ],
)
def test_what_was_used_is_what_the_files_say(
    tmp_path: Path, contents: dict[str, str], used: Used
) -> None:
    assert Cgroup(files(tmp_path, **contents)).used() == used


def test_a_cgroup_that_is_gone_used_nothing_that_is_known(tmp_path: Path) -> None:
    assert Cgroup(tmp_path / "gone").used() == Used()


# --- making one ----------------------------------------------------------------------------


def test_one_that_cannot_be_made_is_a_sandbox_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(SandboxUnavailable, match="Delegate=yes") as caught:
        Cgroup.make(tmp_path, None)
    assert caught.value.layer == "cgroup"
    assert str(tmp_path) in caught.value.cause


def test_one_that_cannot_be_given_to_the_handlers_group_is_not_left_behind(tmp_path: Path) -> None:
    # Plain directories have no cgroup.procs, so that chown fails as it would for a stranger.
    with pytest.raises(SandboxUnavailable, match="SupplementaryGroups="):
        Cgroup.make(tmp_path, os.getegid() + 1)
    assert os.listdir(tmp_path / "runs") == []


def test_the_daemons_own_group_needs_nothing(tmp_path: Path) -> None:
    assert Cgroup.make(tmp_path, os.getegid()).path.parent == tmp_path / "runs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to a group it is not in")
def test_the_handlers_group_may_write_where_its_processes_are_born(cgroup_root: Path) -> None:
    group = 65_534
    assert cgroups.unavailable(cgroup_root, group) is None
    made = Cgroup.make(cgroup_root, group)
    try:
        for folder in (made.path, cgroup_root / "runs"):
            status = (folder / "cgroup.procs").stat()
            assert (status.st_gid, status.st_mode & 0o777) == (group, 0o664)
            # Not what would let it make cgroups, or change limits.
            assert folder.stat().st_mode & 0o022 == 0
    finally:
        assert made.remove()


# --- the supervisor's room -----------------------------------------------------------------


def delegated(base: Path, controllers: str, **own: str) -> Path:
    """<unit>, <unit>/supervisor and <unit>/runs with the files of these controllers."""
    parts = {
        "memory": {"memory__max": "max\n", "memory__min": "0\n"},
        "pids": {"pids__max": "max\n"},
        "cpu": {"cpu__weight": "100\n"},
    }
    known = {k: v for name in controllers.split() for k, v in parts.get(name, {}).items()}
    common = {"cgroup__controllers": controllers, "cgroup__subtree_control": ""}
    unit = files(base / "system.slice" / "effectd.service", **{**common, **known, **own})
    for name in ("supervisor", "runs"):
        files(unit / name, **common, **known)
    return unit


def proc(base: Path, memory_kib: int = 16 << 20, pid_max: int = 4_194_304) -> Path:
    folder = base / "proc"
    files(folder, meminfo=f"MemTotal:       {memory_kib} kB\nMemFree: 1 kB\n")
    files(folder / "sys" / "kernel", pid_max=f"{pid_max}\n")
    (folder / "sys" / "kernel" / "threads-max").write_text("126000\n")
    return folder


@pytest.mark.guarantee("S6")
def test_the_sandboxes_get_everything_but_the_supervisors_room(tmp_path: Path) -> None:
    unit = delegated(tmp_path, "cpuset cpu io memory pids")
    assert share_out(unit, tmp_path, proc=proc(tmp_path)) == ("memory", "pids", "cpu")
    assert texts(unit)["memory.max"] == "max\n"  # what the manager set is the manager's
    runs, supervisor = texts(unit / "runs"), texts(unit / "supervisor")
    assert runs["memory.max"] == str(16 * GIB - MEMORY_ROOM)
    assert runs["pids.max"] == str(126_000 - TASKS_ROOM)
    assert supervisor["memory.min"] == str(MEMORY_ROOM)
    assert (supervisor["memory.max"], supervisor["pids.max"]) == ("max\n", "max\n")
    assert int(supervisor["cpu.weight"]) > int(runs["cpu.weight"])


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("own", "around", "memory", "tasks"),
    [
        ("max", "max", 16 * GIB - MEMORY_ROOM, 126_000 - TASKS_ROOM),
        (str(4 * GIB), "max", 4 * GIB - MEMORY_ROOM, 126_000 - TASKS_ROOM),
        ("max", str(2 * GIB), 2 * GIB - MEMORY_ROOM, 126_000 - TASKS_ROOM),
        # A small one: a quarter is kept, and never everything.
        (str(400 << 20), str(2 * GIB), 300 << 20, 126_000 - TASKS_ROOM),
        ("0", "max", 0, 126_000 - TASKS_ROOM),
    ],
)
def test_the_least_of_what_is_around_counts(
    tmp_path: Path, own: str, around: str, memory: int, tasks: int
) -> None:
    unit = delegated(tmp_path, "memory pids", memory__max=f"{own}\n")
    files(unit.parent, memory__max=f"{around}\n")
    share_out(unit, tmp_path, proc=proc(tmp_path))
    assert texts(unit / "runs")["memory.max"] == str(memory)
    assert texts(unit / "runs")["pids.max"] == str(tasks)


def test_a_small_host_keeps_a_quarter_of_its_tasks(tmp_path: Path) -> None:
    unit = delegated(tmp_path, "pids", pids__max="1000\n")
    share_out(unit, tmp_path, proc=proc(tmp_path))
    assert texts(unit / "runs")["pids.max"] == "750"


@pytest.mark.parametrize("controllers", ["", "io rdma", "hugetlb"])
def test_without_controllers_nothing_is_limited_and_nothing_made(
    tmp_path: Path, controllers: str
) -> None:
    unit = delegated(tmp_path, controllers)
    before = {folder: texts(folder) for folder in (unit, unit / "runs", unit / "supervisor")}
    assert share_out(unit, tmp_path, proc=proc(tmp_path)) == ()
    assert {folder: texts(folder) for folder in before} == before


def test_a_controller_that_is_held_back_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def refuse_cpu(fd: int, data: bytes) -> int:
        if data == b"+cpu":
            raise OSError(errno.EINVAL, "real-time tasks")
        return real(fd, data)

    monkeypatch.setattr("sandbox.cgroups.os.write", refuse_cpu)
    unit = delegated(tmp_path, "cpu memory pids")
    assert share_out(unit, tmp_path, proc=proc(tmp_path)) == ("memory", "pids")
    assert texts(unit / "supervisor")["cpu.weight"] == "100\n"


def test_a_proc_that_tells_nothing_leaves_the_managers_limits(tmp_path: Path) -> None:
    unit = delegated(tmp_path, "memory pids", memory__max=f"{GIB}\n", pids__max="9000\n")
    share_out(unit, tmp_path, proc=tmp_path / "nothing")
    assert texts(unit / "runs")["memory.max"] == str(GIB - MEMORY_ROOM)
    assert texts(unit / "runs")["pids.max"] == str(9_000 - TASKS_ROOM)
