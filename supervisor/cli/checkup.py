"""What `effectctl doctor` looks at: each part a list of checks with remedies."""

from __future__ import annotations

import grp
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from supervisor.cli import disk
from supervisor.cli.documents import objects, part
from supervisor.cli.render_handlers import Check

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config

CLIENTS = "effectd-clients"
# Who is in one of these is as good as root, and so is a handler that shares the uid.
POWERFUL = frozenset({"docker", "lxd", "libvirt", "disk", "adm", "sudo", "wheel", "incus-admin"})


def layer_checks(layers: Iterable[Mapping[str, Any]], accepted: Iterable[str]) -> list[Check]:
    """Each sandbox layer: its state, how it was probed, the remedy."""
    from sandbox.spec import RECORDED

    tolerated = RECORDED | set(accepted)
    found: list[Check] = []
    for layer in layers:
        name, state = str(layer.get("name", "?")), layer.get("state")
        how, cause = str(layer.get("how") or ""), str(layer.get("cause") or "")
        if state == "in force":
            found.append(Check("ok", name, how))
            continue
        mild = name in tolerated or state == "degraded" or bool(layer.get("dispensable"))
        grade: Literal["warning", "wrong"] = "warning" if mild else "wrong"
        detail = f"{state}: {cause}" if cause else str(state)
        found.append(Check(grade, name, detail, str(layer.get("remedy") or "")))
    return found


def daemons_layers(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The layers of a daemon's status in the shape of a probe's: name, state, cause, remedy."""
    sandbox = part(status, "sandbox")
    how = "applied when the daemon started"
    found = [
        {"name": name, "state": "in force", "how": how, "cause": ""}
        for name, state in part(sandbox, "layers").items()
        if state == "in force"
    ]
    return found + [
        {
            "name": one.get("layer"),
            "state": "missing",
            "cause": one.get("cause"),
            "remedy": one.get("remedy"),
            "dispensable": not one.get("refuses"),
        }
        for one in objects(sandbox, "missing")
    ]


def own_layers(config: Config) -> list[dict[str, Any]]:
    """The layers as this process can have them, in the shape of the daemon's status."""
    from sandbox.probe import probe

    origin = config.origin
    layers = probe(handler_uid=origin.handler_uid, handler_gid=origin.handler_gid)
    return [
        {name: getattr(one, name) for name in ("name", "state", "how", "cause", "remedy")}
        for one in layers
    ]


def disk_checks(config: Config) -> list[Check]:
    """What the state directory's disk can promise."""
    place = _existing(config.state_dir)
    try:
        listed = disk.mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    except OSError as error:
        return [Check("warning", str(place), f"its mount is not known: {error.strerror}")]
    mount = disk.mount_of(os.path.realpath(place), listed)
    found = [disk.promise(str(place), mount)] if mount is not None else []
    space = os.statvfs(place)
    found.append(disk.room(str(place), space.f_bavail * space.f_frsize, config.journal.state_bytes))
    try:
        found.append(disk.sync_check(str(place), disk.measure_sync_us(str(place))))
    except OSError as error:
        found.append(Check("ok", f"sync in {place}", f"not measured: {error.strerror}"))
    return found


def write_checks(config: Config, handlers: Iterable[Handler]) -> list[Check]:
    """Handlers that could fill the journal's disk: a quota bounds their /tmp and nothing else."""
    journal = _existing(config.state_dir).stat().st_dev
    return [
        Check(
            "warning",
            f"{handler.name}: write {path}",
            "it is on the same file system as the journal, which the handler can fill up",
            "give state_dir a file system of its own, or name a directory on another one",
        )
        for handler in handlers
        for path in handler.manifest.sandbox.write
        if _existing(Path(path)).stat().st_dev == journal
    ]


def _existing(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    return next((one for one in (path, *path.parents) if one.is_dir()), Path("/"))


def access_checks(*, dev: bool) -> list[Check]:
    """Whether this user may talk to a system daemon, and what its groups mean for handlers."""
    groups = {_group_name(gid) for gid in {os.getegid(), *os.getgroups()}}
    found: list[Check] = []
    if os.geteuid() != 0 and not dev and _exists(CLIENTS):
        if CLIENTS in groups:
            found.append(Check("ok", "access", f"this login is in group {CLIENTS}"))
        else:
            found.append(
                Check(
                    "warning",
                    "access",
                    f"this login is not in group {CLIENTS}, which the socket belongs to",
                    f"usermod -aG {CLIENTS} USER, log in again, restart the agent's service",
                )
            )
    strong = sorted(groups & POWERFUL)
    if dev and os.geteuid() != 0 and strong:
        found.append(
            Check(
                "warning",
                "groups",
                f"under --dev handlers have your groups, {', '.join(strong)} among them: "
                "a handler that can reach such a group's socket is as good as root",
                "run untrusted handlers under the systemd unit",
            )
        )
    return found


def _exists(group: str) -> bool:
    try:
        grp.getgrnam(group)
    except KeyError:
        return False
    return True


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
