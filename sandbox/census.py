"""Who is alive: identities that outlast a pid, and the end of those found after a restart.

A pid alone names nobody. Together with the start time and the boot id it names one process for
ever, and a signal goes through a pidfd whose start time was compared *after* it was opened, so a
forged or recycled record never reaches a stranger.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path

import trio

from sandbox import scarce
from sandbox.cgroups import Cgroup
from sandbox.spec import Identity, Proof

_POLL_S = 0.005


@functools.cache
def boot_id() -> str:
    """This boot's, 36 characters."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which ``pid`` was started; None when there is no such process."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def identify(pid: int, cgroup: str | None) -> Identity:
    """The identity of ``pid``, whose pidfd the caller holds. A start time of 0 means that it is
    dead already, which that pidfd tells as well."""
    return Identity(pid, start_time(pid) or 0, boot_id(), cgroup)


def alive(identity: Identity) -> bool:
    """Whether any process of that sandbox may be alive.

    A zombie init counts as dead: it becomes one only when its pid namespace is empty. A recorded
    cgroup is looked at as well, since it also holds what has no pid namespace. What cannot be
    looked at for want of a descriptor counts as alive.
    """
    if identity.boot_id != boot_id():
        return False
    cgroup = Cgroup.recorded(identity.cgroup)
    if cgroup is not None and cgroup.populated():
        return True
    try:
        fields = stat_fields(identity.init_pid)
    except OSError as error:
        if error.errno not in scarce.ERRORS:
            raise
        return True
    return bool(fields) and int(fields[19]) == identity.start_time and fields[0] not in "ZX"


async def end_survivor(identity: Identity, deadline_s: float = 5) -> Proof | None:
    """Kill what is left of that sandbox: how it is known to be dead, or None if it still lives."""
    with trio.CancelScope(shield=True):
        _kill(identity)
        with trio.move_on_after(deadline_s):
            while alive(identity):
                await trio.sleep(_POLL_S)
                _kill(identity)
            if (cgroup := Cgroup.recorded(identity.cgroup)) is None:
                return "pidfd"
            cgroup.remove()  # whoever made it is gone as well
            return "cgroup"
    return None


def state(pid: int) -> str:
    """The letter that ps shows: R runs or waits for a processor, S sleeps, D sleeps so that nothing
    wakes it, T is stopped, t held by a tracer, Z dead and not reaped; ? when there is no descriptor
    to look with; empty: gone."""
    try:
        fields = stat_fields(pid)
    except OSError as error:
        if error.errno not in scarce.ERRORS:
            raise
        return "?"
    return fields[0] if fields else ""


def describe(pid: int) -> str:
    """Its state and where in the kernel it waits, for a person."""
    letter = state(pid)
    if not letter:
        return f"pid {pid} is gone"
    told = f"pid {pid} is in state {letter}"
    if tracer := _tracer(pid):
        return f"{told}, held by its tracer {tracer}"
    try:
        where = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").strip()
    except OSError:
        where = ""
    return told + (f" in {where}" if where.strip("0") else "")


def _kill(identity: Identity) -> None:
    if identity.boot_id != boot_id():
        return
    cgroup = Cgroup.recorded(identity.cgroup)
    if cgroup is not None:
        cgroup.kill()
    try:
        pidfd = os.pidfd_open(identity.init_pid)
    except OSError:
        return  # no such process
    try:
        # Only now: from here the pidfd names whoever has this start time, and no one later.
        with contextlib.suppress(OSError):  # gone, or cannot be looked at now: asked again
            if start_time(identity.init_pid) == identity.start_time and _is_init(identity.init_pid):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


def _is_init(pid: int) -> bool:
    """Whether ``pid`` is PID 1 of a pid namespace below ours, as every init of ours is.

    A record that names anything else was forged or damaged. Without a pid namespace the cgroup
    has been killed already, and the pid needs no signal of its own.
    """
    numbers = _status(pid, "NSpid:")
    return len(numbers) > 1 and numbers[-1] == "1"


def _tracer(pid: int) -> int:
    """Who traces it: a zombie that is traced is not its parent's to reap."""
    return int((_status(pid, "TracerPid:") or ["0"])[0])


def _status(pid: int, name: str) -> list[str]:
    """The words of one line of /proc/PID/status; none when the process is gone, or cannot be
    looked at."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    for line in text.splitlines():
        if line.startswith(name):
            return line.split()[1:]
    return []


def stat_fields(pid: int) -> list[str]:
    """Fields 3 and later of /proc/PID/stat; nothing when the process is gone.

    The name in field 2 may hold spaces and brackets: the last bracket ends it.
    """
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return []
    try:
        text = os.read(fd, 4096)
    except ProcessLookupError:
        return []
    finally:
        os.close(fd)
    return text.rpartition(b")")[2].decode("ascii").split()
