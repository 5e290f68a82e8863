"""Which containment a spec may have, and what to tell a person when a layer cannot be had."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection

from sandbox import scarce, wire
from sandbox.spec import LAYERS, Missing, NamespacesRefused, SandboxUnavailable, Spec

CGROUP = (
    "Run under systemd with Delegate=yes, or for a try:"
    " systemd-run --user --scope -p Delegate=yes effectd --dev"
)
USER_NAMESPACE = (
    "Allow unprivileged user namespaces: sysctl user.max_user_namespaces above 0; on Ubuntu 23.10"
    " and later the AppArmor profile `effectd` that ships with it; in the unit no"
    " RestrictNamespaces=; in a container a seccomp profile that permits clone3 and"
    " CLONE_NEWUSER. Or give effectd a delegated cgroup and set"
    ' accept_missing = ["user_namespace"] for this handler.'
)
DIED = "the template ended while it was being made"
DIED_REMEDY = (
    "Look into the kernel's log: for an out-of-memory kill, or for SIGSYS, which a unit's"
    " SystemCallFilter= sends (effectctl doctor then names the layer). Else try again."
)
FILTERED = (
    "A filter around effectd ends who makes that call: in the unit"
    " `SystemCallFilter=@system-service @mount @sandbox` (older systemd, by name: seccomp"
    " landlock_create_ruleset landlock_add_rule landlock_restrict_self), or none at all."
)
SLOW = "the sandbox was not ready after 5 s"
SLOW_REMEDY = (
    "The machine may have too much to do: lower max_running_attempts. Or a path that it exposes"
    " is on a file system that hangs (NFS, FUSE, autofs): check the handler's read, write and"
    " command."
)
FILES = (
    "Handlers share the daemon's uid, whose limit of open files is too low for that: raise"
    " LimitNOFILE= (ulimit -n) to files_max + 1024 at least, or lower files_max."
)
MEMORY = (
    "no memory controller is delegated: each process of a handler is bounded by itself (memory_max"
    " and the stacks of tasks_max threads), all of them together are not"
)
PROC = (
    "Something is mounted over a part of /proc (ProtectKernelTunables=, ProtectKernelLogs=,"
    " ProtectHostname= or a container's masks): remove it, or set"
    ' accept_missing = ["proc"] for handlers that need no /proc.'
)
LANDLOCK = (
    "A filter around effectd refuses it: in the unit add `SystemCallFilter=@sandbox`, or by name"
    " landlock_create_ruleset, landlock_add_rule and landlock_restrict_self; in a container a"
    " seccomp profile that permits them. Or set"
    ' accept_missing = ["landlock"] for this handler.'
)
LANDLOCK_KERNEL = (
    "It is the second layer around files. Linux 5.19 or later has it when built with"
    " CONFIG_SECURITY_LANDLOCK and with `landlock` among the modules of the boot option lsm=."
)
ACCEPT_SECCOMP = 'Set accept_missing = ["seccomp"] for a handler that may run without.'
SECCOMP = (
    "The kernel needs CONFIG_SECCOMP_FILTER; in the unit `SystemCallFilter=@sandbox` if it has a"
    " filter; in a container a seccomp profile that permits seccomp filters; emulators of another"
    f" machine have none. {ACCEPT_SECCOMP}"
)


# Steps whose failure is about the path that they name.
_ON_PATHS = frozenset({"open", "attach", "landlock_allow"})
# Layers that take a capability. In Ubuntu's restricted user namespaces there are none, although
# they can be made.
_PRIVILEGED = frozenset(
    {"root", "network", "uts_namespace", "ipc_namespace", "cgroup_namespace", "capabilities"}
)
# The sandbox has each of these for itself; "/" would hide even that.
_PRIVATE = frozenset({"/", "/dev", "/proc", "/run", "/tmp"})  # noqa: S108


_LEFT_OUT = {
    "cgroup": ("no cgroup is delegated", CGROUP),
    "uid": (
        "handlers share the daemon's uid and can exhaust its quotas of epoll, pipes and files",
        "Run the systemd unit, whose handlers run as effectd-run.",
    ),
    "tasks": ("no pids controller is delegated", CGROUP),
    "memory": (MEMORY, CGROUP),
    "landlock": ("this kernel has none", LANDLOCK_KERNEL),
}


def left_out(there: Collection[str]) -> tuple[Missing, ...]:
    """The layers that a sandbox with those that are ``there`` was made without."""
    unknown = ("it could not be had when the daemon started", "effectctl doctor tries each layer.")
    return tuple(
        Missing(name, *_LEFT_OUT.get(name, unknown)) for name in LAYERS if name not in there
    )


def check_paths(spec: Spec) -> None:
    """SandboxUnavailable for a path that cannot be exposed, whatever is there."""
    for kind in ("read", "write", "unix", "closure"):
        for path in getattr(spec, kind):
            plain = os.path.normpath(path).replace("//", "/")
            if plain in _PRIVATE or plain.startswith("/proc/"):
                cause = f"{kind} names {path}, and a sandbox has a {plain} of its own"
                raise SandboxUnavailable("root", cause, "Name only what is needed inside it.")


def containment(spec: Spec, *, has_cgroup: bool) -> int:
    """How this spec's tree is to be held together; SandboxUnavailable when nothing could."""
    if spec.level == "none":
        if not spec.trusted:
            raise SandboxUnavailable(
                "level", "level none is for trusted handlers", "Set trusted = true."
            )
        if not has_cgroup:
            raise SandboxUnavailable("cgroup", "level none ends its tree by a cgroup alone", CGROUP)
        return wire.BY_CGROUP
    return wire.BY_NAMESPACE


def falls_back(spec: Spec, *, has_cgroup: bool) -> bool:
    """Whether a cgroup may hold this spec's tree where namespaces are refused."""
    if "user_namespace" not in spec.accept_missing or not has_cgroup:
        return False
    if spec.unix:
        # No layer that is left looks at which socket file a process connects to.
        cause = "unix sockets cannot be declared one by one without a root of its own"
        raise SandboxUnavailable("root", cause, "Leave out unix, or accept_missing.")
    return True


def refused(number: int, contained_by: int) -> SandboxUnavailable:
    """What it means that clone3, or writing the id maps, failed."""
    if number in scarce.FILES or number == errno.ETOOMANYREFS:
        return scarce.refused(number)
    cause = f"no sandbox could be made: {os.strerror(number)}"
    if contained_by == wire.BY_CGROUP:
        return SandboxUnavailable("cgroup", cause, CGROUP)
    if number in (errno.EAGAIN, errno.ENOMEM):
        return SandboxUnavailable(
            "tasks", cause, "Raise TasksMax= or RLIMIT_NPROC, or free memory."
        )
    return NamespacesRefused("user_namespace", cause, USER_NAMESPACE)


def without_rights(layer: str, number: int, step: str) -> bool:
    """Whether a step failed because the user namespace that it was taken in gives no rights."""
    # EACCES about a path that the step names is that path's own.
    refused = number == errno.EPERM or (number == errno.EACCES and step not in _ON_PATHS)
    return refused and layer in _PRIVILEGED


def for_step(layer: str, number: int, uid: int, step: str = "") -> str:
    """What to do about a step (its name first, then its arguments) that failed inside."""
    if number < 0:  # `trial.KILLED`
        return FILTERED
    if layer == "proc":
        return PROC
    if layer == "seccomp":
        return SECCOMP
    name = step.partition(" ")[0]
    on_path = name in _ON_PATHS
    if on_path and number == errno.ENOENT:
        return "Correct the path in the manifest: it is not there."
    if on_path and number == errno.EACCES:
        return (
            f"Handlers run as uid {uid}, which cannot reach it: move it to /opt or /srv, or open"
            " the directories above it (o+x)."
        )
    if layer == "landlock":
        return LANDLOCK
    if number == errno.ENOSYS:
        return "Linux 5.12 or later has it; in a container a seccomp profile may refuse it."
    if without_rights(layer, number, name):
        return f"The user namespace that was made gives no rights. {USER_NAMESPACE}"
    return "effectctl doctor tries each layer and says what is missing."
