"""The processes of one demo run: started here, counted here, and ended here by pid."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import prctl
import psutil

from demo.failure import DemoFailed

DEADLINE_S = 20


def adopt_orphans() -> None:
    """Whatever loses its parent below this process becomes its child: nothing gets out of sight."""
    prctl.set_child_subreaper(1)


class Processes:
    """Starts programs, each in a session of its own, so that Ctrl-C reaches the demo alone."""

    def __init__(self, *, outlive: bool) -> None:
        # Bound to the demo's life by the kernel, unless they are meant to stay (--keep).
        self._bind = None if outlive else functools.partial(prctl.set_pdeathsig, signal.SIGKILL)
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program; what it writes goes to `log`, its stdout too unless it is asked for."""
        with log.open("a") as file:
            process = subprocess.Popen(
                [*argv],
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=file if stdout is None else stdout,
                stderr=file,
                text=True,
                start_new_session=True,
                preexec_fn=self._bind,
            )
        self._started.append(process)
        return process

    def pids(self) -> str:
        """What still runs of it, as arguments for kill(1)."""
        return " ".join(str(one.pid) for one in self._started if one.poll() is None)

    def end_all(self) -> None:
        """End what was started and whatever descends from it: SIGTERM, two seconds, SIGKILL."""
        below = [child for process in self._started for child in descendants(process.pid)]
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + 2
        for process in self._started:
            with_time = max(0.0, deadline - time.monotonic())
            try:
                process.wait(with_time)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        end(below)
        for process in self._started:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def kill_now(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and to this process alone: what becomes of its children is the question."""
    process.kill()
    process.wait()


def read_line(stream: IO[str] | None, what: str, log: Path) -> str:
    """The next line of a process's output. It has ended when there is none."""
    line = stream.readline() if stream is not None else ""
    if not line:
        raise DemoFailed(f"{what} ended without a word", log)
    return line


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run. A zombie does not: it waits to be counted and can do nothing."""
    return [process for process in processes if _lives(process)]


def running_from(directory: Path) -> list[psutil.Process]:
    """Every process of this host that runs a script of the directory, whoever its parent is.

    The directory is new and its name random, so nothing but this run's tools can match.
    """
    inside = f"{directory}/"
    found = []
    for process in psutil.process_iter():
        try:
            script = "".join(process.cmdline()[1:2])
            if script.startswith(inside) and _lives(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def first_start_ns(processes: Iterable[psutil.Process]) -> int | None:
    """When the first of them was started, in nanoseconds since boot, to a clock tick (10 ms).

    psutil's create_time() adds a boot time of whole seconds, which is too coarse here.
    """
    ticks = []
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended since it was found
            after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks.append(int(after_name[19]))
    return min(ticks) * 1_000_000_000 // os.sysconf("SC_CLK_TCK") if ticks else None


def end(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL these, and return when none of them lives."""
    deadline = time.monotonic() + DEADLINE_S
    while left := living(processes):
        for process in left:
            try:
                process.kill()  # psutil compares the start time before it signals
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=1)
        if time.monotonic() > deadline:
            raise DemoFailed(f"these processes do not die: {[process.pid for process in left]}")


def end_descendants() -> None:
    """SIGKILL whatever descends from this process, orphans that it has adopted included."""
    while left := living(descendants(os.getpid())):
        end(left)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
