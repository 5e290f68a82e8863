"""Looking at processes, and waiting for what must come true."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def tagged(*words: str) -> list[int]:
    """Pids of live processes with all words in their command line; zombies are dead."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            line = Path(entry.path, "cmdline").read_bytes()
            if all(word.encode() in line for word in words) and alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    return _stat(pid)[0] not in "ZX"


def is_alive(pid: int, born: str) -> bool:
    """Whether that very process is alive: the pid may be another one's by now."""
    state, began = _stat(pid)
    return state not in "ZX" and began == born


def start_time(pid: int) -> str:
    """With the pid this names one process for ever; empty when there is none."""
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[str, str]:
    fields = _fields(pid)
    return (fields[0], fields[19]) if fields else ("X", "")


def _fields(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; nothing when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def parent(pid: int) -> int:
    """Its parent's pid. AssertionError when it is gone."""
    fields = _fields(pid)
    assert fields, f"{pid} is gone"
    return int(fields[1])


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Every process below this one now, with its start time."""
    for child in children(pid):
        yield child, start_time(child)
        yield from descendants(child)


def kill(pid: int) -> None:
    """SIGKILL, when it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_until(claim: Callable[[], object], within_s: float = 60.0, what: str = "") -> float:
    """Poll until the claim holds: the seconds it took. AssertionError when it never did."""
    start = time.monotonic()
    while not claim():
        assert time.monotonic() - start < within_s, f"not within {within_s} s: {what}"
        time.sleep(0.005)
    return time.monotonic() - start
