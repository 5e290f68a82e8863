"""What the sandbox denied, what a handler may have, and what there is outside: values, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

Key = Literal[
    "read",
    "write",
    "unix",
    "network",
    "tasks_max",
    "files_max",
    "file_size_max",
    "cpu_max_ms",
    "",
]
"""The key of ``[sandbox]`` that would allow it; empty when none does."""


# Their numbers mean something else, so the filter ends such a process with SIGSYS.
FOREIGN = "every sandbox refuses system calls of another architecture, as 32-bit programs make"


class Denial(NamedTuple):
    """One thing that failed inside and would not fail outside.

    `value` is the path to add to a list, or ``host``; a limit's new value is for whoever knows
    the present one. `fix` is said beside the key, or in its place.
    """

    key: Key
    value: str
    call: str
    why: str
    fix: str = ""

    def document(self) -> dict[str, str]:
        """The JSON form."""
        return dict(self._asdict())


# What every sandbox shows of the host, beside the command's own closure.
SYSTEM = (
    "/bin", "/etc", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt",
    "/sbin", "/usr",
)  # fmt: skip
# What every sandbox has for itself: the host's does not show through.
OWN = ("/proc", "/dev", "/run/credentials")
# Directories that hold many strangers' things. None of them is ever suggested as a whole.
_BROAD = (
    "/ /boot /dev /dev/shm /home /media /mnt /nix /proc /root /run /srv /sys /tmp"
    " /usr/bin /usr/lib /usr/local /usr/local/bin /usr/share"
    " /var /var/cache /var/lib /var/log /var/spool /var/tmp"
)
BROAD = frozenset((*SYSTEM, *_BROAD.split()))


class Policy(NamedTuple):
    """What the handler may have beside the system, from its manifest as loaded.

    `hidden` is what is effectd's own, and nobody's to see.
    """

    network: str
    visible: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    unix: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def hides(self, path: str) -> bool:
        """Whether it is the supervisor's own, which no key shows."""
        return within(path, self.hidden)

    def shows(self, path: str) -> bool:
        """Whether the sandbox shows what the host has there."""
        return within(path, (*SYSTEM, *OWN, *self.visible, *self.writable, *self.unix))

    def writes(self, path: str) -> bool:
        """Whether the handler may write there, as far as the sandbox goes."""
        return within(path, self.writable)


class Outside(Protocol):
    """The host beyond the sandbox. Paths are looked up as whoever asks, rights are the
    handler's user's."""

    def kind(self, path: str) -> str:
        """`file`, `directory`, `socket`, `other` for what the path leads to; empty for nothing."""
        ...

    def real(self, path: str) -> str:
        """The path with its symbolic links followed."""
        ...

    def may(self, path: str, right: Literal["read", "write"]) -> bool:
        """Whether the handler's user could, were there no sandbox."""
        ...

    def listens(self, port: int) -> bool:
        """Whether something on this host takes connections or datagrams there."""
        ...


def is_broad(path: str) -> bool:
    """Whether a directory holds many strangers' things, or somebody's whole home."""
    return path in BROAD or path.rpartition("/")[0] == "/home"


def within(path: str, directories: Iterable[str]) -> bool:
    """Whether a path is one of these, or lies in one."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in directories)
