"""A handler's rehearsals with their denials explained, and what would allow them."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from supervisor.cli.denials.amend import Amendment, amendment
from supervisor.cli.denials.judge import Judge
from supervisor.cli.denials.outside import Host
from supervisor.cli.denials.values import Denial, Policy
from supervisor.cli.exits import Exit
from supervisor.cli.talk import CommandError

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config
    from sandbox.spec import Command, Spec
    from supervisor.cli.rehearsal import Run


def policy_of(config: Config, handler: Handler) -> Policy:
    """What the handler may have, from its manifest and the effective configuration."""
    from config.hidden import hidden_places
    from supervisor.dispatch.command import spec_of

    spec = spec_of(config, handler)
    hidden = tuple(str(place.path) for place in hidden_places(config))
    return Policy(
        network=spec.network,
        visible=(*spec.read, *spec.closure),
        writable=spec.write,
        unix=spec.unix,
        hidden=tuple(path for path in hidden if path not in {"/proc", "/sys/fs/cgroup"}),
    )


def traced_runs(
    config: Config, handler: Handler, spec: Spec, command: Command, times: int
) -> tuple[list[Run], Amendment]:
    """The rehearsals, and the lines of the manifest that would allow what they were denied.

    One that was refused a Unix socket before it could say which runs once more, with such sockets
    allowed and nothing behind them: only then does it name a path.
    """
    from supervisor.cli.rehearsal import rehearse

    uid, gid = ids_of(config)
    host = Host(uid, gid)
    policy = policy_of(config, handler)

    def watch(init: int) -> Judge:
        return Judge(policy, host, uid, init=init)

    traceable = attrs.evolve(spec, traceable=True)
    runs = rehearse(config, handler, traceable, command, times, watch)
    found = list(dict.fromkeys(denial for run in runs for denial in run.denials))
    if any(one.key == "unix" and not one.value for one in found):
        with _Nothing() as path:
            wider = attrs.evolve(traceable, unix=(*traceable.unix, path))
            [again] = rehearse(config, handler, wider, command, 1, watch)
        found = _named(found, again.denials)
        runs = [_with(run, found) for run in runs]
    return runs, amendment(config, handler, found)


def ids_of(config: Config) -> tuple[int, int]:
    """The uid and gid that handlers run as. CommandError when there is nobody they may be."""
    origin = config.origin
    uid = os.getuid() if origin.handler_uid is None else origin.handler_uid
    gid = os.getgid() if origin.handler_gid is None else origin.handler_gid
    if uid == 0 or gid == 0:
        user = config.sandbox.handler_user or "effectd-run"
        raise CommandError(
            f"handlers never run as root, and there is no user {user} to run them as",
            "Create that user (systemd-sysusers makes it from the unit's files), name another as"
            " handler_user, or try as `effectd --dev` would: --dev.",
            Exit.FAILED,
        )
    return uid, gid


def _named(found: list[Denial], again: tuple[Denial, ...]) -> list[Denial]:
    """The nameless refusals with the names in their place: none when only habit asked."""
    names = [
        one for one in again if one.key == "unix" or one.call.startswith(("bind ", "connect "))
    ]
    new = [one for one in names if one not in found]
    return [one for one in found if one.key != "unix" or one.value] + new


def _with(run: Run, found: list[Denial]) -> Run:
    return run._replace(denials=tuple(found)) if run.traced else run


class _Nothing:
    """A Unix socket in a directory of its own, on which nobody listens."""

    def __enter__(self) -> str:
        self._folder = Path(tempfile.mkdtemp(prefix="effectctl-try-"))
        self._folder.chmod(0o755)  # the handler's user passes through it
        self._path = self._folder / "nothing.sock"
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(self._path))
        return str(self._path)

    def __exit__(self, *_: object) -> None:
        self._path.unlink()
        self._folder.rmdir()
