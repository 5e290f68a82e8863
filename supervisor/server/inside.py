"""Whether a process runs inside a sandbox: by its ancestors and by its cgroup.

In a pid namespace nobody gets out of his init's descent: an orphan is given to the init, never to
a process outside. So the chain of parents of whoever is inside leads to an init that is known, also
while a launcher that was killed takes its inits along. Without a pid namespace an orphan escapes
upwards, and its cgroup still tells.

All of it is read under a number. The caller asks afterwards whether the process that it knows by
its pidfd lives; if so, what was read was that process's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from frozen import frozen

# Longer than any chain that a healthy host has.
_PARENTS_MAX = 256
# A parent that dies while the chain is read leaves an orphan, whose new parent stays.
_READS_MAX = 16
_SLOT = re.compile(r"((?:/[^/]+)*/runs/slot-\d+-\d+)(?:/.*)?")


@frozen
class Init:
    """An init as it was recorded: its pid counts only together with its start time."""

    pid: int
    start_time: int
    cgroup: str | None = None


class UnsteadyError(Exception):
    """The parents changed each time they were read."""


def is_inside(pid: int, launcher: int, inits: Collection[Init]) -> bool:
    """Whether `pid` descends from the launcher or one of `inits`, or is in a cgroup of theirs.

    Raises `UnsteadyError` when nobody can say.
    """
    chain = _steady_chain(pid)
    if launcher in {number for number, _ in chain}:
        return True
    if any((init.pid, init.start_time) in chain for init in inits):
        return True
    slot = _slot_of(pid)
    return slot is not None and any(init.cgroup and init.cgroup.endswith(slot) for init in inits)


def _steady_chain(pid: int) -> list[tuple[int, int]]:
    """The process and its ancestors with their start times, read twice alike."""
    before = _chain(pid)
    for _ in range(_READS_MAX):
        again = _chain(pid)
        if again == before:
            return again
        before = again
    raise UnsteadyError(f"the parents of process {pid} change all the time")


def _chain(pid: int) -> list[tuple[int, int]]:
    """It ends at the host's init, or at a parent that is hidden from us: ours never are."""
    chain: list[tuple[int, int]] = []
    while pid > 0 and len(chain) < _PARENTS_MAX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # Gone (then the second reading differs) or hidden: either way its number is kept.
            return [*chain, (pid, -1)]
        # The name, in parentheses, may itself hold blanks and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split()
        chain.append((pid, int(fields[19])))
        pid = int(fields[1])
    return chain


def _slot_of(pid: int) -> str | None:
    """The end of the path of the sandbox's cgroup that the process is in, if it is in one."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("0::") and (found := _SLOT.fullmatch(line[3:])):
            return found[1]
    return None
