"""Handlers that do not want to die. What each of them does is in the C files."""

from __future__ import annotations

import subprocess
from pathlib import Path

_FOLDER = Path(__file__).parent

FORKS = (
    *("tree", "setsid", "daemon", "subreaper", "comet", "comet_setsid", "comet12", "crash_comet"),
    *("storm", "vfork_parent", "zombies", "exec_loop", "exec_comet", "threads", "ghost"),
    *("ghost_leader", "thread_exec"),
)
SIGNALS = (
    *("deaf", "stopped", "stop_all", "stopped_group", "signal_init", "timers", "spin"),
    *("sigchld_ignored", "disarmed", "killall"),
)
HOLDS = (
    *("close_fds", "holder", "parked_fds", "flood", "hog", "blocked", "robust_futex", "set_id"),
)
KERNEL = (
    *("ptrace_stopped", "ptrace_exit", "ptrace_init", "nested_namespaces", "other_cgroup"),
    *("proc_files",),
)
MODES = (*FORKS, *SIGNALS, *HOLDS, *KERNEL)
BUSY = frozenset(
    (
        *("comet", "comet_setsid", "comet12", "crash_comet", "storm", "exec_loop", "exec_comet"),
        *("threads", "thread_exec", "hog", "spin", "timers"),
    )
)
"""They leave little of the processors to whoever starts beside them."""


def part(number: int) -> tuple[str, ...]:
    """A quarter of them: each is in every fourth part."""
    return MODES[number % 4 :: 4]


def build(program: Path) -> None:
    """Compile them into one program."""
    sources = sorted(_FOLDER.glob("*.c"))
    options = ("-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
    subprocess.run(["cc", *options, "-o", program, *sources], check=True)
