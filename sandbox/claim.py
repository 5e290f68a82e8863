"""Whose the cgroups below a delegated root are: a lock that dies with its holder.

Attempts are recorded in the journal, templates and what stands ready are not. What a dead daemon
left of these is known by this alone: every daemon on a root holds a shared lock on it, so whoever
gets the exclusive one is alone there, and all that exists at that moment is nobody's any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path

import trio

from frozen import frozen
from sandbox.cgroups import RUNS, Cgroup

_OURS = re.compile(r"(?:slot-\d+-\d+|probe-\d+)")
_POLL_S = 0.005


@frozen
class Claim:
    """A daemon's place on a root, until it is closed or dies."""

    _lock: int
    left: tuple[Cgroup, ...]
    """What dead daemons left; empty beside a living one, whose it might be."""

    @classmethod
    def of(cls, root: Path) -> Claim:
        """Take a place on ``root``, which holds sandboxes. Raises OSError."""
        left: tuple[Cgroup, ...] = ()
        lock = os.open(root / RUNS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left = tuple(Cgroup(one) for one in _slots(root / RUNS))
            # In between another may be alone as well, and sweep the same; nothing is ours yet.
            fcntl.flock(lock, fcntl.LOCK_SH)
        except BaseException:
            os.close(lock)
            raise
        return cls(lock, left)

    async def sweep(self, within_s: float) -> tuple[Cgroup, ...]:
        """End what is inside of what was left, and remove it; what is still there after that."""
        with trio.move_on_after(within_s):
            for one in self.left:
                while not one.remove():
                    one.kill()
                    await trio.sleep(_POLL_S)
        return tuple(one for one in self.left if one.path.exists())

    def close(self) -> None:
        os.close(self._lock)


def _slots(runs: Path) -> list[Path]:
    """Names of the shape that is given here: an admin's own are left alone."""
    return [one for one in runs.iterdir() if one.is_dir() and _OURS.fullmatch(one.name)]
