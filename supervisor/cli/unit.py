"""What the systemd unit takes from handlers: known by asking systemd, when it runs here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from supervisor.cli.denials.values import within
from supervisor.cli.remedies import drop_in
from supervisor.cli.render_handlers import Check

UNIT = "effectd.service"
ASK_S = 5
PROPERTIES = (
    *("LoadState", "ProtectSystem", "ProtectHome", "PrivateTmp"),
    *("ReadWritePaths", "BindPaths", "BindReadOnlyPaths"),
)
_HOMES = ("/home", "/root", "/run/user")
_FULL = ("/usr", "/boot", "/efi", "/etc")
_TMP = ("/tmp", "/var/tmp")  # noqa: S108 - paths to compare with


def properties() -> dict[str, str]:
    """The unit's, as systemd has loaded it; empty where there is none."""
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return {}
    try:
        asked = [systemctl, "show", UNIT, f"--property={','.join(PROPERTIES)}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return found if found.get("LoadState") == "loaded" else {}


def protected(
    unit: Mapping[str, str], read: Iterable[str], write: Iterable[str]
) -> Iterator[Check]:
    """A warning for each path that works from a shell, and not from the unit."""
    opened = _paths(unit.get("ReadWritePaths", "")) | _paths(unit.get("BindPaths", ""))
    shown = opened | _paths(unit.get("BindReadOnlyPaths", ""))
    for path in write:
        setting = _read_only(unit, path)
        if setting and not within(path, opened):
            detail = f"the unit makes it read-only ({setting})"
            yield Check("warning", f"write {path}", detail, drop_in(f"ReadWritePaths={path}"))
    for key, paths, bind in (("read", read, "BindReadOnlyPaths"), ("write", write, "BindPaths")):
        for path in paths:
            setting = _hidden(unit, path)
            if setting and not within(path, shown if key == "read" else opened):
                detail = f"the unit does not see it ({setting})"
                yield Check("warning", f"{key} {path}", detail, drop_in(f"{bind}={path}"))


def _read_only(unit: Mapping[str, str], path: str) -> str:
    system, home = unit.get("ProtectSystem", "no"), unit.get("ProtectHome", "no")
    if home == "read-only" and within(path, _HOMES):
        return "ProtectHome=read-only"
    full = _FULL if system == "full" else _FULL[:3]
    if (system == "strict" and not within(path, _HOMES)) or (
        system in {"yes", "full"} and within(path, full)
    ):
        return f"ProtectSystem={system}"
    return ""


def _hidden(unit: Mapping[str, str], path: str) -> str:
    home = unit.get("ProtectHome", "no")
    if home in {"yes", "tmpfs"} and within(path, _HOMES):
        return f"ProtectHome={home}"
    if unit.get("PrivateTmp", "no") not in {"no", ""} and within(path, _TMP):
        return f"PrivateTmp={unit['PrivateTmp']}"
    return ""


def _paths(value: str) -> set[str]:
    """A list of paths as systemd shows it: with `-` for those that may be missing, and for binds
    with what stands behind a colon."""
    return {word.lstrip("-+").split(":")[0] for word in value.split()}
