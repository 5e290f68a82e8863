"""What to do about a path that a handler cannot use from inside."""

from __future__ import annotations

from typing import Literal, NamedTuple

from supervisor.cli.denials.outside import Host
from supervisor.cli.denials.values import SYSTEM, is_broad, within

How = Literal["absent", "denied", "read-only", "needs", "refused", "silent", "other"]

_WORDS: tuple[tuple[str, How, str], ...] = (
    ("needs ", "needs", ""),
    ("Read-only", "read-only", "it is there, on a file system that is read-only"),
    ("Permission denied", "denied", "it is there, and not allowed"),
    ("No such file", "absent", "it is not there inside"),
    ("nonexistent", "absent", "it is not there inside"),
    ("refused", "refused", "it is there, and nobody listens"),
    ("no answer", "silent", "none answered within a second"),
)


class Said(NamedTuple):
    """How the use of a path went wrong, and that as a person reads it."""

    how: How
    words: str

    @classmethod
    def of(cls, line: str) -> Said:
        """From what the tools inside said."""
        for mark, how, words in _WORDS:
            if mark in line:
                return cls(how, words or line)
        return cls("other", line)


def remedy(kind: str, path: str, said: Said, host: Host) -> str:
    """What would make it work, for handlers that run as the host's uid."""
    if kind == "names":
        return "Look at /etc/resolv.conf and at what it names: handlers ask the same."
    blocked = host.blocked(path)
    if blocked is not None:
        return (
            f"chmod o+x {blocked}, so that uid {host.uid} may pass; or move it to where everybody"
            " may, /opt say"
        )
    if said.how == "needs":
        library = said.words.removeprefix("needs ").split()[0]
        return (
            f"Install {library} where {path} looks for it (ldd {path}); when it is there outside,"
            " add its directory to read = [...] in [sandbox]."
        )
    if said.how == "absent":
        return _absent(kind, path, host)
    if kind == "unix":
        return "Start what listens there, and let the handler's user write to the socket."
    if said.how == "read-only":
        return drop_in(f"ReadWritePaths={path}")
    if kind == "write" and (within(path, SYSTEM) or is_broad(path)):
        return "That is the whole system's: give the handler a directory of its own, below /var/lib"
    if kind == "write":
        return f"chown {host.uid} {path}; or make a directory that is its own"
    mode = "+rx" if kind == "run" or host.kind(path) == "directory" else "+r"
    return f"chmod o{mode} {path}, or give it to uid {host.uid}"


def _absent(kind: str, path: str, host: Host) -> str:
    if host.kind(path):
        real = host.real(path)
        return f"Add {real if real != path else path} to read = [...] in [sandbox]."
    made = f"mkdir -p {path} && chown {host.uid} {path}" if kind == "write" else ""
    return f"{made or 'Make it'}, or correct the path in the manifest."


def drop_in(line: str) -> str:
    """A line for the unit, and how it gets there."""
    return f"When the unit protects it, a drop-in (systemctl edit effectd):\n[Service]\n{line}"
