"""Which layers can be had on this host, found out by applying each in a throw-away child.

Versions and configuration files would be guesses: the same kernel refuses different things in a
container, under a unit's filter and behind an AppArmor profile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import attrs

from sandbox import cgroups, linux, plan, remedies, wire
from sandbox.cgroups import Cgroup
from sandbox.spec import LAYERS, Spec

PROBE_S = 20
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from sandbox.trial import main;"
    " main(*map(int, sys.argv[2:]))"
)
_USER = linux.CLONE_NEWUSER
_MOUNTS = _USER | linux.CLONE_NEWNS | linux.CLONE_NEWPID


@attrs.frozen
class Layer:
    """One layer's state here, with how it was tried; cause and remedy are empty when in force."""

    name: str
    state: Literal["in force", "missing", "degraded"]
    how: str
    cause: str = ""
    remedy: str = ""


def probe(
    *,
    handler_uid: int | None = None,
    handler_gid: int | None = None,
    cgroup_root: Path | None = None,
) -> list[Layer]:
    """Every layer of `spec.LAYERS` and ``memory``, in that order.

    Blocks for some tenths of a second: not for an event loop.
    """
    uid = os.getuid() if handler_uid is None else handler_uid
    gid = os.getgid() if handler_gid is None else handler_gid
    why_not = cgroups.unavailable(cgroup_root) if cgroup_root is not None else "none was given"
    cgroup = Cgroup.make(cgroup_root) if cgroup_root is not None and not why_not else None
    try:
        found = _run(uid, gid, cgroup)
    finally:
        if cgroup is not None:
            cgroup.kill()
            cgroup.remove()
    layers = {name: _judge(name, found.get(name), uid) for name in _trials()}
    layers["uid"] = _uid(uid)
    layers["cgroup"] = _cgroup(found.get("cgroup"), why_not)
    layers["memory"] = _memory(cgroup_root)
    return [layers[name] for name in (*LAYERS, "memory")]


def _trials() -> dict[str, tuple[int, list[bytes]]]:
    """For each layer that a child can try: clone flags and steps."""
    step = plan.step
    root = plan.root_steps(Spec())
    return {
        "user_namespace": (_USER, []),
        "pid_namespace": (_USER | linux.CLONE_NEWPID, []),
        "ipc_namespace": (_USER | linux.CLONE_NEWIPC, []),
        "uts_namespace": (_USER | linux.CLONE_NEWUTS, [step("", "hostname", "sandbox")]),
        "cgroup_namespace": (_USER | linux.CLONE_NEWCGROUP, []),
        "network": (_USER | linux.CLONE_NEWNET, [step("", "loopback")]),
        "root": (_MOUNTS, [packed for packed in root if b"proc" not in wire.unpack_list(packed)]),
        "proc": (_MOUNTS, [step("", "begin"), step("", "proc")]),
        "limits": (0, plan.limit_steps(Spec())),
        "capabilities": (_USER, [step("", "drop_capabilities")]),
        "no_new_privs": (0, [step("", "no_new_privs")]),
    }


def _run(uid: int, gid: int, cgroup: Cgroup | None) -> dict[str, tuple[int, str]]:
    """What `trial` found: errno and step per layer."""
    words = [
        word
        for name, (flags, steps) in _trials().items()
        for word in (name.encode(), b"%d" % flags, wire.pack_list(steps))
    ]
    fds = cgroup.open() if cgroup is not None else []
    numbers = (uid, gid, *(fds or (-1, -1, -1)))
    folder = Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _BOOT, folder, *map(str, numbers)],
            input=wire.pack_list(words),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            env={},
            cwd="/",
            timeout=PROBE_S,
            check=False,
        )
    finally:
        for fd in fds:
            os.close(fd)
    found: dict[str, tuple[int, str]] = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        name, number, step = line.split(" ", 2)
        found[name] = (int(number), step)
    return found


def _judge(name: str, result: tuple[int, str] | None, uid: int) -> Layer:
    how = "applied in a throw-away child"
    if result is None:
        cause = "the process that tries layers ended before it came to this one"
        return Layer(name, "missing", how, cause, "Look for a seccomp filter around effectd.")
    number, step = result
    if number == 0:
        return Layer(name, "in force", how)
    cause = f"{step}: {os.strerror(number)}"
    clone = step in ("clone3", "id maps")
    remedy = remedies.USER_NAMESPACE if clone else remedies.for_step(name, number, uid)
    return Layer(name, "missing", how, cause, remedy)


def _uid(uid: int) -> Layer:
    how = f"handlers run as uid {uid}, the daemon as {os.getuid()}"
    if uid != os.getuid():
        return Layer("uid", "in force", how)
    cause = "handlers share the daemon's uid and can exhaust its quotas of epoll, pipes and files"
    return Layer("uid", "degraded", how, cause, "Run the systemd unit, which uses effectd-run.")


def _cgroup(result: tuple[int, str] | None, why_not: str | None) -> Layer:
    how = "a child was born into a cgroup of its own and killed with it"
    if result is not None and result[0] == 0:
        return Layer("cgroup", "in force", how)
    cause = why_not or (os.strerror(result[0]) if result else "not tried")
    return Layer("cgroup", "missing", how, cause, remedies.CGROUP)


def _memory(cgroup_root: Path | None) -> Layer:
    how = "cgroup.controllers of the delegated cgroup"
    try:
        names = (cgroup_root / "cgroup.controllers").read_text().split() if cgroup_root else []
    except OSError:
        names = []
    if "memory" in names:
        return Layer("memory", "in force", how)
    return Layer("memory", "missing", how, "no memory controller is delegated", remedies.CGROUP)
