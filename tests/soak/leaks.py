"""What could be left behind: counted before and after, and told apart by kind.

Descriptors and mounts of the launcher and of what is below it can only be seen by root; for
anybody else they are not in the counts, and everything else is.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.sandbox.support import HANDLER_UID
from tests.soak.fence import Fence

Counts = dict[str, int]

# What the kernel takes down later (a network namespace, a dying cgroup) is waited for that long.
SETTLE_S = 20.0
# Networks that a template keeps for its next attempts.
NETWORKS_KEPT = 8
# Processes with a mount namespace of their own.
OWN_MOUNTS = ("effectd-root", "effectd-init")
# Keyrings of handlers that others run meanwhile. Each attempt has one at least, so that a soak
# that leaves them leaves more.
KEYS_SLACK = 48
# Cgroups that are removed and not yet freed: each of them waits for a grace period of RCU.
DYING_SLACK = 16
RSS_SHARE = 0.05
# Below this a share of it is a few pages.
RSS_LEAST_KIB = 512
# Objects of an owner at rest: caches are more or less full.
OBJECTS_SLACK = 3_000


def counted(owner: int, cgroup_root: Path | None) -> Counts:
    """Everything of the process ``owner`` and below it that must not grow."""
    counts: Counter[str] = Counter()
    counts["threads of the owner"] = len(os.listdir(f"/proc/{owner}/task"))
    _add_descriptors(counts, "owner", owner)
    for pid in below(owner):
        name = _name(pid)
        counts[f"processes: {name}"] += 1
        _add_descriptors(counts, name, pid)
        if name in OWN_MOUNTS:
            counts[f"mounts of {name}"] += len(_mount_points(pid))
    if cgroup_root is not None:
        counts["cgroups"] = sum(len(names) for _, names, _ in os.walk(cgroup_root))
    # How many a template keeps for its next attempts depends on how many ran at once.
    counts.pop("descriptors of effectd-root: net:[N]", None)
    return {key: count for key, count in sorted(counts.items()) if count}


def below(pid: int) -> list[int]:
    """Every live process below ``pid``."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = [int(word) for word in text.split()]
    return [*found, *(one for child in found for one in below(child))]


def settled(count: Callable[[], Counts]) -> Counts:
    """The counts as soon as they stand still."""
    deadline = time.monotonic() + SETTLE_S
    seen = count()
    while True:
        time.sleep(0.3)
        again = count()
        if again == seen:
            return seen
        assert time.monotonic() < deadline, f"still changing: {difference(seen, again)}"
        seen = again


def no_more_than(before: Counts, count: Callable[[], Counts]) -> None:
    """Wait until there is no more of anything; AssertionError with what there is more of."""
    deadline = time.monotonic() + SETTLE_S
    while more := _more(before, count()):
        assert time.monotonic() < deadline, f"left behind: {more}"
        time.sleep(0.1)


def _more(before: Counts, after: Counts) -> dict[str, tuple[int, int]]:
    return {key: pair for key, pair in difference(before, after).items() if pair[1] > pair[0]}


def difference(before: Counts, after: Counts) -> dict[str, tuple[int, int]]:
    keys = sorted(before.keys() | after.keys())
    pairs = {key: (before.get(key, 0), after.get(key, 0)) for key in keys}
    return {key: (old, new) for key, (old, new) in pairs.items() if old != new}


def no_more_namespaces(before: Counts, fence: Fence, kept: int = 0) -> None:
    """Wait until the kernel has freed what ended: there are no more of any kind, and of networks
    at most ``kept`` more."""
    allowed = {**before, "net": before["net"] + kept}
    no_more_than(allowed, fence.namespaces)


# --- what other processes of the host change too, so that it is bounded and not equal


def keys() -> int:
    """Keys and keyrings of the handlers' user: each user namespace can have some of its own."""
    for line in Path("/proc/key-users").read_text().splitlines():
        uid, rest = line.split(":")
        if int(uid) == HANDLER_UID:
            return int(rest.split()[1].split("/")[0])
    return 0


def no_more_keys(before: int) -> None:
    """Wait until the kernel has collected what the attempts had."""
    deadline = time.monotonic() + SETTLE_S
    while (now := keys()) > before + KEYS_SLACK:
        assert time.monotonic() < deadline, f"keys were left behind: {before} -> {now}"
        time.sleep(0.1)


def mount_points() -> list[str]:
    """Of this host, with the same point as often as something is mounted there."""
    return _mount_points(os.getpid())


def no_more_mounts(before: list[str]) -> None:
    """Wait until nothing is mounted on the host that was not; others may mount for a while."""
    deadline = time.monotonic() + SETTLE_S
    while more := Counter(mount_points()) - Counter(before):
        assert time.monotonic() < deadline, f"mounts were left behind: {more}"
        time.sleep(0.1)


def no_dying_cgroups(cgroup_root: Path) -> None:
    """Wait until the kernel has freed those that were removed."""
    deadline = time.monotonic() + SETTLE_S
    while (dying := _dying(cgroup_root)) > DYING_SLACK:
        assert time.monotonic() < deadline, f"{dying} removed cgroups are still held by something"
        time.sleep(0.1)


def _dying(cgroup_root: Path) -> int:
    text = (cgroup_root / "cgroup.stat").read_text()
    (number,) = re.findall(r"nr_dying_descendants (\d+)", text)
    return int(number)


def resident(owner: int) -> dict[str, int]:
    """Resident KiB by name: the owner, and the largest of each name below it."""
    found = {"owner": _resident(owner)}
    for pid in below(owner):
        name = _name(pid)
        found[name] = max(found.get(name, 0), _resident(pid))
    return found


def no_more_memory(before: dict[str, int], after: dict[str, int]) -> None:
    """At most a twentieth more, process by process."""
    for name, old in before.items():
        most = old + max(old * RSS_SHARE, RSS_LEAST_KIB)
        assert after.get(name, 0) <= most, f"{name} grew from {old} to {after[name]} KiB"


def no_more_objects(before: int, after: int, attempts: int) -> None:
    """Less than one that stays of every second attempt."""
    most = before + max(attempts // 2, OBJECTS_SLACK)
    assert after <= most, f"{after - before} more objects after {attempts} attempts"


# --- reading /proc


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def _add_descriptors(counts: Counter[str], whose: str, pid: int) -> None:
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return
    for fd in fds:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the one that this listing used
        kind = re.sub(r"\d+", "N", target)
        counts[f"descriptors of {whose}: {kind}"] += 1


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def _mount_points(pid: int) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except (PermissionError, FileNotFoundError, ProcessLookupError, OSError):
        return []
    return [line.split()[4] for line in lines]
