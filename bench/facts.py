"""What must be known of a machine to read its figures; nothing that would tell whose it is."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

BUSY_LOAD = 2.0
"""What is measured runs one thing at a time and keeps below this; above it something else ran."""


def machine() -> dict[str, str]:
    """Facts by name, in the order in which they are shown."""
    return {
        "kernel": platform.release().partition("-")[0],
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": f"{len(os.sched_getaffinity(0))} usable",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "Python": platform.python_version(),
    }


def file_system(path: Path) -> str:
    """The type of the one that holds ``path``."""
    mounts = [
        one
        for one in psutil.disk_partitions(all=True)
        if path.resolve().is_relative_to(one.mountpoint)
    ]
    return max(mounts, key=lambda one: len(one.mountpoint)).fstype


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return " ".join(value.split())
    return "not named"
