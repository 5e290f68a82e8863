"""What a sandbox is asked for and what it answers: values, no I/O.

Sizes are bytes, durations integer milliseconds, instants nanoseconds of CLOCK_MONOTONIC (which
the daemon and every sandbox of one host share).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import attrs

from frozen import frozen

# The layers, in the order in which a sandbox is built. `accept_missing` names some of them.
LAYERS = (
    "user_namespace",  # uid 0 is never mapped, capabilities end at the sandbox
    "pid_namespace",  # the tree dies with its init
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
    "network",  # a network namespace of its own, with nothing in it but loopback
    "cgroup",  # a cgroup of its own: the second way to kill, the second proof
    "uid",  # a uid that is not the daemon's
    "root",  # a new root: nothing is visible that was not put there
    "proc",  # a /proc of its own
    "limits",
    "tasks",  # a bound on its tasks that counts nobody else's: pids.max, or a uid map of its own
    "memory",  # memory.max
    "capabilities",  # none, and the bounding set is empty
    "no_new_privs",
    "landlock",  # files and signals once more, by the kernel's own access rules
    "seccomp",  # a filter of system calls
)

# Without these a sandbox is not refused: that they are missing is recorded and shown instead.
RECORDED = frozenset({"cgroup", "memory", "tasks", "uid"})

Level = Literal["strict", "none"]
Network = Literal["none", "host"]
Proof = Literal["record", "pidfd", "cgroup"]
"""Why a tree counts as dead: its init's record after ECHILD, its init's pidfd, `populated 0`."""

DEFAULT_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp/home",  # noqa: S108 - the sandbox's own /tmp
    "TMPDIR": "/tmp",  # noqa: S108 - the same
    "LANG": "C.UTF-8",
    "CREDENTIALS_DIRECTORY": "/run/credentials",
}
"""What git, pip and node need to start. `Command.env` is complete: the caller merges this in."""

FILES_MAX_LIMIT = 4_096
"""The most descriptors a handler may hold: those in flight count against the daemon's own limit."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def _absolute(
    _: object, attribute: attrs.Attribute[tuple[str, ...]], paths: tuple[str, ...]
) -> None:
    for path in paths:
        parts = path.split("/")
        if parts[0] or "\0" in path or ".." in parts:
            raise ValueError(f"{attribute.name}: {path!r} is not an absolute path without '..'")


def _known_layers(_: object, __: object, names: tuple[str, ...]) -> None:
    unknown = sorted(set(names) - set(LAYERS))
    if unknown:
        raise ValueError(f"accept_missing: no layer is called {', '.join(unknown)}")


@attrs.frozen(cache_hash=True)
class Spec:
    """What a handler may have. Equal specs make interchangeable sandboxes."""

    level: Level = "strict"
    network: Network = "none"
    read: tuple[str, ...] = attrs.field(default=(), validator=_absolute)
    write: tuple[str, ...] = attrs.field(default=(), validator=_absolute)
    unix: tuple[str, ...] = attrs.field(default=(), validator=_absolute)
    closure: tuple[str, ...] = attrs.field(default=(), validator=_absolute)
    hidden: tuple[str, ...] = attrs.field(default=(), validator=_absolute)
    """The supervisor's own paths in what is exposed; an empty thing stands in their place."""
    files_max: int = attrs.field(
        default=256,
        validator=attrs.validators.and_(
            attrs.validators.ge(16), attrs.validators.le(FILES_MAX_LIMIT)
        ),
    )
    file_size_max: int = attrs.field(default=1 << 30, validator=attrs.validators.ge(0))
    tasks_max: int = attrs.field(default=64, validator=attrs.validators.ge(1))
    cpu_max_ms: int | None = None
    memory_max: int | None = None
    accept_missing: tuple[str, ...] = attrs.field(default=(), validator=_known_layers)
    trusted: bool = False
    traceable: bool = False
    """Its init may be traced by others of its uid: for a trial under strace, never for work."""
    distant: bool = False
    """Some of its paths may stop answering: they are never looked at on the daemon's loop."""


def _argv(_: object, __: object, argv: tuple[str, ...]) -> None:
    if not argv or not argv[0].startswith("/"):
        raise ValueError(f"argv[0] must be an absolute path: {argv[:1]}")
    if any("\0" in word for word in argv):
        raise ValueError("argv: an argument cannot hold a zero byte")


def _environment(_: object, __: object, env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise ValueError(f"env: {name!r} is not a variable that a process can be given")


def _secret_names(_: object, __: object, secrets: Mapping[str, bytes]) -> None:
    for name in secrets:
        if not _NAME.fullmatch(name):
            raise ValueError(f"secrets: {name!r} is not a plain file name")


@frozen
class Command:
    """What to start. ``env`` is the whole environment; ``secrets`` become /run/credentials/NAME."""

    argv: tuple[str, ...] = attrs.field(validator=_argv)
    env: Mapping[str, str] = attrs.field(factory=dict[str, str], validator=_environment)
    stdin: bytes = attrs.field(default=b"", repr=False)
    secrets: Mapping[str, bytes] = attrs.field(
        factory=dict[str, bytes], repr=False, validator=_secret_names
    )


@frozen
class Identity:
    """Names one init for ever: what the journal records and survivors are found by."""

    init_pid: int
    start_time: int
    """Clock ticks after boot: field 22 of /proc/PID/stat."""
    boot_id: str
    cgroup: str | None = None
    """The absolute path of the sandbox's own cgroup."""


@frozen
class Started:
    """exec happened."""

    pid: int | None
    """As the sandbox numbers it. None: init died before it could say, exec may have happened."""
    gate_ns: int


@frozen
class NotStarted:
    """Nothing of the command ran, so that it is safe to try again."""

    errno: int
    stage: str
    """``exec`` (errno is execve's own), ``secrets``, ``send`` or ``lost``."""
    detail: str


@frozen
class Ended:
    """The whole tree is dead."""

    how: Literal["exited", "signaled"]
    status: int
    """The exit status or the signal's number."""
    cpu_ms: int
    """Processor time of the tree, rounded up."""
    memory_peak_bytes: int | None
    """Of the whole tree, as its cgroup counted it; None without a memory controller."""
    killed: int
    """How many processes were left when the leader ended."""
    proof: Proof
    gate_ns: int
    exit_ns: int
    """When init saw the leader end."""
    rss_peak_bytes: int = 0
    """The largest resident set that one process of the tree had."""
    tasks_started: int | None = None
    """How many tasks were started, threads included; None without a pid namespace."""


@frozen
class Lost:
    """The tree is dead, and nobody saw how its leader ended."""

    cause: str
    proof: Proof


@frozen
class Unkillable:
    """SIGKILL was sent and something still lives: in an uninterruptible sleep, or frozen."""

    identity: Identity
    detail: str


@frozen
class Missing:
    """A layer that sandboxes lack here. ``refuses``: none is made for want of it."""

    layer: str
    cause: str
    remedy: str
    refuses: bool = False


class SandboxFault(Exception):  # noqa: N818 - faults, as distinct from refusals
    """Base of what goes wrong with sandboxes themselves."""


class LauncherLost(SandboxFault):
    """The launcher ended or fell silent; a new one is being started."""


class SandboxUnavailable(SandboxFault):
    """A layer that is required cannot be had here. Nothing was started."""

    def __init__(self, layer: str, cause: str, remedy: str) -> None:
        super().__init__(f"{layer}: {cause}. {remedy}")
        self.layer = layer
        self.cause = cause
        self.remedy = remedy


class NamespacesRefused(SandboxUnavailable):
    """This host gives no user namespace, or none with rights in it. A cgroup may do instead."""
