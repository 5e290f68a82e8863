"""Listening Unix sockets: made here, or handed over by systemd."""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import socket
import stat
from collections.abc import MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Self

_BACKLOG = 1_024
_FIRST_FD = 3  # SD_LISTEN_FDS_START
_PATH_BYTES_MAX = 107  # sun_path, without its final NUL
_ACTIVATION = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID")


class ListenError(Exception):
    """No socket to listen on: says which, why, and what to do."""


class Listener:
    """A listening socket. `name` is systemd's name for it, or its path.

    Closing one that was made here removes its file, unless another has taken
    its place; systemd's files are systemd's.
    """

    def __init__(
        self, sock: socket.socket, name: str, *, path: Path | None = None, lock: int | None = None
    ) -> None:
        self.socket = sock
        self.name = name
        self._path = path
        self._lock = lock
        self._made = _identity(path) if path else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening; the second time does nothing."""
        if self._path is not None and _identity(self._path) == self._made:
            self._path.unlink(missing_ok=True)
        self._path = None
        self.socket.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def bind(path: Path, *, group: str | None = None) -> Listener:
    """Listen on `path`, mode 0660, of `group` where that group exists.

    A stale socket file is replaced; anything else, and a socket on which
    somebody answers, is left alone. Two daemons cannot both get it: the winner
    holds a lock on `PATH.lock` for as long as it lives. Raises `ListenError`.
    """
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise ListenError(
            f"{path}: a Unix socket's path may have {_PATH_BYTES_MAX} bytes. Choose a shorter one."
        )
    _check_directory(path.parent)
    lock = _locked(path)
    try:
        _clear(path)
        return Listener(_listening(path, group), str(path), path=path, lock=lock)
    except OSError as error:
        os.close(lock)
        raise ListenError(f"{path}: cannot listen there: {error.strerror}.") from error
    except BaseException:
        os.close(lock)
        raise


def inherited(environ: MutableMapping[str, str] | None = None) -> tuple[Listener, ...]:
    """Take the sockets that systemd passed to this process; empty when there are none.

    Removes the variables from the environment, so that no child believes that
    they are its own. Raises `ListenError` for anything but listening Unix stream
    sockets.
    """
    environ = os.environ if environ is None else environ
    passed = {name: environ.pop(name, "") for name in _ACTIVATION}
    if passed["LISTEN_PID"] != str(os.getpid()) or not passed["LISTEN_FDS"]:
        return ()
    try:
        count = int(passed["LISTEN_FDS"])
    except ValueError:
        raise ListenError(f"LISTEN_FDS={passed['LISTEN_FDS']!r} is not a number.") from None
    names = passed["LISTEN_FDNAMES"].split(":") if passed["LISTEN_FDNAMES"] else ["unknown"] * count
    if len(names) != count:
        raise ListenError(
            f"LISTEN_FDS={count}, but LISTEN_FDNAMES has {len(names)} names. "
            "Both come from systemd: pass them on unchanged."
        )
    return tuple(_inherited(fd, name) for fd, name in enumerate(names, _FIRST_FD))


def _inherited(fd: int, name: str) -> Listener:
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise ListenError(_unsuitable(fd, name, error.strerror or str(error))) from error
    sock.set_inheritable(False)  # systemd passes them open across exec
    listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if (sock.family, sock.type, listening) != (socket.AF_UNIX, socket.SOCK_STREAM, 1):
        found = f"it is {sock.family.name} {sock.type.name}, listening: {bool(listening)}"
        sock.detach()
        raise ListenError(_unsuitable(fd, name, found))
    return Listener(sock, name)


def _unsuitable(fd: int, name: str, found: str) -> str:
    return (
        f"File descriptor {fd} ({name}) from systemd is not a listening Unix stream socket: "
        f"{found}. In the .socket unit use ListenStream=/PATH and Accept=no."
    )


def _check_directory(directory: Path) -> None:
    try:
        mode = directory.stat().st_mode
    except OSError as error:
        raise ListenError(
            f"{directory}: {error.strerror}. The socket's directory must exist "
            "(systemd-tmpfiles --create makes /run/effectd)."
        ) from error
    if not stat.S_ISDIR(mode):
        raise ListenError(f"{directory}: not a directory.")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ListenError(
            f"{directory}: everybody may replace files there, the socket too. "
            f"Run chmod o-w {directory}, or choose another directory."
        )


def _locked(path: Path) -> int:
    name = path.with_name(f"{path.name}.lock")
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ListenError(f"{name}: {error.strerror}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise ListenError(_taken(path)) from None
    return lock


def _clear(path: Path) -> None:
    """Remove a socket file on which nobody listens."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path}: exists and is not a socket; it is left alone. Move it away.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        refused = probe.connect_ex(str(path))
    # EAGAIN is a full backlog, EPROTOTYPE another type of socket: both are somebody's.
    if refused not in {errno.ECONNREFUSED, errno.ENOENT}:
        raise ListenError(_taken(path))
    path.unlink(missing_ok=True)


def _taken(path: Path) -> str:
    return (
        f"{path}: another process listens there. Stop it (systemctl stop effectd.socket "
        "effectd.service), or choose another socket."
    )


def _listening(path: Path, group: str | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # On Linux the file gets the mode of the socket's own inode: closed from
        # its first moment, until its group is set.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(str(path))
        gid = _gid(group)
        if gid is not None:
            _give(path, group, gid)
        path.chmod(0o660)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _gid(group: str | None) -> int | None:
    try:
        return None if group is None else grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def _give(path: Path, group: str | None, gid: int) -> None:
    try:
        os.chown(path, -1, gid)
    except PermissionError:
        path.unlink(missing_ok=True)
        raise ListenError(
            f"{path}: cannot be given to the group {group}. Start as a member of it, as root, "
            "or let systemd make the socket (effectd.socket)."
        ) from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
