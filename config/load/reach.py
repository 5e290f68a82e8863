"""Whether the user that handlers run as gets to a file: mode bits, as the kernel reads them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from config.problems import WrongValueError
from config.schema import Config
from frozen import frozen

SEARCH: Final = 0o1
READ: Final = 0o4
# With an access control list the mode bits are not the whole truth, and effectd does not judge.
_LIST: Final = "system.posix_acl_access"


@frozen
class User:
    """Whom handlers run as: `gids` are the groups that they keep."""

    uid: int
    gids: frozenset[int]


def handler_user(config: Config) -> User | None:
    """None when the host knows no user of the configured name, and so nothing can run."""
    origin = config.origin
    if origin.handler_uid is not None and origin.handler_gid is not None:
        # The launcher gives up all groups before it becomes that user.
        return User(origin.handler_uid, frozenset({origin.handler_gid}))
    if config.sandbox.handler_user or origin.daemon_uid == 0:
        return None
    return User(origin.daemon_uid, frozenset({os.getegid(), *os.getgroups()}))


def require_reachable(path: Path, user: User) -> None:
    """Refuse a path, free of links, on whose way a directory is closed to `user`."""
    for folder in reversed(path.parents):
        if not allowed(folder, user, SEARCH):
            raise WrongValueError(
                f"handlers run as uid {user.uid}, which may not enter {folder}, on the way to"
                f" {path}",
                f"move it below /opt or /srv, or open that directory: chmod o+x {folder}",
            )


def require_usable(file: Path, user: User, wanted: int) -> None:
    """Refuse a file or directory that `user` gets to and cannot use."""
    require_reachable(file, user)
    if not allowed(file, user, wanted):
        letters = ("r" if wanted & READ else "") + ("x" if wanted & SEARCH else "")
        raise WrongValueError(
            f"handlers run as uid {user.uid}, which lacks {_word(letters)} permission on {file}",
            f"chmod o+{letters} {file}",
        )


def _word(letters: str) -> str:
    return {"r": "read", "x": "execute", "rx": "read and execute"}[letters]


def allowed(path: Path, user: User, wanted: int) -> bool:
    """Whether the mode bits give `user` all of `wanted`; True for what cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return True
    if _listed(path):
        return True
    return _bits(status, user.uid, user.gids) & wanted == wanted


def _bits(status: os.stat_result, uid: int, gids: Collection[int]) -> int:
    """Only one of the three classes counts, the first that fits."""
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == uid:
        return mode >> 6 & 0o7
    if status.st_gid in gids:
        return mode >> 3 & 0o7
    return mode & 0o7


def _listed(path: Path) -> bool:
    try:
        return _LIST in os.listxattr(path)
    except OSError:
        return False
