"""System calls that Python lacks, as thin functions that raise OSError.

ctypes rather than python-prctl, because the launcher and every init run without site-packages:
what they load is copied into each sandbox, page by page. ``PyDLL`` keeps the GIL over the call,
which `clone3` needs: its child goes on in the same interpreter.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import addressof, byref, c_char_p, c_int, c_long, c_uint64, c_ulong, sizeof
from struct import Struct

_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = c_long
_prctl = _libc.prctl
_prctl.argtypes = [c_int, c_ulong, c_ulong, c_ulong, c_ulong]
# A function object of its own, for the one option whose argument is a text.
_prctl_text = _libc["prctl"]
_prctl_text.argtypes = [c_int, c_char_p, c_ulong, c_ulong, c_ulong]
_mount = _libc.mount
_mount.argtypes = [c_char_p, c_char_p, c_char_p, c_ulong, c_char_p]

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x20000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
CLONE_PIDFD, CLONE_INTO_CGROUP = 0x1000, 0x200000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 0x1000, 0x4000, 1 << 18, 1 << 19
ATTR_RDONLY, ATTR_NOSUID = 1, 2  # mount_setattr(2) numbers them as the flags above

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_PTRACER = 15, 36, 0x59616D61
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAP_SETGID, CAP_SETUID = 6, 7
ANY_TRACER = (1 << 64) - 1
SIGCHLD = 17

# The same on every architecture that has them: all came after the tables were unified.
_NR_OPEN_TREE, _NR_MOVE_MOUNT, _NR_CLONE3 = 428, 429, 435
_NR_CLOSE_RANGE, _NR_MOUNT_SETATTR, _NR_PIDFD_SEND_SIGNAL = 436, 442, 424
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE, _AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x8000, 0x100
_OPEN_TREE_CLONE = 1


class _CloneArgs(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size"),
            *("tls", "set_tid", "set_tid_size", "cgroup"),
        )
    ]


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("set", "clear", "propagation", "userns")]


# Made here: each array type and each look-up in the library costs an init what a system call does.
_capset, _sigprocmask, _signalfd = _libc.capset, _libc.sigprocmask, _libc.signalfd
_CHILD_SIGNAL = bytes(c_ulong(1 << (SIGCHLD - 1))).ljust(128, b"\0")  # sigset_t has 1,024 bits


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(number: int, *args: object) -> int:
    return _checked(_syscall(c_long(number), *args))


def clone3(flags: int, cgroup_fd: int = -1) -> tuple[int, int]:
    """Fork into new namespaces: ``(pid, pidfd)`` for the parent, ``(0, -1)`` for the child.

    Only for a process with one thread. Nothing of ``os.fork`` runs: no hooks, no reseeding.
    """
    pidfd = c_int(-1)
    args = _CloneArgs(flags=flags | CLONE_PIDFD, pidfd=addressof(pidfd), exit_signal=SIGCHLD)
    if cgroup_fd >= 0:
        args.flags |= CLONE_INTO_CGROUP
        args.cgroup = cgroup_fd
    pid = _call(_NR_CLONE3, byref(args), c_ulong(sizeof(args)))
    return pid, pidfd.value if pid else -1


def write_maps(pid: int, uid: int, gid: int) -> None:
    """Map one id to itself in the user namespace of the child ``pid``. Never for uid 0: a mapped
    root could uncover what a mount hides."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def map_self(proc: int, uid: int, gid: int) -> None:
    """Map the caller's one id to itself in its own new user namespace, as anyone may.

    ``proc`` is a directory descriptor of a procfs that shows the caller, whose parent's user
    namespace `write_maps` set up.
    """
    # No setgroups: it is denied for ever below a namespace where it is.
    for name, text in (
        (b"self/uid_map", b"%d %d 1" % (uid, uid)),
        (b"self/gid_map", b"%d %d 1" % (gid, gid)),
    ):
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, text)
        finally:
            os.close(fd)


def enter_namespace(fd: int, kind: int) -> None:
    """setns(2): join the namespace that ``fd`` names, which is of ``kind`` (CLONE_NEW...)."""
    _checked(_libc.setns(fd, kind))


def new_namespace(kind: int) -> None:
    """unshare(2): a fresh namespace of ``kind`` (CLONE_NEW...) for the caller alone."""
    _checked(_libc.unshare(kind))


def prctl(option: int, value: int = 0) -> None:
    _checked(_prctl(option, value, 0, 0, 0))


def set_name(name: bytes) -> None:
    """What ps and top call this process; at most 15 bytes."""
    _checked(_prctl_text(PR_SET_NAME, name, 0, 0, 0))


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, data: bytes) -> None:
    _checked(_mount(source, target, kind, flags, data))


def open_tree(path: bytes, *, follow: bool) -> int:
    """A detached, recursive copy of the mounts at ``path``, as a descriptor."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    if not follow:
        flags |= _AT_SYMLINK_NOFOLLOW
    return _call(_NR_OPEN_TREE, c_int(_AT_FDCWD), c_char_p(path), c_ulong(flags))


def move_mount(tree: int, target: bytes) -> None:
    """Attach what `open_tree` detached."""
    empty_source = 4  # MOVE_MOUNT_F_EMPTY_PATH
    _call(
        _NR_MOVE_MOUNT,
        c_int(tree),
        c_char_p(b""),
        c_int(_AT_FDCWD),
        c_char_p(target),
        c_ulong(empty_source),
    )


def set_mount_attributes(attributes: int, *, tree: int = _AT_FDCWD, path: bytes = b"") -> None:
    """Set mount flags: on all of ``tree``, or on the one mount at ``path``.

    A remount cannot do this in a user namespace: it must repeat the flags that are locked there,
    and leaves the mounts below writable.
    """
    attr = _MountAttr(set=attributes)
    flags = 0 if path else _AT_EMPTY_PATH | _AT_RECURSIVE
    _call(
        _NR_MOUNT_SETATTR,
        c_int(tree),
        c_char_p(path),
        c_ulong(flags),
        byref(attr),
        c_ulong(sizeof(attr)),
    )


def pivot_here() -> None:
    """Make the current directory the root and let go of the old one, all its mounts included."""
    _checked(_libc.pivot_root(b".", b"."))
    detach = 2  # MNT_DETACH: the old root sits under the new one until nothing uses it
    _checked(_libc.umount2(b".", detach))


def set_hostname(name: bytes) -> None:
    _checked(_libc.sethostname(name, c_ulong(len(name))))


def send_signal(pidfd: int, number: int) -> None:
    """As ``signal.pidfd_send_signal``, whose module is not loaded here."""
    _call(_NR_PIDFD_SEND_SIGNAL, c_int(pidfd), c_int(number), None, c_ulong(0))


def keep_fds(keep: list[int]) -> None:
    """Close every descriptor above 2 that is not in ``keep``."""
    low = 3
    for fd in [*sorted(keep), 1 << 20]:
        if fd > low:
            _call(_NR_CLOSE_RANGE, c_ulong(low), c_ulong(fd - 1), c_ulong(0))
        low = max(low, fd + 1)


def limit_capabilities(keep: tuple[int, ...] = ()) -> None:
    """Drop every capability but ``keep``: permitted, effective, inheritable and ambient."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    bits = 0
    for capability in keep:
        bits |= 1 << capability
    version_3 = 0x20080522
    data = Struct("=6I").pack(bits, bits, 0, 0, 0, 0)  # effective, permitted, inheritable; twice
    _checked(_capset(Struct("=2I").pack(version_3, 0), data))


def drop_bounding_set() -> None:
    """After this no exec can gain a capability. Needs CAP_SETPCAP, so before the others go."""
    for capability in range(64):
        if _prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                return  # past the last one that this kernel knows
            _checked(-1)


def default_signals(numbers: range) -> None:
    """SIG_DFL for each of ``numbers`` that can have it."""
    for number in numbers:
        _libc.signal(number, None)


def block_child_signal() -> int:
    """Block SIGCHLD and return a non-blocking descriptor that is readable when one is pending.

    Blocked signals are queued even for PID 1, which otherwise loses every signal at SIG_DFL.
    """
    _checked(_sigprocmask(0, _CHILD_SIGNAL, None))  # SIG_BLOCK
    return _checked(_signalfd(-1, _CHILD_SIGNAL, os.O_CLOEXEC | os.O_NONBLOCK))


def loopback_up() -> None:
    """Bring ``lo`` up in the current network namespace."""
    request = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + b"\x01\0", 40)  # IFF_UP
    inet, datagram, siocsifflags = 2, 2 | os.O_CLOEXEC, 0x8914
    fd = _checked(_libc.socket(inet, datagram, 0))
    try:
        _checked(_libc.ioctl(fd, c_ulong(siocsifflags), request))
    finally:
        os.close(fd)
