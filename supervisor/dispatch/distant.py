"""Files that may stop answering: on a network's file system, or one that a process serves.

A look-up there cannot be interrupted, and the loop must not wait for one: it is made by a thread
that is left behind. Where a look is known to return it is made at once, for a tenth of the time.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from config.load import Handler
from sandbox import scarce
from sandbox.remedies import SLOW_REMEDY
from sandbox.spec import SandboxUnavailable
from supervisor.dispatch.patience import PATIENCE_S

# File systems of a local disk, of memory, or of the kernel: no other process, no other host.
LOCAL = frozenset(
    {
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "jfs"),
        *("vfat", "exfat", "iso9660", "squashfs", "erofs", "overlay"),
        *("tmpfs", "ramfs", "rootfs", "devtmpfs", "proc", "sysfs", "cgroup", "cgroup2"),
    }
)
_MOUNTS = Path("/proc/self/mountinfo")
# A handler's looks that hang hold up nobody but its own next ones.
_AT_ONCE = 2

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def distant(paths: Iterable[str]) -> bool:
    """Whether one of these lies on a file system that is not known to answer always. Blocks as
    long as that one does."""
    mounts = _mounts()
    return any(_kind(mounts, os.path.realpath(path)) not in LOCAL for path in paths)


def _mounts() -> dict[str, str]:
    """Mount points and what is mounted there; of several at one place the last one is seen."""
    found: dict[str, str] = {}
    for line in _MOUNTS.read_text(errors="surrogateescape").splitlines():
        here, _, there = line.partition(" - ")
        found[_unescaped(here.split(" ")[4])] = there.split(" ")[0]
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _kind(mounts: dict[str, str], path: str) -> str:
    """The file system that the path lies on, mount points below it left aside."""
    while path not in mounts and path != "/":
        path = os.path.dirname(path)  # noqa: PTH120 - a Path for each would take ten times as long
    return mounts.get(path, "rootfs")


async def look(handler: Handler, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """What ``function`` sees of the handler's files; where these may hang, within two seconds.

    SandboxUnavailable when they do; OSError when there is no thread to look with.
    """
    if not handler.distant:
        return function(*arguments)
    try:
        with trio.fail_after(PATIENCE_S):
            return await scarce.in_thread(function, *arguments, limiter=_limiter(handler.name))
    except trio.TooSlowError as error:
        cause = f"the files of handler {handler.name} do not answer"
        raise SandboxUnavailable("manifest", cause, SLOW_REMEDY) from error


@functools.lru_cache(maxsize=4_096)
def _limiter(_name: str) -> trio.CapacityLimiter:
    return trio.CapacityLimiter(_AT_ONCE)
