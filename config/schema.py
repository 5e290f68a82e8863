"""The daemon's configuration as a value: every key, its default and its rules.

`Config()` is what an installation without a file gets. Key names here are the key names
of the file. Nothing here touches the disk; `config.load` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import attrs

from config.problems import Fault, Problem
from config.values import (
    Address,
    Bytes,
    Count,
    Days,
    Directory,
    Grantee,
    Integer,
    Level,
    Milliseconds,
    OptionalDirectory,
    Principal,
    Size,
    Timeout,
    UserName,
    Word,
)
from frozen import frozen

Role = Literal["read", "run", "resolve", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

# struct sockaddr_un holds 108 bytes, the last a NUL.
SOCKET_PATH_MAX: Final = 107
# Keys that a reload cannot change, because what they name is open or running.
RESTART_KEYS: Final = (
    "state_dir",
    "witness_dir",
    "socket",
    "journal.segment_bytes",
    "journal.archive_dir",
    "metrics.listen",
    "sandbox.handler_user",
)


@frozen
class Access:
    """Who holds which role. Root holds all four; everybody reads their own."""

    read: tuple[Grantee, ...] = (Principal("group", "effectd-admin"),)
    run: tuple[Grantee, ...] = (Principal("group", "effectd-clients"),)
    resolve: tuple[Grantee, ...] = (Principal("group", "effectd-admin"),)
    admin: tuple[Grantee, ...] = ()

    def granted(self, role: Role) -> tuple[Principal, ...]:
        """Whom `role` itself is granted to (holders of `admin` hold it too)."""
        match role:
            case "read":
                return self.read
            case "run":
                return self.run
            case "resolve":
                return self.resolve
            case "admin":
                return self.admin


@frozen
class Limits:
    """Bounds on what clients can make the daemon keep. `operations_per_session` counts
    unfinished operations only."""

    sessions: Count = 1_000
    operations_per_session: Count = 10_000
    operations_kept: Count = 200_000
    request_bytes: Annotated[int, Size(1_024, 64 * 2**20)] = 1_048_576


@frozen
class Retention:
    """How long finished things stay, in days."""

    finished_days: Days = 30
    output_days: Days = 7
    tombstone_days: Days = 400
    abandon_days: Days = 30


@frozen
class JournalConfig:
    """Sizes in bytes. Without `archive_dir`, segments that a snapshot covers are removed, but for
    the newest sixteen; `state_bytes` bounds everything below `state_dir`."""

    segment_bytes: Annotated[int, Size(2**16, 2**30)] = 16_777_216
    archive_dir: OptionalDirectory = None
    state_bytes: Bytes = 10_737_418_240


@frozen
class MetricsConfig:
    """`listen` is "" or ADDRESS:PORT."""

    listen: Address = ""


@frozen
class SandboxDefaults:
    """For handlers whose manifest says nothing. `handler_user` "" is the daemon's own user,
    which root refuses. `pool` ready sandboxes per handler in use, `pool_total` over all."""

    level: Level = "strict"
    accept_missing: tuple[Word, ...] = ()
    handler_user: UserName = "effectd-run"
    pool: Annotated[int, Integer(0, 1_000)] = 2
    pool_total: Annotated[int, Integer(0, 10_000)] = 8


@frozen
class Origin:
    """Where a configuration came from and what the host said when it was loaded.

    `file` is None without one. `handler_uid` and `handler_gid` are None when handlers run
    as the daemon's own user, or when no user has the configured name (then a warning says
    so, and root has nobody to run handlers as). `credentials_dir` is the service manager's.
    """

    file: Path | None = None
    dev: bool = False
    daemon_uid: int = 0
    handler_uid: int | None = None
    handler_gid: int | None = None
    credentials_dir: Path | None = None
    overrides: Mapping[str, object] = attrs.field(factory=dict[str, object])
    warnings: tuple[Problem, ...] = ()


@frozen
class Config:
    """The effective configuration. Two are equal when their keys are, wherever they came
    from."""

    state_dir: Directory = Path("/var/lib/effectd")
    witness_dir: Directory = Path("/var/lib/effectd-witness")
    socket: Directory = Path("/run/effectd/effectd.sock")
    handlers_dir: Directory = Path("/etc/effectd/handlers.d")
    secrets_dir: Directory = Path("/etc/effectd/secrets")
    budget_margin_ms: Milliseconds = 0
    default_max_run_ms: Timeout = 600_000
    max_running_attempts: Annotated[int, Integer(1, 10_000)] = 64
    drain_ms: Milliseconds = 30_000
    access: Access = attrs.field(factory=Access)
    limits: Limits = attrs.field(factory=Limits)
    retention: Retention = attrs.field(factory=Retention)
    journal: JournalConfig = attrs.field(factory=JournalConfig)
    metrics: MetricsConfig = attrs.field(factory=MetricsConfig)
    sandbox: SandboxDefaults = attrs.field(factory=SandboxDefaults)
    origin: Origin = attrs.field(factory=Origin, eq=False)


def value_at(config: Config, key: str) -> object:
    """The value under a dotted key (`journal.segment_bytes`)."""
    value: object = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def config_faults(config: Config) -> Iterator[Fault]:
    """What no single key can show: keys that contradict one another."""
    yield from _place_faults(config)
    if len(bytes(config.socket)) > SOCKET_PATH_MAX:
        yield Fault(
            "socket",
            f"the path has {len(bytes(config.socket))} bytes, and the kernel takes"
            f" {SOCKET_PATH_MAX}",
            "choose a shorter path",
        )
    if config.journal.state_bytes < 4 * config.journal.segment_bytes:
        yield Fault(
            "journal.state_bytes",
            "there is no room for four segments, which recovery needs",
            f"set it to {4 * config.journal.segment_bytes:_} or more, or make"
            " journal.segment_bytes smaller",
        )
    if config.sandbox.pool > config.sandbox.pool_total:
        yield Fault(
            "sandbox.pool",
            f"{config.sandbox.pool} is more than sandbox.pool_total ({config.sandbox.pool_total})",
            "lower sandbox.pool or raise sandbox.pool_total",
        )


def _place_faults(config: Config) -> Iterator[Fault]:
    places = {
        key: getattr(config, key)
        for key in ("state_dir", "witness_dir", "handlers_dir", "secrets_dir")
    }
    for key, place in places.items():
        if place == Path("/"):
            yield Fault(key, "the root directory cannot be it", "name a directory of its own")
    # A witness that is restored together with the state witnesses nothing.
    if config.witness_dir.is_relative_to(config.state_dir):
        yield Fault(
            "witness_dir",
            f"{config.witness_dir} is in state_dir, so one restore would roll back both",
            "name a directory outside state_dir, best on another disk",
        )
    archive = config.journal.archive_dir
    if archive is not None and archive.is_relative_to(config.state_dir):
        yield Fault(
            "journal.archive_dir",
            f"{archive} is in state_dir, whose size state_bytes bounds",
            "name a directory outside state_dir",
        )
    if config.handlers_dir == config.secrets_dir:
        yield Fault("secrets_dir", "it is the same as handlers_dir", "give each its own directory")
