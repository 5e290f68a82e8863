"""One cgroup v2 directory per sandbox below a delegated root: ROOT/runs/slot-N."""

from __future__ import annotations

import errno
import itertools
import os
import re
import time
from pathlib import Path

import attrs

RUNS = "runs"
_SLOT = re.compile(r"/(?:[^/]+/)+runs/slot-\d+-\d+")
_numbers = itertools.count()


def unavailable(root: Path) -> str | None:
    """Why ``root`` cannot hold sandboxes, by trying it; None when it can."""
    runs = root / RUNS
    try:
        runs.mkdir(exist_ok=True)
        for name in ("cgroup.procs", "cgroup.kill", "cgroup.events"):
            if not (runs / name).exists():
                return f"{runs} has no {name}: not cgroup v2, or a kernel before 5.14"
        probe = runs / f"probe-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return None


@attrs.frozen
class Cgroup:
    """A sandbox's own cgroup. Everything here is a few bytes into kernfs and never waits."""

    path: Path

    @classmethod
    def make(cls, root: Path) -> Cgroup:
        """Make one with a name that this boot has not seen: records outlive cgroups."""
        runs = root / RUNS
        runs.mkdir(exist_ok=True)
        path = runs / f"slot-{time.monotonic_ns()}-{next(_numbers)}"
        path.mkdir()
        return cls(path)

    @classmethod
    def recorded(cls, path: str | None) -> Cgroup | None:
        """The cgroup that a record names; None unless it has the shape that `make` gives."""
        if path is None or not _SLOT.fullmatch(path):
            return None
        return cls(Path(path))

    def open(self) -> list[int]:
        """What the launcher needs: the directory to be born into, cgroup.kill, cgroup.procs."""
        fds = [os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        try:
            fds.append(os.open(self.path / "cgroup.kill", os.O_WRONLY | os.O_CLOEXEC))
            fds.append(os.open(self.path / "cgroup.procs", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            for fd in fds:
                os.close(fd)
            raise
        return fds

    def limit_tasks(self, most: int) -> bool:
        """Let at most ``most`` processes and init be inside; False without a pids controller."""
        try:
            (self.path / "pids.max").write_text(str(most + 1))
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL to all inside, atomically with respect to forks; one that is gone is dead."""
        try:
            (self.path / "cgroup.kill").write_text("1")
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise

    def populated(self) -> bool:
        """Whether any process, zombies aside, is in it or below."""
        try:
            events = (self.path / "cgroup.events").read_text()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return False
            raise
        return "populated 1" in events

    def pids(self) -> list[int]:
        try:
            return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return []
            raise

    def memory_peak(self) -> int | None:
        """Bytes; None without a memory controller."""
        try:
            return int((self.path / "memory.peak").read_text())
        except (OSError, ValueError):
            return None

    def remove(self) -> bool:
        """Remove it; False while something is still inside."""
        try:
            self.path.rmdir()
        except OSError as error:
            return error.errno == errno.ENOENT
        return True
