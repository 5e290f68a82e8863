"""The host as the handler's user has it: looked at from the command line, never by the daemon."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Literal, Self

_RIGHTS = {"read": os.R_OK, "write": os.W_OK}
_TABLES = ("tcp", "tcp6", "udp", "udp6")
_LISTEN, _UNCONNECTED = "0A", "07"  # TCP_LISTEN, and what /proc/net/udp says of a bound socket


class Host:
    """What is there for the person who asks; what may be done there by uid and gid.

    For another uid than the caller's own this takes root, who may become it; anybody else is
    answered for themself. Without a uid the handler's user is not known, and may anything.
    """

    def __init__(self, uid: int | None, gid: int | None) -> None:
        self.uid, self._gid = uid, gid

    @classmethod
    def of_caller(cls) -> Self:
        """For those who know of a handler only what the daemon tells."""
        return cls(None, None)

    def kind(self, path: str) -> str:
        try:
            mode = Path(path).stat().st_mode
        except (OSError, ValueError):
            return ""
        kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"), (stat.S_ISSOCK, "socket"))
        return next((name for test, name in kinds if test(mode)), "other")

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def may(self, path: str, right: Literal["read", "write"]) -> bool:
        if self.uid is None:
            return True
        mode = _RIGHTS[right] | (os.X_OK if self.kind(path) == "directory" else 0)
        with self._as_handler():
            return os.access(path, mode, effective_ids=True)

    def blocked(self, path: str) -> str | None:
        """The nearest directory above that the handler's user cannot pass."""
        with self._as_handler():
            for parent in reversed(Path(path).parents):
                if parent.is_dir() and not os.access(parent, os.X_OK, effective_ids=True):
                    return str(parent)
        return None

    def listens(self, port: int) -> bool:
        return any(port in _ports(table) for table in _TABLES)

    @contextlib.contextmanager
    def _as_handler(self) -> Generator[None]:
        if os.geteuid() != 0 or not self.uid or not self._gid:
            yield
            return
        groups, gid = os.getgroups(), os.getegid()
        os.setgroups([])
        os.setegid(self._gid)
        os.seteuid(self.uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(gid)
            os.setgroups(groups)


def _ports(table: str) -> set[int]:
    """The local ports of one of /proc/net's tables that wait for somebody."""
    try:
        lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return set()
    fields = [line.split() for line in lines]
    wanted = _LISTEN if table.startswith("tcp") else _UNCONNECTED
    return {int(one[1].rpartition(":")[2], 16) for one in fields if one[3] == wanted}
