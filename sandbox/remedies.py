"""Which containment a spec may have, and what to tell a person when a layer cannot be had."""

from __future__ import annotations

import errno
import os

from sandbox import wire
from sandbox.spec import SandboxUnavailable, Spec

CGROUP = (
    "Run under systemd with Delegate=yes, or for a try:"
    " systemd-run --user --scope -p Delegate=yes effectd --dev"
)
USER_NAMESPACE = (
    "Allow unprivileged user namespaces: sysctl user.max_user_namespaces above 0; on Ubuntu the"
    " AppArmor profile that ships with effectd; in a container a seccomp profile that permits"
    " clone(CLONE_NEWUSER). Or give effectd a delegated cgroup and set"
    ' accept_missing = ["user_namespace"] for this handler.'
)
SLOW = "the sandbox was not ready after 5 s"
SLOW_REMEDY = (
    "A path that it exposes may be on a file system that hangs (NFS, FUSE, autofs): check the"
    " handler's read, write and command."
)
FILES = (
    "Handlers share the daemon's uid, whose limit of open files is too low for that: raise"
    " LimitNOFILE= (ulimit -n) to files_max + 1024 at least, or lower files_max."
)
PROC = (
    "Something is mounted over a part of /proc (ProtectKernelTunables=, ProtectKernelLogs=,"
    " ProtectHostname= or a container's masks): remove it, or set"
    ' accept_missing = ["proc"] for handlers that need no /proc.'
)


# The sandbox has each of these for itself; "/" would hide even that.
_PRIVATE = frozenset({"/", "/dev", "/proc", "/run", "/tmp"})  # noqa: S108


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
    if "user_namespace" in spec.accept_missing and has_cgroup:
        return wire.BY_CGROUP
    return wire.BY_NAMESPACE


def refused(number: int, contained_by: int) -> SandboxUnavailable:
    """What it means that clone3, or writing the id maps, failed."""
    cause = f"no sandbox could be made: {os.strerror(number)}"
    if contained_by == wire.BY_CGROUP:
        return SandboxUnavailable("cgroup", cause, CGROUP)
    if number in (errno.EAGAIN, errno.ENOMEM):
        return SandboxUnavailable(
            "tasks", cause, "Raise TasksMax= or RLIMIT_NPROC, or free memory."
        )
    return SandboxUnavailable("user_namespace", cause, USER_NAMESPACE)


def for_step(layer: str, number: int, uid: int) -> str:
    """What to do about a step that failed inside."""
    if layer == "proc":
        return PROC
    if layer == "root" and number == errno.ENOENT:
        return "Correct the path in the manifest: it is not there."
    if layer == "root" and number in (errno.EACCES, errno.EPERM):
        return (
            f"Handlers run as uid {uid}, which cannot reach it: move it to /opt or /srv, or open"
            " the directories above it (o+x)."
        )
    return "effectctl doctor tries each layer and says what is missing."
