"""The last two layers of a sandbox, as steps for its init: Landlock, then the call filter.

Both depend on the spec and the kernel alone, never on a call. They come after every mount, which
Landlock forbids, and the filter after Landlock, whose calls it need not judge.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from frozen import frozen
from sandbox import filter as calls
from sandbox import landlock, remedies, wire
from sandbox.landlock import OPTIONAL
from sandbox.spec import SandboxUnavailable, Spec
from sandbox.syscalls import ARCHITECTURES, Architecture

READ = landlock.EXECUTE | landlock.READ_FILE | landlock.READ_DIR
# Not the making of devices, which would take a capability that nobody in a sandbox has.
WRITE = (
    READ
    | (landlock.WRITE_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV)
    | (landlock.REMOVE_DIR | landlock.REMOVE_FILE | landlock.REFER)
    | (landlock.MAKE_DIR | landlock.MAKE_REG | landlock.MAKE_SYM)
    | (landlock.MAKE_SOCK | landlock.MAKE_FIFO)
)
_LOOK = landlock.READ_FILE | landlock.READ_DIR
_DEVICE = landlock.READ_FILE | landlock.WRITE_FILE | landlock.IOCTL_DEV
_DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")

# What each ABI brought. A right that the kernel does not know is not denied by it either.
_FIRST_RIGHTS = landlock.REFER - 1
_RIGHTS_SINCE = ((2, landlock.REFER), (3, landlock.TRUNCATE), (5, landlock.IOCTL_DEV))
_SCOPES_SINCE = 6
_SCOPES = 0b11  # abstract Unix sockets and signals
_LOG_SINCE = 7
_LOG_NEW_EXEC_ON = 0b10  # else what a handler is denied is not logged: it is a new program
# Before REFER a file could not be moved to another directory, whatever the rules: git would fail.
_MOVES_SINCE = 2


_ASK = (
    "import sys; sys.path.append(sys.argv[1]); from sandbox import landlock\n"
    "try: print(landlock.version())\n"
    "except OSError as error: print(-error.errno)"
)
_ASK_S = 20


@frozen
class Kernel:
    """What decides, besides the spec: the machine, and the Landlock ABI."""

    architecture: Architecture | None
    """None: there is no table for it, and so no filter."""
    landlock: int
    """The ABI, from 1; 0 when the kernel has no Landlock or it is switched off."""
    refusal: str = ""
    """Why it is not even known: what came of the question."""


_asked: list[subprocess.Popen[bytes]] = []


def ask() -> None:
    """Begin to ask this host's kernel, so that `here` has not to wait for the whole answer. By a
    process of its own: a unit's SystemCallFilter= kills who makes a call that it does not list."""
    if _asked or here.cache_info().currsize:
        return
    beside = str(Path(__file__).resolve().parent.parent)
    command = [sys.executable, "-I", "-S", "-c", _ASK, beside]
    null = subprocess.DEVNULL
    asked = subprocess.Popen(
        command, stdin=null, stdout=subprocess.PIPE, stderr=null, env={}, cwd="/"
    )
    _asked.append(asked)


@functools.cache
def here() -> Kernel:
    """This host's kernel, asked once, which takes some 20 ms from the first `ask` on."""
    ask()
    native = struct.calcsize("P") == 8  # a 32-bit Python on a 64-bit kernel makes other calls
    architecture = ARCHITECTURES.get(os.uname().machine) if native else None
    return Kernel(architecture, *_answered(_asked.pop()))


def _answered(asked: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The ABI, and why it is not known."""
    with asked:
        try:
            said, _ = asked.communicate(timeout=_ASK_S)
        except BaseException:
            asked.kill()
            raise
    if asked.returncode < 0:
        return 0, f"whoever asks is ended by {signal.Signals(-asked.returncode).name}"
    number = int(said or -errno.EIO)
    if number >= 0 or number in (-errno.ENOSYS, -errno.EOPNOTSUPP):
        return max(number, 0), ""
    return 0, os.strerror(-number)


def steps(spec: Spec, kernel: Kernel, *, system: Iterable[str] | None = None) -> list[bytes]:
    """The steps of both layers, packed, for a sandbox with a root of its own.

    Without one Landlock alone guards the files: ``system`` then names what every handler may read,
    beside what the spec does. SandboxUnavailable for a layer that is required and cannot be had.
    """
    return [*_landlock(spec, kernel, system), *seccomp_steps(spec, kernel, own=system is None)]


def policy(spec: Spec, *, own: bool) -> calls.Policy:
    """What the filter lets this handler do. ``own``: it has namespaces of its own."""
    host = spec.network == "host"
    internet = (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK) if own or host else ()
    unix = (socket.AF_UNIX,) if spec.unix else ()
    families = tuple(map(int, (*internet, *unix)))
    return calls.Policy(families=families, any_protocol=host, own_pids=own)


def rights(abi: int) -> int:
    """Every right that a kernel with this ABI, or a newer one, can deny."""
    known = _FIRST_RIGHTS
    for since, right in _RIGHTS_SINCE:
        if abi >= since:
            known |= right
    return known


def landlock_problem(kernel: Kernel, *, alone: bool) -> tuple[str, str] | None:
    """Cause and remedy when Landlock cannot be used; ``alone`` when nothing else guards files."""
    if kernel.refusal:
        return f"landlock_create_ruleset: {kernel.refusal}", remedies.LANDLOCK
    if not kernel.landlock:
        return "this kernel has no Landlock", remedies.LANDLOCK_KERNEL
    if kernel.landlock < _MOVES_SINCE and not alone:
        cause = f"Landlock ABI {kernel.landlock} forbids to move files between directories"
        return cause, remedies.LANDLOCK_KERNEL
    return None


def seccomp_problem(kernel: Kernel) -> tuple[str, str] | None:
    """Cause and remedy when there is no filter for this machine."""
    if kernel.architecture is not None:
        return None
    machines = " and ".join(ARCHITECTURES)
    cause = f"the system calls of this machine ({os.uname().machine}) are not known"
    return cause, f"Filters exist for 64-bit {machines}. {remedies.ACCEPT_SECCOMP}"


def _landlock(spec: Spec, kernel: Kernel, system: Iterable[str] | None) -> list[bytes]:
    optional = "landlock" in spec.accept_missing
    problem = landlock_problem(kernel, alone=system is not None)
    if problem is not None:
        # A kernel that has none is not held against it while the new root stands; one that has
        # it and refuses it is, and so is the lack of the only layer that guards the files.
        if optional or (system is None and not kernel.refusal):
            return []
        raise SandboxUnavailable("landlock", *problem)
    rules = _inside() if system is None else _outside(spec, system)
    rules += [(0, WRITE, path) for path in _shown(spec.write, spec.hidden)]
    return landlock_steps(kernel.landlock, rules, "landlock?" if optional else "landlock")


def landlock_steps(abi: int, rules: list[tuple[int, int, str]], layer: str) -> list[bytes]:
    """The steps for flags, rights and path of each rule."""
    known = rights(abi)
    scoped = _SCOPES if abi >= _SCOPES_SINCE else 0
    size = 24 if scoped else 8
    flags = _LOG_NEW_EXEC_ON if abi >= _LOG_SINCE else 0
    return [
        _step(layer, "landlock", known, scoped, size),
        *(_step(layer, "landlock_allow", flag, known & right, path) for flag, right, path in rules),
        _step(layer, "landlock_enforce", flags),
    ]


def _inside() -> list[tuple[int, int, str]]:
    """The rules for a new root: what is writable in it is known, and all of it may be read."""
    return [
        (0, READ, "/"),
        (0, WRITE, "/tmp"),  # noqa: S108 - the sandbox's own, as are the others
        (0, WRITE, "/run/credentials"),
        *((0, _DEVICE, device) for device in _DEVICES),
    ]


def _outside(spec: Spec, system: Iterable[str]) -> list[tuple[int, int, str]]:
    """The rules for the host's own root. /proc is the host's too: what it says of processes of
    this uid is guarded by ptrace's rules, which Landlock narrows to the sandbox."""
    return [
        (OPTIONAL, _LOOK, "/proc"),
        *((0, _DEVICE, device) for device in _DEVICES),
        *((OPTIONAL, READ, path) for path in _shown(system, spec.hidden)),
        *((0, READ, path) for path in _shown((*spec.closure, *spec.read), spec.hidden)),
    ]


def _shown(paths: Iterable[str], hidden: tuple[str, ...]) -> list[str]:
    """The paths without what is hidden in them: Landlock can only allow, so a directory with
    something hidden inside is granted entry by entry, and what is created in it later is not."""
    if not hidden:
        return list(paths)
    secret = [os.path.realpath(path) for path in hidden]
    return [shown for path in paths for shown in _around(os.path.realpath(path), secret)]


def _around(path: str, secret: list[str]) -> list[str]:
    if any(path == one or path.startswith(f"{one}/") for one in secret):
        return []
    if not any(one.startswith(path.rstrip("/") + "/") for one in secret):
        return [path]
    # A link's target is judged by its own path, so a rule through a link could only grant more.
    entries = [entry for entry in sorted(Path(path).iterdir()) if not entry.is_symlink()]
    return [shown for entry in entries for shown in _around(str(entry), secret)]


def seccomp_steps(spec: Spec, kernel: Kernel, *, own: bool) -> list[bytes]:
    """The steps of the filter. ``own`` as in `policy`."""
    optional = "seccomp" in spec.accept_missing
    problem = seccomp_problem(kernel)
    if problem is not None:
        if optional:
            return []
        raise SandboxUnavailable("seccomp", *problem)
    assert kernel.architecture is not None
    program = _program(kernel.architecture.machine, policy(spec, own=own))
    layer = "seccomp?" if optional else "seccomp"
    return [_step(layer, "filter", program), _step(layer, "seccomp")]


@functools.lru_cache(maxsize=16)
def _program(machine: str, allowed: calls.Policy) -> bytes:
    return calls.program(ARCHITECTURES[machine], allowed)


def _step(layer: str, name: str, *arguments: str | int | bytes) -> bytes:
    words = (word if isinstance(word, bytes) else os.fsencode(str(word)) for word in arguments)
    return wire.pack_list([layer.encode(), name.encode(), *words])
