"""Processor time and memory of process trees, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> Iterator[int]:
    """Every live process below ``pid``, parents first."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return
    for word in text.split():
        yield int(word)
        yield from descendants(int(word))


def name_of(pid: int) -> str:
    """What ps calls it; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def tree_cpu_ms(pid: int) -> float:
    """Processor time of ``pid``, of all below it, and of every child that was waited for."""
    return sum(_cpu_ms(one) for one in (pid, *descendants(pid)))


def _cpu_ms(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # Behind the name, which may hold anything: utime, stime and both again of dead children.
    fields = text.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) * _TICK_MS


def machine_cpu_ms() -> float:
    """Processor time that the whole machine has spent since boot, idle and stolen time left out.

    It alone shows what the kernel does later and elsewhere for a process that has ended, such as
    taking down its network namespace. It means something while nothing else runs.
    """
    line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    user, nice, system, _idle, _wait, irq, soft, *_ = map(int, line.split()[1:])
    return (user + nice + system + irq + soft) * _TICK_MS


@attrs.frozen
class Memory:
    """Of one process, in KiB."""

    pss: int
    """Its own pages and its share of those it shares."""
    private_dirty: int
    """What would come back if it ended."""


def memory(pid: int) -> Memory | None:
    """None for a process that is gone, or that only root may look into."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    sizes = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if " kB" in line}
    return Memory(int(sizes["Pss"]), int(sizes["Private_Dirty"]))
