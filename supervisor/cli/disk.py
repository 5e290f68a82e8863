"""What the file system under the state directory can promise. Pure but for `measure_sync_us`."""

from __future__ import annotations

import os
import re
import statistics
import time
from typing import NamedTuple

from supervisor.cli.render_handlers import Check
from supervisor.cli.text import size

SYNCS = 5
# A flash disk with a volatile cache takes 200 us and more to flush; less than this is memory.
TOO_FAST_US = 15

# What fdatasync means on each kind of file system.
LOCAL = frozenset({"ext4", "ext3", "ext2", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs"})
MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "rootfs"})
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "virtiofs", "afs"})


class Mount(NamedTuple):
    """One line of mountinfo: where, what kind, with which options."""

    point: str
    kind: str
    options: frozenset[str]


def mounts(mountinfo: str) -> list[Mount]:
    """The mounts of a /proc/self/mountinfo, in order."""
    found: list[Mount] = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if not dash or len(left) < 6 or len(right) < 3:
            continue
        options = frozenset(left[5].split(",")) | frozenset(right[2].split(","))
        found.append(Mount(_unescaped(left[4]), right[0], options))
    return found


def _unescaped(text: str) -> str:
    """The kernel writes space, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def mount_of(path: str, listed: list[Mount]) -> Mount | None:
    """The mount that holds an absolute path: the longest prefix, the newest of equals."""
    best: Mount | None = None
    for mount in listed:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def promise(path: str, mount: Mount) -> Check:
    """What an acknowledged record survives on this file system."""
    what = f"disk of {path}"
    if {"nobarrier", "barrier=0"} & mount.options:
        return Check(
            "wrong",
            what,
            f"{mount.kind} without write barriers: a power loss can lose acknowledged records",
            f"mount {mount.point} without nobarrier",
        )
    if "ro" in mount.options:
        return Check("wrong", what, f"{mount.kind}, mounted read-only", f"remount {mount.point}")
    if mount.kind in LOCAL:
        return Check("ok", what, f"{mount.kind}: what is acknowledged survives a power loss")
    if mount.kind in MEMORY:
        said = f"{mount.kind} is memory: nothing survives a restart of the host"
        return Check("warning", what, said, "set state_dir to a directory on a disk")
    if mount.kind == "overlay":
        said = "overlay: a container's layer, gone with the container"
        return Check("warning", what, said, "mount a volume there")
    if mount.kind in REMOTE or mount.kind.startswith("fuse"):
        said = f"{mount.kind}: what a sync means is the other side's choice, and locks may lie"
        return Check("warning", what, said, "set state_dir to a directory on a local disk")
    return Check("warning", what, f"{mount.kind}: not known what a sync means there")


def room(path: str, free: int, wanted: int) -> Check:
    """Whether what the configuration allows the daemon to use is there."""
    what = f"room in {path}"
    if free >= wanted:
        return Check("ok", what, f"{size(free)} free")
    said = f"{size(free)} free, and journal.state_bytes allows {size(wanted)}"
    return Check("warning", what, said, "free space, or lower journal.state_bytes")


def sync_check(path: str, median_us: int) -> Check:
    """How long a sync takes; one that takes no time writes nowhere."""
    what = f"sync in {path}"
    if median_us < TOO_FAST_US:
        said = f"{median_us} us: too fast to reach a disk"
        return Check("warning", what, said, "check what lies under this file system")
    return Check("ok", what, f"{median_us} us a sync, median of {SYNCS}")


def measure_sync_us(directory: str) -> int:
    """The median time of a 4 KiB write and fdatasync, in a file that never has a name."""
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        times: list[int] = []
        for _ in range(SYNCS):
            os.pwrite(fd, b"\0" * 4096, 0)
            begun = time.perf_counter_ns()
            os.fdatasync(fd)
            times.append((time.perf_counter_ns() - begun) // 1000)
        return int(statistics.median(times))
    finally:
        os.close(fd)
