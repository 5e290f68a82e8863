"""One cgroup v2 directory per sandbox below a delegated root: ROOT/runs/slot-N.

Everything here is a few bytes into or out of kernfs and never waits. A controller that was not
delegated shows as files that are not there: whatever would use them says so and goes on.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
from pathlib import Path

import attrs

from frozen import frozen
from sandbox import scarce
from sandbox.spec import SandboxUnavailable

RUNS = "runs"
_CONTROLLERS = (("memory", "memory"), ("tasks", "pids"))
_SLOT = re.compile(r"/(?:[^/]+/)+runs/slot-\d+-\d+")
_numbers = itertools.count()
# What a cgroup that is gone, or is just going, answers.
_GONE = (errno.ENOENT, errno.ENODEV)
_REMEDY = (
    "Run under systemd with Delegate=yes; where handlers have a group of their own, the daemon"
    " must be a member of it: SupplementaryGroups=effectd-run."
)


def unavailable(root: Path, gid: int | None = None) -> str | None:
    """Why ``root`` cannot hold sandboxes, by trying it; None when it can.

    ``gid``: the group whose processes are to be born into them by their own kind.
    """
    runs = root / RUNS
    try:
        runs.mkdir(exist_ok=True)
        for name in ("cgroup.procs", "cgroup.kill", "cgroup.events"):
            if not (runs / name).exists():
                return f"{runs} has no {name}: not cgroup v2, or a kernel before 5.14"
        _open_to(runs, gid)
        probe = runs / f"probe-{os.getpid()}"
        probe.mkdir()
        try:
            _open_to(probe, gid)
        finally:
            probe.rmdir()
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return None


def bounded(root: Path | None) -> tuple[str, ...]:
    """Which of "memory" and "tasks" the kernel can bound in each sandbox below ``root``."""
    handed = _words(root / RUNS / "cgroup.subtree_control") if root is not None else []
    return tuple(name for name, controller in _CONTROLLERS if controller in handed)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


@frozen
class Used:
    """What a sandbox's cgroup counted. None: nobody counts it here."""

    cpu_us: int | None = None
    """Microseconds of processor time, init's included."""
    memory_peak: int | None = None
    """Bytes, with init's own million."""
    tasks_peak: int | None = None
    """The most tasks at one time, threads among them, init not. Since Linux 6.1."""
    out_of_memory: bool = False
    """The kernel killed in it for want of memory: by its own limit, or one around it."""
    over_memory_max: bool = False
    """It was its own limit."""
    tasks_refused: int = 0
    """How often a fork failed because of its limit of tasks."""


@frozen
class Cgroup:
    """A sandbox's own cgroup.

    ``limits`` names what the kernel bounds in it: of "memory" and "tasks" those that were asked for
    and whose controller is there.
    """

    path: Path
    limits: tuple[str, ...] = ()

    @classmethod
    def make(
        cls,
        root: Path,
        gid: int | None = None,
        *,
        memory_max: int | None = None,
        tasks_max: int | None = None,
    ) -> Cgroup:
        """Make one with a name that this boot has not seen: records outlive cgroups.

        ``gid``: the group of whoever forks the sandbox's init into it, when that is not the daemon.
        SandboxUnavailable when the kernel makes none; a limit without its controller is left out,
        one that no descriptor is left to set refuses.
        """
        runs = root / RUNS
        path = runs / f"slot-{time.monotonic_ns()}-{next(_numbers)}"
        try:
            try:
                path.mkdir()
            except FileNotFoundError:  # nobody has used this root yet
                runs.mkdir(exist_ok=True)
                path.mkdir()
            try:
                _open_to(path, gid)
            except OSError:
                path.rmdir()
                raise
        except OSError as error:
            cause = f"{error.strerror}: {error.filename or path}"
            raise SandboxUnavailable("cgroup", cause, _REMEDY) from error
        try:
            return cls(path).limited(memory_max=memory_max, tasks_max=tasks_max)
        except OSError as error:
            path.rmdir()
            raise scarce.refused(error.errno or 0) from error

    @classmethod
    def recorded(cls, path: str | None) -> Cgroup | None:
        """The cgroup that a record names; None unless it has the shape that `make` gives."""
        if path is None or not _SLOT.fullmatch(path):
            return None
        return cls(Path(path))

    # --- limits

    def limited(self, *, memory_max: int | None, tasks_max: int | None) -> Cgroup:
        """Set both limits, in bytes and in tasks beside init; the value says which of them hold.

        OSError when there is no descriptor to try it with.
        """
        held: list[str] = []
        if memory_max is not None and self._limit_memory(memory_max):
            held.append("memory")
        if tasks_max is not None and self.limit_tasks(tasks_max):
            held.append("tasks")
        return attrs.evolve(self, limits=tuple(held))

    def _limit_memory(self, most: int) -> bool:
        """At most ``most`` bytes, and none of them swapped out; beyond that the whole tree ends."""
        # A tree of which one process was killed would go on as if nothing were, and might even
        # report success: all of it ends, init included, and the events tell why.
        self._put("memory.oom.group", "1")
        # Swap beyond the limit would let it grow after all. No file: no swap, or not counted.
        self._put("memory.swap.max", "0")
        return self._put("memory.max", str(most))

    def limit_tasks(self, most: int) -> bool:
        """Let at most ``most`` tasks and init be inside; False without a pids controller."""
        return self._put("pids.max", str(most + 1))

    # --- the end

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

    def kill(self) -> None:
        """SIGKILL to all inside, atomically with respect to forks; one that is gone is dead.

        Without a descriptor it does nothing: repeat it while something is inside.
        """
        try:
            (self.path / "cgroup.kill").write_text("1")
        except OSError as error:
            if error.errno not in _GONE and error.errno not in scarce.ERRORS:
                raise

    def populated(self) -> bool:
        """Whether any process, zombies aside, is in it or below; what cannot be looked at is."""
        try:
            events = (self.path / "cgroup.events").read_text()
        except OSError as error:
            if error.errno in scarce.ERRORS:
                return True
            if error.errno in _GONE:
                return False
            raise
        return "populated 1" in events

    def pids(self) -> list[int]:
        """As this process numbers them; none when there is no descriptor to look with."""
        try:
            return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]
        except OSError as error:
            if error.errno in _GONE or error.errno in scarce.ERRORS:
                return []
            raise

    def remove(self) -> bool:
        """Remove it; False while something is still inside."""
        try:
            self.path.rmdir()
        except OSError as error:
            return error.errno == errno.ENOENT
        return True

    # --- what was used

    def cpu_us(self) -> int | None:
        """Microseconds of processor time of all that ever ran in it, the dead included."""
        return self._counters("cpu.stat").get("usage_usec")

    def memory_peak(self) -> int | None:
        """Bytes, with init's own million; None without a memory controller."""
        return _number(self._get("memory.peak"))

    def used(self) -> Used:
        """What has been used in it until now. To be asked before `remove`."""
        peak = _number(self._get("pids.peak"))
        memory = self._counters("memory.events")
        return Used(
            cpu_us=self.cpu_us(),
            memory_peak=self.memory_peak(),
            tasks_peak=None if peak is None else max(peak - 1, 0),
            out_of_memory=bool(memory.get("oom_kill")),
            over_memory_max=bool(memory.get("oom")),
            tasks_refused=self._counters("pids.events").get("max", 0),
        )

    def _counters(self, file: str) -> dict[str, int]:
        """The numbers of a file of lines ``name number``; none of one that is not there."""
        pairs = (line.partition(" ")[::2] for line in self._get(file).splitlines())
        return {name: number for name, text in pairs if (number := _number(text)) is not None}

    def _get(self, name: str) -> str:
        """A file's text; empty for one that is not there."""
        with contextlib.suppress(OSError):
            return (self.path / name).read_text(encoding="ascii")
        return ""

    def _put(self, name: str, value: str) -> bool:
        return put(f"{self.path}/{name}", value)


def put(file: Path | str, value: str) -> bool:
    """Write to a kernel file that may not be there, or refuse; whether it took the value.

    OSError when there is no descriptor to ask with.
    """
    try:
        fd = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)  # never O_CREAT
    except OSError as error:
        if error.errno in scarce.FILES:
            raise
        return False
    try:
        os.write(fd, value.encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _open_to(cgroup: Path, gid: int | None) -> None:
    """Let processes of that group be born into it: clone3 asks for write to cgroup.procs, there
    and in the nearest cgroup that holds both the parent and it."""
    if gid is None or gid == os.getegid():
        return
    procs = f"{cgroup}/cgroup.procs"
    os.chown(procs, -1, gid)
    os.chmod(procs, 0o664)  # noqa: PTH101 - on the hot path
