"""From a spec to the steps that build its sandbox. Pure, apart from one look at /etc/resolv.conf.

A step is a list of byte strings: its layer (with ``?`` behind it when the sandbox may do without),
its name in `root.STEPS`, its arguments. Landlock rules and seccomp programs are steps as well.
"""

from __future__ import annotations

import functools
import os
import resource
from pathlib import Path

from sandbox import confine, linux, wire
from sandbox.root import FOLLOW, OPTIONAL, READ_ONLY
from sandbox.spec import Spec

SYSTEM = (
    *("/bin", "/etc", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    *("/opt", "/sbin", "/usr"),
)
"""Exposed read-only to every handler, where they exist."""

_TRUST = ("/etc/pki", "/etc/ssl", "/etc/ca-certificates", "/var/lib/ca-certificates")
_DEVICES = ("full", "null", "random", "urandom", "zero")
# Relative where something may be mounted below: while the new root is built, an absolute link in
# it still leads to the host.
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("shm", "../tmp"),
)
_TMP_OPTIONS = "mode=1777,size=64m,nr_inodes=16k"
_RUN_OPTIONS = "mode=755,size=1m,nr_inodes=1k"

# Usual for a thread's stack. And more than init, which has the same limits, ever needs.
_STACK, _INIT_DATA = 8 << 20, 32 << 20

# What one template makes for all its attempts, and what each attempt makes for itself. The cgroup
# namespace is entered from inside: a template that had one could not put an init into a cgroup.
_TEMPLATE = linux.CLONE_NEWUSER | linux.CLONE_NEWPID | linux.CLONE_NEWNS | linux.CLONE_NEWUTS
_ATTEMPT = linux.CLONE_NEWUSER | linux.CLONE_NEWPID | linux.CLONE_NEWNS | linux.CLONE_NEWIPC
# Each attempt has these for itself, so what is exposed below them is put there anew.
_OWN = ("/run/", "/tmp/", "/var/tmp/", "/dev/shm/")  # noqa: S108 - the sandbox's own


def template_flags(spec: Spec) -> int:
    """The namespaces that a template is born into."""
    return _TEMPLATE | (linux.CLONE_NEWNET if spec.network == "none" else 0)


def template(spec: Spec, bounded: tuple[str, ...] = ()) -> bytes:
    """What a template is told: the steps of its root, those of each attempt, what an attempt is
    born into, whether it has a network namespace of its own, whether it may be traced.

    ``bounded``: what the attempts' cgroups bound, of "memory" and "tasks".
    """
    resolver = _resolver() if spec.network == "host" else ()
    return _template(spec, bounded, _system(), resolver)


@functools.lru_cache(maxsize=256)
def _template(
    spec: Spec,
    bounded: tuple[str, ...],
    system: tuple[tuple[str, str | None], ...],
    resolver: tuple[str, ...],
) -> bytes:
    exposed = _exposed(spec, tuple(path for path, link in system if link is None), resolver)
    own_network = spec.network == "none"
    return wire.pack_list(
        [
            wire.pack_list(_template_steps(spec, exposed, dict(system))),
            wire.pack_list(_attempt_steps(spec, exposed, bounded)),
            b"%d" % _ATTEMPT,
            b"%d" % own_network,
            b"%d" % spec.traceable,
        ]
    )


def sources(spec: Spec) -> dict[str, int]:
    """The paths outside the system directories that the root shows, and how (flags of `root`)."""
    return _sources(spec, _resolver() if spec.network == "host" else ())


@functools.lru_cache(maxsize=256)
def _sources(spec: Spec, resolver: tuple[str, ...]) -> dict[str, int]:
    exposed = _exposed(spec, (), resolver)
    return {path: flags for path, flags in exposed.items() if not path.startswith("/dev/")}


def _template_steps(
    spec: Spec, exposed: dict[str, int], system: dict[str, str | None]
) -> list[bytes]:
    steps = [step("user_namespace", "have"), step("limits", "oom_score", "500")]
    steps += _root(spec, exposed, system)
    return [*steps, step("uts_namespace", "hostname", "sandbox")]


def _attempt_steps(spec: Spec, exposed: dict[str, int], bounded: tuple[str, ...]) -> list[bytes]:
    steps = [step("pid_namespace", "have"), step("ipc_namespace", "have")]
    steps += [step("cgroup_namespace", "new_cgroup_namespace")]
    if spec.network == "none":
        steps += [step("network", "have")]
    again = [path for path in sorted(exposed) if path.startswith(_OWN)]
    steps += [step("root", "open", exposed[path], path) for path in again]
    steps += [step(_proc(spec), "proc")]
    steps += [step("root", "memory", _RUN_OPTIONS, "/run")]
    steps += [step("root", "memory", _TMP_OPTIONS, "/tmp")]  # noqa: S108 - its own
    steps += [step("root", "directory", "700", "/tmp/home")]  # noqa: S108 - its own
    steps += [step("root", "directory", "700", "/run/credentials")]
    steps += [step("root", "attach", path) for path in again]
    steps += [step("root", "enter", "/tmp")]  # noqa: S108 - its own
    steps += limit_steps(spec, bounded) + _task_limit(spec)
    steps += [step("capabilities", "drop_capabilities"), step("no_new_privs", "no_new_privs")]
    return [*steps, *confine.steps(spec, confine.here())]


def bare(spec: Spec, bounded: tuple[str, ...]) -> bytes:
    """The steps of a sandbox that is only a cgroup, which bounds ``bounded`` as in `template`.

    At level ``none`` exec may gain privileges: that is where sudo is meant to work.
    """
    steps = [step("limits", "oom_score", "500")]
    steps += limit_steps(spec, bounded)
    if "tasks" not in bounded:
        # Without a user namespace this counts every process of the uid, strangers included, so it
        # is only for want of anything better.
        steps += _task_limit(spec)
    if spec.level == "strict":
        steps += [step("capabilities", "limit_capabilities")]
        steps += [step("no_new_privs", "no_new_privs")]
        steps += confine.steps(spec, confine.here(), system=_readable(spec))
    return wire.pack_list(steps)


def _readable(spec: Spec) -> tuple[str, ...]:
    """What every handler may read of the host where there is no new root."""
    folders = tuple(path for path, link in _system() if link is None)
    return (*folders, *_TRUST, *_resolver()) if spec.network == "host" else folders


def step(layer: str, name: str, *arguments: str | int) -> bytes:
    """One step, packed."""
    return wire.pack_list([os.fsencode(str(word)) for word in (layer, name, *arguments)])


def root_steps(spec: Spec) -> list[bytes]:
    """The steps of the new root alone."""
    system = dict(_system())
    folders = tuple(path for path, link in system.items() if link is None)
    return _root(spec, _exposed(spec, folders, ()), system)


def _proc(spec: Spec) -> str:
    return "proc?" if "proc" in spec.accept_missing else "proc"


def _root(spec: Spec, exposed: dict[str, int], system: dict[str, str | None]) -> list[bytes]:
    steps = [step("root", "open", flags, path) for path, flags in exposed.items()]
    steps += [step("root", "begin"), step("root", "directory", "755", "/dev")]
    steps += [step("root", "link", text, f"/dev/{name}") for name, text in _DEVICE_LINKS]
    steps += [step(_proc(spec), "proc")]
    steps += [step("root", "directory", "755", path) for path in ("/run", "/tmp", "/var")]  # noqa: S108 - the sandbox's
    steps += [step("root", "link", "../tmp", "/var/tmp")]  # noqa: S108 - its own as well
    steps += [step("root", "link", link, path) for path, link in system.items() if link]
    # Parents before children, so that a writable path inside a read-only one lies on top.
    steps += [step("root", "attach", path) for path in sorted(exposed)]
    steps += [step("root", "hide", path) for path in sorted(spec.hidden)]
    return [*steps, step("root", "finish")]


def _exposed(spec: Spec, system: tuple[str, ...], resolver: tuple[str, ...]) -> dict[str, int]:
    """Each path that the new root shows, and how; a later kind overrides an earlier one."""
    exposed = dict.fromkeys(system, READ_ONLY | OPTIONAL)
    if spec.network == "host":
        exposed |= dict.fromkeys((*_TRUST, *resolver), READ_ONLY | OPTIONAL | FOLLOW)
    exposed |= dict.fromkeys((f"/dev/{name}" for name in _DEVICES), FOLLOW)
    exposed |= dict.fromkeys(_plain(spec.closure), READ_ONLY)
    exposed |= dict.fromkeys(_plain(spec.read), READ_ONLY | FOLLOW)
    exposed |= dict.fromkeys(_plain(spec.write), FOLLOW)
    exposed |= dict.fromkeys(_plain(spec.unix), FOLLOW)
    return exposed


def _plain(paths: tuple[str, ...]) -> list[str]:
    return [os.path.normpath(path) for path in paths]


def _system() -> tuple[tuple[str, str | None], ...]:
    """Which of `SYSTEM` are here; for a symbolic link (/bin on most hosts) also its text.

    Looked at by the daemon, so that an init has less to do. None of them is anybody else's to
    hang or to change.
    """
    found: list[tuple[str, str | None]] = []
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            found.append((str(path), str(path.readlink())))
        elif path.exists():
            found.append((str(path), None))
    return tuple(found)


def _resolver() -> tuple[str, ...]:
    """The directory that /etc/resolv.conf really lies in, when that is outside /etc.

    The directory and not the file: systemd-resolved and NetworkManager replace it by rename.
    """
    target = Path("/etc/resolv.conf").resolve()
    folder = target.parent
    return () if folder == Path("/etc") or not target.exists() else (str(folder),)


def limit_steps(spec: Spec, bounded: tuple[str, ...] = ()) -> list[bytes]:
    """The resource limits of one process, each for itself; ``bounded`` as in `template`."""
    # Exactly one byte of core: the kernel then refuses piped core patterns too, which ignore a
    # limit of zero, and writes no file below a page.
    limits = [
        (resource.RLIMIT_CORE, 1, 1),
        (resource.RLIMIT_NOFILE, spec.files_max, spec.files_max),
        (resource.RLIMIT_FSIZE, spec.file_size_max, spec.file_size_max),
        (resource.RLIMIT_MEMLOCK, 65_536, 65_536),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_SIGPENDING, 256, 256),
        (resource.RLIMIT_NICE, 0, 0),
        (resource.RLIMIT_RTPRIO, 0, 0),
    ]
    if spec.cpu_max_ms is not None:
        # SIGXCPU first, SIGKILL a second later. The kernel counts whole seconds.
        seconds = -(-spec.cpu_max_ms // 1000)
        limits.append((resource.RLIMIT_CPU, seconds, seconds + 1))
    if spec.memory_max is not None and "memory" not in bounded:
        most = _data_max(spec.memory_max, spec.tasks_max)
        limits.append((resource.RLIMIT_DATA, most, most))
    return [step("limits", "limit", *numbers) for numbers in limits]


def _data_max(memory_max: int, tasks_max: int) -> int:
    """What one process may have in writable memory of its own where nobody counts the whole tree.

    The kernel counts what is mapped and not what is used, and of each thread's stack all of it: a
    handler that a memory controller would let live must live here as well.
    """
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    stack = _STACK if stack == resource.RLIM_INFINITY else stack
    return max(memory_max, _INIT_DATA) + tasks_max * stack


def _task_limit(spec: Spec) -> list[bytes]:
    """In a user namespace it counts the sandbox's own processes; its init is one of them."""
    return [step("limits", "limit", resource.RLIMIT_NPROC, *[spec.tasks_max + 1] * 2)]
