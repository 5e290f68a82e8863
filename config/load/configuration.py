"""Loading the daemon's own configuration: file, developer's defaults, command line."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

import attrs

from config.access import granted
from config.convert import structured
from config.load import names
from config.load.files import present, read_toml, require_private_writing
from config.problems import ConfigError, Fault, Problem, WrongValueError
from config.schema import (
    RESTART_KEYS,
    ROLES,
    Access,
    Config,
    Origin,
    config_faults,
    value_at,
)

DEFAULT_FILE: Final = Path("/etc/effectd/effectd.toml")
COMMAND_LINE: Final = "the command line"
BUILT_IN: Final = "built-in defaults"
NO_OVERRIDES: Final[Mapping[str, object]] = MappingProxyType({})


def load_config(
    path: Path | None = None,
    *,
    dev: bool = False,
    overrides: Mapping[str, object] = NO_OVERRIDES,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The effective configuration, or `ConfigError` with every problem in it.

    Without `path`, the system's file if there is one; under `dev` none is read. `overrides`
    are dotted keys with TOML values or paths, taken relative to the current directory.
    `environ` defaults to the process's: $XDG_STATE_HOME, $XDG_RUNTIME_DIR, $HOME and
    $CREDENTIALS_DIRECTORY are read, once.
    """
    environ = os.environ if environ is None else environ
    overrides = {key: _plain(value) for key, value in overrides.items()}
    if path is None and not dev and present(DEFAULT_FILE):
        path = DEFAULT_FILE
    file = None if path is None else path.absolute()
    said = _read(file, dev=dev)
    for key, value in overrides.items():
        _put(said, key, value)
    document = _with_dev_defaults(said, environ) if dev else said
    config = structured(document, Config)
    if not isinstance(config, Config):
        raise ConfigError(_placed(config, file, overrides))
    credentials = environ.get("CREDENTIALS_DIRECTORY", "")
    origin = Origin(
        file=file,
        dev=dev,
        daemon_uid=os.geteuid(),
        credentials_dir=Path(credentials) if credentials.startswith("/") else None,
        overrides=overrides,
    )
    return _settled(attrs.evolve(config, origin=origin), said)


def reload_config(old: Config) -> Config:
    """The same sources read again. A change that needs a restart is a `ConfigError`."""
    origin = old.origin
    environ = dict(os.environ)
    environ.pop("CREDENTIALS_DIRECTORY", None)
    if origin.credentials_dir is not None:
        environ["CREDENTIALS_DIRECTORY"] = str(origin.credentials_dir)
    new = load_config(origin.file, dev=origin.dev, overrides=origin.overrides, environ=environ)
    changed = [key for key in RESTART_KEYS if value_at(old, key) != value_at(new, key)]
    if changed:
        raise ConfigError(
            Problem(
                _file_name(new.origin.file),
                key,
                f"it changed from {str(value_at(old, key))!r} to {str(value_at(new, key))!r},"
                " and the running daemon cannot follow",
                "restart effectd, or put the old value back",
            )
            for key in changed
        )
    return new


def _read(file: Path | None, *, dev: bool) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        if not dev:
            require_private_writing(file)
        return read_toml(file)
    except WrongValueError as error:
        raise ConfigError([Problem(str(file), "", error.message, error.fix)]) from None


def _plain(value: object) -> object:
    return str(value.absolute()) if isinstance(value, Path) else value


def _put(document: dict[str, Any], key: str, value: object) -> None:
    *tables, name = key.split(".")
    for table in tables:
        inner = document.setdefault(table, {})
        if not isinstance(inner, dict):
            return  # the file says nonsense there; the converter reports it
        document = cast("dict[str, Any]", inner)
    document[name] = value


def _with_dev_defaults(said: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """What a developer's daemon has where nothing is said: everything below the state
    directory, and all roles for whoever started it."""
    state = said.get("state_dir")
    own_state = isinstance(state, str)
    if not own_state:
        state = str(_state_home(environ) / "effectd")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    # A state directory that was asked for has a socket of its own: two of them never
    # fight over the one in $XDG_RUNTIME_DIR.
    socket_dir = f"{runtime}/effectd" if runtime.startswith("/") and not own_state else state
    own = f"uid:{os.geteuid()}"
    document: dict[str, Any] = {
        "state_dir": state,
        "witness_dir": f"{str(state).rstrip('/')}-witness",
        "socket": f"{socket_dir}/effectd.sock",
        "handlers_dir": f"{state}/handlers.d",
        "secrets_dir": f"{state}/secrets",
    }
    tables: dict[str, dict[str, object]] = {
        "access": {role: [own] for role in ROLES},
        "sandbox": {"handler_user": "nobody" if os.geteuid() == 0 else ""},
    }
    document |= tables
    for key, value in said.items():
        table = tables.get(key)
        if table is not None and isinstance(value, dict):
            table.update(cast("dict[str, object]", value))
        else:
            document[key] = value
    return document


def _state_home(environ: Mapping[str, str]) -> Path:
    # The XDG specification: a relative path is invalid and ignored.
    if environ.get("XDG_STATE_HOME", "").startswith("/"):
        return Path(environ["XDG_STATE_HOME"])
    home = environ.get("HOME", "")
    if home.startswith("/"):
        return Path(home, ".local/state")
    listed = names.home_of(os.geteuid())
    if listed is None:
        raise ConfigError(
            [
                Problem(
                    COMMAND_LINE,
                    "state_dir",
                    f"$HOME is not set and uid {os.geteuid()} has no home directory",
                    "name a directory with --state-dir",
                )
            ]
        )
    return listed / ".local/state"


def _settled(config: Config, said: Mapping[str, Any]) -> Config:
    """Names looked up and rules checked; what is only doubtful becomes a warning."""
    access = Access(**{role: names.resolved(config.access.granted(role)) for role in ROLES})
    user = config.sandbox.handler_user
    ids = names.user_ids(user) if user else None
    origin = attrs.evolve(
        config.origin,
        handler_uid=None if ids is None else ids[0],
        handler_gid=None if ids is None else ids[1],
    )
    config = attrs.evolve(config, access=access, origin=origin)
    faults = [*config_faults(config), *_handler_user_faults(config)]
    doubts = list(_listen_doubts(config))
    said_access = said.get("access", {})
    for role in ROLES:
        unknown = names.unknown_names(f"access.{role}", access.granted(role))
        (faults if role in said_access else doubts).extend(unknown)
    if user and ids is None:
        fault = Fault(
            "sandbox.handler_user",
            f"this host knows no user {user!r}, so no handler can run",
            f"create it (useradd --system {user}) or name another user",
        )
        (faults if "handler_user" in said.get("sandbox", {}) else doubts).append(fault)
    if faults:
        raise ConfigError(_placed(faults, origin.file, origin.overrides))
    warnings = tuple(_placed(doubts, origin.file, origin.overrides))
    return attrs.evolve(config, origin=attrs.evolve(origin, warnings=warnings))


def _handler_user_faults(config: Config) -> Iterator[Fault]:
    origin, user = config.origin, config.sandbox.handler_user
    at = "sandbox.handler_user"
    if origin.handler_uid == 0 or (not user and origin.daemon_uid == 0):
        yield Fault(at, "handlers never run as root", "name an ordinary user, like effectd-run")
        return
    if origin.handler_uid is None or origin.handler_gid is None:
        return
    if origin.dev and origin.handler_uid == origin.daemon_uid:
        return  # a developer, who runs handlers as himself
    groups = names.groups_of(user, origin.handler_gid)
    for role in ROLES:
        if granted(config.access.granted(role), origin.handler_uid, groups):
            yield Fault(
                f"access.{role}",
                f"it grants the role to {user!r}, which handlers run as",
                f"take {user} out of that group, or grant the role to another",
            )


def _listen_doubts(config: Config) -> Iterator[Fault]:
    listen = config.metrics.listen
    if not listen:
        return
    host = listen.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if not ipaddress.ip_address(host).is_loopback:
        yield Fault(
            "metrics.listen",
            f"{host} can be reached from other hosts, and metrics need no password",
            "listen on 127.0.0.1 or [::1]",
        )


def _placed(
    faults: Iterator[Fault] | list[Fault] | tuple[Fault, ...],
    file: Path | None,
    overrides: Mapping[str, object],
) -> list[Problem]:
    """Each fault with the place that its key was said in."""
    return [
        fault.in_file(COMMAND_LINE if _said_in(overrides, fault.key) else _file_name(file))
        for fault in faults
    ]


def _said_in(overrides: Mapping[str, object], key: str) -> bool:
    return any(key == said or key.startswith((f"{said}.", f"{said}[")) for said in overrides)


def _file_name(file: Path | None) -> str:
    return BUILT_IN if file is None else str(file)
