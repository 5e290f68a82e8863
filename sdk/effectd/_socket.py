"""Which socket is the daemon's, and what to check when it does not answer."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional

from effectd.errors import Unreachable

SYSTEM_SOCKET = "/run/effectd/effectd.sock"
# What connect() says while a daemon restarts: its socket is gone, or nobody listens yet.
_TEMPORARY = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ECONNRESET})


def candidates(argument: Optional[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where to look, in order. An explicit choice (argument, EFFECTD_SOCKET) is the only one."""
    explicit = argument or environ.get("EFFECTD_SOCKET")
    if explicit:
        return (explicit,)
    found = [SYSTEM_SOCKET]
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        found.append(f"{runtime}/effectd/effectd.sock")
    state = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME', '')}/.local/state"
    if state.startswith("/"):
        found.append(f"{state}/effectd/effectd.sock")
    return tuple(found)


def choose(paths: Sequence[str]) -> str:
    """The first path that exists. Raises Unreachable when none does.

    A client chooses once and stays: two daemons do not share their request ids, so a client
    that changed daemons in the middle of a request could have it carried out by both.
    """
    if len(paths) == 1:
        return paths[0]
    for candidate in paths:
        try:
            os.lstat(candidate)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return candidate  # it cannot be looked at: connect() will say why
        return candidate
    raise Unreachable(
        "no socket of effectd's exists",
        checklist=tuple(f"{path}: missing" for path in paths),
        temporary=True,
        fix=_START,
    )


_START = (
    "start the daemon (systemctl start effectd, or effectd --dev), "
    "or name its socket in EFFECTD_SOCKET"
)


def unreachable(path: str, error: OSError) -> Unreachable:
    """Say why this path gave no connection, and what to do about it."""
    line, fix = _explain(path, error)
    return Unreachable(
        f"cannot connect to {path}",
        checklist=(f"{path}: {line}",),
        temporary=error.errno in _TEMPORARY,
        fix=fix,
    )


def _explain(path: str, error: OSError) -> tuple[str, str]:
    number = error.errno
    if number in {errno.ENOENT, errno.ENOTDIR}:
        return "missing", _START
    if number == errno.ECONNREFUSED:
        if _is_socket(path):
            return "refused: the socket is there, and nobody listens on it", _START
        return "refused: this is not a socket", "name the daemon's socket in EFFECTD_SOCKET"
    if number in {errno.EACCES, errno.EPERM}:
        return f"permission denied{_owner(path)}", _join(path)
    if "too long" in str(error):
        return "too long: a socket's path has at most 107 bytes", "use a shorter path"
    if number == errno.EPROTOTYPE:
        return "not a stream socket", "name the daemon's socket in EFFECTD_SOCKET"
    return error.strerror or str(error) or type(error).__name__, _START


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False


def _group(path: str) -> Optional[str]:
    import grp  # noqa: PLC0415  # only an error path needs it

    try:
        return grp.getgrgid(Path(path).stat().st_gid).gr_name
    except (OSError, KeyError):
        return None


def _owner(path: str) -> str:
    group = _group(path)
    return f" (the socket belongs to group {group})" if group else ""


def _join(path: str) -> str:
    import pwd  # noqa: PLC0415  # only an error path needs it

    group = _group(path) or "effectd-clients"
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    if group == "root":
        return f"ask an administrator to make the socket's group effectd-clients, with {user} in it"
    return f"usermod -aG {group} {user}, then log in again and restart the agent's service"
