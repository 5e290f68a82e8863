"""What no handler sees, and which paths reach another: pure questions about paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from config.schema import Config
from frozen import frozen

# Directories that hold many strangers' things: never exposed or guarded as a whole.
_SHARED: Final = "/ /dev/shm /home /media /mnt /root /run /srv /tmp /var /var/lib /var/tmp"
SHARED: Final = frozenset(map(Path, _SHARED.split()))
# What every sandbox has for itself, so that the host's cannot be shown in its place.
PRIVATE: Final = frozenset(map(Path, ("/dev", "/run", "/tmp")))  # noqa: S108  # paths, not files
PREFIX_PARTS: Final = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")


@frozen
class Place:
    """A path and what it is, as a message calls it."""

    path: Path
    what: str


def hidden_places(config: Config) -> tuple[Place, ...]:
    """Everything that must not be visible to any handler, from the effective configuration."""
    origin = config.origin
    socket_dir = config.socket.parent
    places = [
        Place(config.state_dir, "the state directory"),
        Place(config.witness_dir, "the witness directory"),
        Place(config.secrets_dir, "the secrets directory"),
        Place(config.handlers_dir, "the manifests directory"),
        Place(config.socket if socket_dir in SHARED else socket_dir, "where the control socket is"),
        # Whoever reaches one of these two asks the host's manager to run what he likes.
        Place(Path("/run/dbus/system_bus_socket"), "the system bus"),
        Place(Path("/run/systemd/private"), "the service manager's socket"),
        Place(Path("/sys/fs/cgroup"), "the control groups"),
        Place(Path("/proc"), "what the kernel tells of every process"),
    ]
    if origin.file is not None:
        places.append(Place(origin.file, "the configuration file"))
    if origin.credentials_dir is not None:
        places.append(Place(origin.credentials_dir, "the service's credentials"))
    if config.journal.archive_dir is not None:
        places.append(Place(config.journal.archive_dir, "the journal's archive"))
    return tuple(places)


def relation(one: Path, other: Path) -> str | None:
    """How two absolute paths overlap (`is`, `contains`, `lies in`), or None."""
    first, second = str(one), str(other)
    if first == second:
        return "is"
    if second.startswith(first.rstrip("/") + "/"):
        return "contains"
    if first.startswith(second.rstrip("/") + "/"):
        return "lies in"
    return None


def guarded(touched: Iterable[Path], home: Path | None) -> Iterator[Path]:
    """What nobody may write, so that a program whose start touches `touched` stays itself.

    Beside each file stand modules that it loads and no digest covers, so its directory
    counts; for a `bin` directory, the prefix's libraries. A directory shared with
    strangers does not: then the file alone is guarded.
    """
    for file in touched:
        directory = file.parent
        if directory.name == "bin" and directory.parent != Path("/"):
            yield from (directory.parent / part for part in PREFIX_PARTS)
        elif directory in SHARED or directory == home:
            yield file
        else:
            yield directory
