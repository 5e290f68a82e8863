"""The system call filter of every sandbox: what a call is answered, as a seccomp program. Pure.

A deny list makes the kernel's surface smaller; it is no boundary by itself. Everything that came
after this was written is refused, so a newer kernel does not widen it.

EPERM says that a thing is forbidden. ENOSYS is for calls that programs try first and do without
where an older kernel lacks them.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from errno import (
    EAFNOSUPPORT,
    ENOSYS,
    EPERM,
    EPROTONOSUPPORT,
    ESOCKTNOSUPPORT,
)

from frozen import frozen
from sandbox import bpf
from sandbox.bpf import ALLOW, KILL, Block, any_bit, equal, fails, high, low, masked, one_of
from sandbox.syscalls import LAST, Architecture

_WHY: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    (
        "mounts and roots are made before a handler starts, and never after",
        EPERM,
        (
            *("mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr"),
            *("move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick"),
        ),
    ),
    ("a handler stays in the namespaces that it was given", EPERM, ("setns",)),
    (
        "a process has no hands in another's memory or descriptors",
        EPERM,
        (
            *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"),
            *("process_madvise", "process_mrelease"),
        ),
    ),
    (
        "the kernel and the machine are the administrator's",
        EPERM,
        (
            *("init_module", "finit_module", "delete_module", "create_module"),
            *("get_kernel_syms", "query_module", "kexec_load", "kexec_file_load", "reboot"),
            *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "nfsservctl"),
            *("vhangup", "iopl", "ioperm", "bpf", "perf_event_open", "lookup_dcookie"),
        ),
    ),
    (
        "the clocks are the host's",
        EPERM,
        ("settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    ),
    (
        "files are reached by a path in the sandbox, not by handle or by watching a file system",
        EPERM,
        ("name_to_handle_at", "open_by_handle_at", "fanotify_init"),
    ),
    (
        "keyrings are shared with others of the same uid",
        EPERM,
        ("add_key", "request_key", "keyctl"),
    ),
    (
        "a kernel interface that attacks have used and handlers do not need",
        EPERM,
        ("userfaultfd", "modify_ldt", "remap_file_pages", "uselib"),
    ),
    (
        "a call that programs do without where an older kernel lacks it",
        ENOSYS,
        (
            # clone3's flags are in memory that a filter cannot read, and glibc then uses clone.
            *("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"),
            *("memfd_secret", "statmount", "listmount", "listns"),
        ),
    ),
)

REFUSED: Mapping[str, tuple[int, str]] = {
    name: (number, why) for why, number, names in _WHY for name in names
}
"""Calls that fail whatever their arguments: the errno, and why in words for a person."""

JUDGED: Mapping[str, str] = {
    "clone": "new namespaces cannot be made in a sandbox",
    "unshare": "new namespaces cannot be made in a sandbox",
    "personality": "only harmless personalities can be taken on",
    "ioctl": "no input is put into a terminal",
    "socket": "only the socket families that the handler's network and unix allow",
    "socketpair": "only connected pairs: others can send to any Unix socket in sight",
    **dict.fromkeys(
        (
            *("prlimit64", "setpriority", "ioprio_set", "sched_setaffinity"),
            *("sched_setscheduler", "sched_setparam", "sched_setattr"),
            *("migrate_pages", "move_pages"),
        ),
        "processes outside the handler's own are left alone",
    ),
}
"""Calls whose arguments decide, and what is refused of them."""

_NEW_NAMESPACE = 0x7E02_0000  # CLONE_NEW*: CGROUP, IPC, NET, NS, PID, USER, UTS
_NEW_TIME = 0x80  # for unshare; clone reads these bits as a signal
# PER_LINUX32 (what uname says), UNAME26, ADDR_NO_RANDOMIZE (thread sanitizers and Lisps start
# themselves again with it): they weaken nobody but the caller. The others bring back executable
# data and a mapped page zero.
_PERSONALITIES = 0x0008 | 0x0002_0000 | 0x0004_0000
_PERSONALITY_QUERY = 0xFFFF_FFFF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32_BIT = 0x4000_0000
_PROTOCOLS_END = 256  # IP's own protocols are bytes; above are the kernel's: SMC 256, MPTCP 262
_NETLINK_ROUTE = 0
_SOCKET_TYPE = 0xF
_INIT = 1


@frozen
class Policy:
    """What of the filter depends on the handler."""

    families: tuple[int, ...] = ()
    """What socket(2) may make, of AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK."""
    any_protocol: bool = False
    """Whether AF_INET and AF_INET6 may have the protocols above 255, MPTCP and SMC."""
    own_pids: bool = True
    """Whether the handler sees no process but its own and, as PID 1, its init."""


def program(architecture: Architecture, policy: Policy) -> bytes:
    """The program, as seccomp(2) takes it.

    A call of another architecture (a 32-bit program) ends the process with SIGSYS: the numbers
    mean something else there, and with every call failing it could not even exit.
    """
    body = bpf.load(bpf.NUMBER_AT, bpf.by_range(_ranges(architecture, policy)))
    return bpf.assemble(bpf.load(bpf.ARCH_AT, equal(architecture.audit, body, KILL)))


def _ranges(architecture: Architecture, policy: Policy) -> list[tuple[int, Block]]:
    """Each number at which the answer changes, and the answer from there on."""
    rules: dict[int, Block] = {}
    for first, last in architecture.known:
        rules |= dict.fromkeys(range(first, last + 1), ALLOW)
    for name, (number, _) in REFUSED.items():
        if name in architecture.numbers:
            rules[architecture.numbers[name]] = fails(number)
    for name, block in _judged(policy).items():
        rules[architecture.numbers[name]] = block
    unknown = fails(ENOSYS)
    starts = [(0, rules.get(0, unknown))]
    for number in range(1, LAST + 2):  # past the end, where x32 is as well
        block = rules.get(number, unknown)
        if block != starts[-1][1]:
            starts.append((number, block))
    return starts


def _judged(policy: Policy) -> dict[str, Block]:
    forbidden = fails(EPERM)
    namespaces = any_bit(_NEW_NAMESPACE, forbidden, ALLOW)
    personality = any_bit(0xFFFF_FFFF & ~_PERSONALITIES, forbidden, ALLOW)
    # Where a handler sees other processes of its uid, the only pid that is surely its own is 0.
    # Among its own it may name all but init, on whose promptness its end depends.
    own = equal(_INIT, forbidden, ALLOW) if policy.own_pids else equal(0, ALLOW, forbidden)
    new_limit = low(2, equal(0, high(2, equal(0, ALLOW, low(0, own))), low(0, own)))
    first_is_pid = ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
    return {
        "clone": low(0, namespaces),
        "unshare": low(0, any_bit(_NEW_NAMESPACE | _NEW_TIME, forbidden, ALLOW)),
        "personality": low(0, equal(_PERSONALITY_QUERY, ALLOW, personality)),
        "ioctl": low(1, one_of((_TIOCSTI, _TIOCLINUX), forbidden, ALLOW)),
        "socket": low(0, _families(policy)),
        "socketpair": low(0, equal(socket.AF_UNIX, low(1, _pair(policy)), fails(EAFNOSUPPORT))),
        "prlimit64": new_limit,
        **dict.fromkeys((*first_is_pid, "migrate_pages", "move_pages"), low(0, own)),
        # By process or by process group; by user it would reach init too.
        "setpriority": low(0, one_of((0, 1), low(1, own), forbidden)),
        "ioprio_set": low(0, one_of((1, 2), low(1, own), forbidden)),
    }


def _families(policy: Policy) -> Block:
    protocol = bpf.at_least(_PROTOCOLS_END, fails(EPROTONOSUPPORT), ALLOW)
    internet = ALLOW if policy.any_protocol else low(2, protocol)
    answers = {
        int(socket.AF_UNIX): ALLOW,
        int(socket.AF_INET): internet,
        int(socket.AF_INET6): internet,
        int(socket.AF_NETLINK): low(2, equal(_NETLINK_ROUTE, ALLOW, fails(EPROTONOSUPPORT))),
    }
    block = fails(EAFNOSUPPORT)
    for family in policy.families:
        block = equal(family, answers[family], block)
    return block


def _pair(policy: Policy) -> Block:
    """A datagram pair is connected to each other only until one end connects or sends elsewhere;
    the kernel takes SOCK_RAW for one too. Where Unix sockets are allowed it adds nothing."""
    if socket.AF_UNIX in policy.families:
        return ALLOW
    types = (int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET))
    return masked(_SOCKET_TYPE, one_of(types, ALLOW, fails(ESOCKTNOSUPPORT)))
