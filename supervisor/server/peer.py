"""Who is at the other end of a Unix socket, and whether that process still lives.

SO_PEERCRED names a process that called connect(2) once. It says nothing about
now: the process may be dead, its number may be another's, and a child or parent
may hold the connection. A pidfd (SO_PEERPIDFD, Linux 6.5) does not have that
flaw. Without it the start time stands in: the same number with another start
time is another process.
"""

from __future__ import annotations

import errno
import os
import pwd
import select
import socket
import struct
import time
from pathlib import Path

import attrs
import trio

from frozen import frozen

# Not in Python's socket module; from the kernel's asm-generic/socket.h.
_SO_PEERGROUPS = 59
_SO_PEERPIDFD = 77

_UCRED = struct.Struct("3i")
# 256 groups: Python reads socket options of at most 1,024 bytes.
_GIDS_BYTES = 1_024

# Of their own: look-ups that hang must not take the threads that write the journal.
_LOOKUPS = trio.CapacityLimiter(4)


@frozen
class Peer:
    """The process that connected, as it was then.

    `start_time` is field 22 of /proc/PID/stat, in clock ticks since boot.
    `process_gids` are the supplementary groups the process itself had, which a
    unit's SupplementaryGroups= grants and the group database does not know; they
    are empty where the kernel does not tell or there are more than 256.
    """

    pid: int
    uid: int
    gid: int
    process_gids: frozenset[int]
    start_time: int
    pidfd: int | None = attrs.field(default=None, eq=False)

    def is_alive(self) -> bool:
        """Whether the very process that connected runs still (a zombie does not).

        Raises `OSError` where there is no pidfd and no descriptor left for /proc.
        """
        if self.pidfd is not None:
            return not _exited(self.pidfd)
        return _start_time(self.pid) == self.start_time

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)


class UnidentifiedError(Exception):
    """The peer is dead or cannot be told from another process; says which."""


def identify(connection: trio.SocketStream) -> Peer:
    """Identify the living peer of a connection accepted just now; the caller closes it.

    Raises `UnidentifiedError`, or `OSError` (EMFILE, ENFILE) where the host has no
    descriptor left for a pidfd.
    """
    accepted_at = _ticks_since_boot()
    pid, uid, gid = _UCRED.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    )
    if pid <= 0:
        # The kernel has no number for a process outside our pid namespace's reach.
        raise UnidentifiedError("the connecting process is not visible in the daemon's /proc")
    gids = _process_gids(connection)
    pidfd = _peer_pidfd(connection)
    try:
        start_time = _start_of(pid, pidfd, accepted_at)
    except BaseException:
        if pidfd is not None:
            os.close(pidfd)
        raise
    return Peer(pid, uid, gid, gids, start_time, pidfd)


async def groups_of(uid: int, gid: int) -> frozenset[int]:
    """Look up the groups of a user in the host's database, `gid` included.

    A uid without an entry has `gid` alone. Runs in a thread: the database may
    be a directory service that does not answer.
    """
    return await trio.to_thread.run_sync(
        _groups_of, uid, gid, abandon_on_cancel=True, limiter=_LOOKUPS
    )


def _groups_of(uid: int, gid: int) -> frozenset[int]:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return frozenset({gid})
    return frozenset(os.getgrouplist(name, gid))


def _peer_pidfd(connection: trio.SocketStream) -> int | None:
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:  # before Linux 6.5
            return None
        if error.errno in {errno.ESRCH, errno.EINVAL, errno.ENODATA}:
            # Dead and reaped; kernels differ in how they say it.
            raise UnidentifiedError("the process that connected has ended") from None
        raise


def _start_of(pid: int, pidfd: int | None, accepted_at: int) -> int:
    start_time = _start_time(pid)
    # Asked after reading: it lives now, so what was read under its number was its own.
    if pidfd is not None and _exited(pidfd):
        raise UnidentifiedError(f"process {pid}, which connected, has ended")
    if start_time is None:
        raise UnidentifiedError(
            f"process {pid} has ended, or /proc/{pid}/stat may not be read (hidepid)"
        )
    if pidfd is None and start_time > accepted_at:
        raise UnidentifiedError(f"process {pid} began after the connection was made")
    return start_time


def _exited(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _start_time(pid: int) -> int | None:
    """Read when a process began; None when it is gone, a zombie or hidden."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name, in parentheses, may itself hold blanks and parentheses.
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    return None if state in {b"Z", b"X"} else int(fields[18])


def _process_gids(connection: trio.SocketStream) -> frozenset[int]:
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GIDS_BYTES)
    except OSError as error:
        if error.errno in {errno.ENOPROTOOPT, errno.ERANGE}:  # before Linux 4.13; too many
            return frozenset()
        raise
    return frozenset(gid for (gid,) in struct.iter_unpack("I", packed))


def _ticks_since_boot() -> int:
    # /proc/PID/stat counts CLOCK_BOOTTIME, which goes on while the host sleeps.
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 1_000_000_000
