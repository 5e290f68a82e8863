"""The cgroup that the service manager delegated to us, if it did, and how it is shared out.

    <delegated>/supervisor      the daemon and its launcher
    <delegated>/runs            limits for all sandboxes together
    <delegated>/runs/slot-N     one sandbox, with limits of its own

Our own processes move into `supervisor/` first: a cgroup with processes of its own cannot hand
controllers to its children.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from sandbox.cgroups import RUNS, put

SUPERVISOR = "supervisor"
CONTROLLERS = ("memory", "pids", "cpu")
# The second where both hierarchies are in use: it has no controllers, and ends a tree all the same.
_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_PROC = Path("/proc")
# Set by systemd on what `Delegate=` names, so that nobody has to guess from ownership.
_MARKS = ("user.delegate", "trusted.delegate")

# What all sandboxes together leave to the supervisor, however many they are: it must still be
# able to fork, to read its journal back and to write down how they ended.
MEMORY_ROOM = 256 * 2**20
TASKS_ROOM = 512
# Of a small host the supervisor keeps no more than a quarter.
_ROOM_PART = 4
# Against 100 for all sandboxes together, of whom each weighs the same however many tasks it has:
# the supervisor needs little, but at once.
_CPU_WEIGHT = 1_000


def delegated_cgroup() -> Path | None:
    """The delegated cgroup, with this process moved below it; None without one."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    root = next((one for one in _ROOTS if (one / "cgroup.procs").exists()), None)
    if path is None or root is None:
        return None
    own = root / path.lstrip("/")
    if not _is_delegated(own):
        return None
    try:
        (own / SUPERVISOR).mkdir(exist_ok=True)
        (own / SUPERVISOR / "cgroup.procs").write_text("0", encoding="ascii")
        (own / RUNS).mkdir(exist_ok=True)
    except OSError:
        return None
    share_out(own, root)
    return own


def share_out(own: Path, root: Path, proc: Path = _PROC) -> tuple[str, ...]:
    """Hand the controllers of ``own`` down to the sandboxes, and keep room for the supervisor.

    ``root`` is where the hierarchy is mounted: limits up to there count.

    The controllers that reach the sandboxes; one that is not delegated, or that processes beside
    ours in ``own`` hold back, is not among them.
    """
    reached = tuple(name for name in _offered(own) if _hand_down(own, name))
    runs, supervisor = own / RUNS, own / SUPERVISOR
    if "memory" in reached:
        total = _least(own, root, "memory.max", _memory_of_host(proc))
        room = min(MEMORY_ROOM, total // _ROOM_PART)
        put(supervisor / "memory.min", str(room))
        put(runs / "memory.max", str(total - room))
    if "pids" in reached:
        total = _least(own, root, "pids.max", _tasks_of_host(proc))
        put(runs / "pids.max", str(total - min(TASKS_ROOM, total // _ROOM_PART)))
    if "cpu" in reached:
        put(supervisor / "cpu.weight", str(_CPU_WEIGHT))
    return reached


def _is_delegated(own: Path) -> bool:
    for mark in _MARKS:
        with contextlib.suppress(OSError):
            if os.getxattr(own, mark) == b"1":
                return True
    return False


def _offered(own: Path) -> list[str]:
    there = _text(own / "cgroup.controllers").split()
    return [name for name in CONTROLLERS if name in there]


def _hand_down(own: Path, name: str) -> bool:
    """One at a time: cpu refuses beside real-time tasks, and must not stop the others."""
    steps = (own / "cgroup.subtree_control", own / RUNS / "cgroup.subtree_control")
    return all(put(file, f"+{name}") for file in steps)


def _least(own: Path, root: Path, file: str, host: int) -> int:
    """The least that ``own``, a cgroup around it or the host allows."""
    around = [folder for folder in (own, *own.parents) if folder.is_relative_to(root)]
    return min([host, *_numbers(_text(folder / file) for folder in around)])


def _numbers(texts: Iterable[str]) -> list[int]:
    """Those that are numbers: `max`, and what cannot be read, is no limit."""
    return [int(text) for text in texts if text.strip().isdecimal()]


def _memory_of_host(proc: Path) -> int:
    for line in _text(proc / "meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 2**63 - 1


def _tasks_of_host(proc: Path) -> int:
    kernel = proc / "sys" / "kernel"
    known = _numbers(_text(kernel / name) for name in ("pid_max", "threads-max"))
    return min(known, default=32_768)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""
