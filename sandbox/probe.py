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

from frozen import frozen
from sandbox import cgroups, confine, linux, plan, remedies, trial, wire
from sandbox.cgroups import Cgroup
from sandbox.spec import LAYERS, Spec

PROBE_S = 20
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from sandbox.trial import main;"
    " main(*map(int, sys.argv[2:]))"
)
_USER = linux.CLONE_NEWUSER
_MOUNTS = _USER | linux.CLONE_NEWNS | linux.CLONE_NEWPID


@frozen
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
    """Every layer of `spec.LAYERS`, in that order.

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
    layers |= {layer.name: layer for layer in _confinement(layers)}
    layers["uid"] = _uid(uid)
    layers["cgroup"] = _cgroup(found.get("cgroup"), why_not)
    layers["tasks"] = _tasks(cgroup_root, layers["user_namespace"])
    layers["memory"] = _memory(cgroup_root)
    return [layers[name] for name in LAYERS]


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
        **{
            layer: (0, [step("", "no_new_privs"), *steps]) for layer, steps in _last_steps().items()
        },
    }


def _last_steps() -> dict[str, list[bytes]]:
    """Landlock's and seccomp's, where this kernel and machine can have them at all."""
    kernel = confine.here()
    found: dict[str, list[bytes]] = {}
    if confine.landlock_problem(kernel, alone=False) is None:
        rules = [(0, confine.READ, "/")]
        found["landlock"] = confine.landlock_steps(kernel.landlock, rules, "")
    if confine.seccomp_problem(kernel) is None:
        found["seccomp"] = confine.seccomp_steps(Spec(), kernel, own=True)
    return found


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
    cause = step if number == trial.KILLED else f"{step}: {os.strerror(number)}"
    clone = step in ("clone3", "id maps")
    remedy = remedies.USER_NAMESPACE if clone else remedies.for_step(name, number, uid, step)
    return Layer(name, "missing", how, cause, remedy)


def _confinement(tried: dict[str, Layer]) -> list[Layer]:
    """Landlock and seccomp: what was tried, with the ABI or the machine; else why it was not."""
    kernel = confine.here()
    machine = os.uname().machine
    how = {"landlock": f", ABI {kernel.landlock}", "seccomp": f", system calls of {machine}"}
    found = [
        attrs.evolve(tried[n], how=tried[n].how + more) for n, more in how.items() if n in tried
    ]
    if problem := confine.landlock_problem(kernel, alone=False):
        # What a kernel lacks is recorded; what it has and refuses is missing.
        state: Literal["missing", "degraded"] = "missing" if kernel.refusal else "degraded"
        found.append(Layer("landlock", state, "asked the kernel for its version", *problem))
    if problem := confine.seccomp_problem(kernel):
        found.append(Layer("seccomp", "missing", "looked for the machine's table", *problem))
    return found


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


def _tasks(cgroup_root: Path | None, user_namespace: Layer) -> Layer:
    how = "pids in cgroup.controllers, or RLIMIT_NPROC in a user namespace of its own"
    if "pids" in _controllers(cgroup_root) or user_namespace.state == "in force":
        return Layer("tasks", "in force", how)
    return Layer("tasks", "missing", how, "no pids controller is delegated", remedies.CGROUP)


def _memory(cgroup_root: Path | None) -> Layer:
    how = "memory in cgroup.controllers of the delegated cgroup"
    if "memory" in _controllers(cgroup_root):
        return Layer("memory", "in force", how)
    return Layer("memory", "degraded", how, remedies.MEMORY, remedies.CGROUP)


def _controllers(cgroup_root: Path | None) -> list[str]:
    """Those that reach the sandboxes' parent."""
    try:
        return (
            (cgroup_root / cgroups.RUNS / "cgroup.controllers").read_text().split()
            if cgroup_root
            else []
        )
    except OSError:
        return []
