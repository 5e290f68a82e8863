"""The numbers of the system calls that the filter has a word on, for each architecture.

Pure data. The calls from 424 on have one number everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from frozen import frozen


@frozen
class Architecture:
    """What seccomp needs to know of a machine."""

    machine: str
    """As uname(2) says it."""
    audit: int
    """AUDIT_ARCH_*: what a filter finds in seccomp_data.arch."""
    known: tuple[tuple[int, int], ...]
    """The ranges of numbers (both ends included) that had a meaning when this was written."""
    numbers: Mapping[str, int] = attrs.field(repr=False)


LAST = 471
"""The highest number known: rseq_slice_yield, of Linux 7.0."""

_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "statmount": 457,
    "listmount": 458,
    "open_tree_attr": 467,
    "listns": 470,
}

X86_64 = Architecture(
    machine="x86_64",
    audit=0xC000_003E,
    # 335 and 336 are the kernel's own returns from uprobes.
    known=((0, 336), (424, LAST)),
    numbers={
        **_EVERYWHERE,
        "ioctl": 16,
        "socket": 41,
        "socketpair": 53,
        "clone": 56,
        "ptrace": 101,
        "syslog": 103,
        "uselib": 134,
        "personality": 135,
        "setpriority": 141,
        "sched_setparam": 142,
        "sched_setscheduler": 144,
        "vhangup": 153,
        "modify_ldt": 154,
        "pivot_root": 155,
        "adjtimex": 159,
        "chroot": 161,
        "acct": 163,
        "settimeofday": 164,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "iopl": 172,
        "ioperm": 173,
        "create_module": 174,
        "init_module": 175,
        "delete_module": 176,
        "get_kernel_syms": 177,
        "query_module": 178,
        "quotactl": 179,
        "nfsservctl": 180,
        "sched_setaffinity": 203,
        "lookup_dcookie": 212,
        "remap_file_pages": 216,
        "clock_settime": 227,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "ioprio_set": 251,
        "migrate_pages": 256,
        "unshare": 272,
        "move_pages": 279,
        "perf_event_open": 298,
        "fanotify_init": 300,
        "prlimit64": 302,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "clock_adjtime": 305,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "finit_module": 313,
        "sched_setattr": 314,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
    },
)

AARCH64 = Architecture(
    machine="aarch64",
    audit=0xC000_00B7,
    # 244 to 259 are for an architecture's own calls, which this one has none of.
    known=((0, 243), (260, 294), (424, LAST)),
    numbers={
        **_EVERYWHERE,
        "lookup_dcookie": 18,
        "ioctl": 29,
        "ioprio_set": 30,
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "nfsservctl": 42,
        "chroot": 51,
        "vhangup": 58,
        "quotactl": 60,
        "acct": 89,
        "personality": 92,
        "unshare": 97,
        "kexec_load": 104,
        "init_module": 105,
        "delete_module": 106,
        "clock_settime": 112,
        "syslog": 116,
        "ptrace": 117,
        "sched_setparam": 118,
        "sched_setscheduler": 119,
        "sched_setaffinity": 122,
        "setpriority": 140,
        "reboot": 142,
        "settimeofday": 170,
        "adjtimex": 171,
        "socket": 198,
        "socketpair": 199,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "clone": 220,
        "swapon": 224,
        "swapoff": 225,
        "remap_file_pages": 234,
        "migrate_pages": 238,
        "move_pages": 239,
        "perf_event_open": 241,
        "prlimit64": 261,
        "fanotify_init": 262,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "clock_adjtime": 266,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "finit_module": 273,
        "sched_setattr": 274,
        "bpf": 280,
        "userfaultfd": 282,
        "kexec_file_load": 294,
    },
)

ARCHITECTURES: Mapping[str, Architecture] = {one.machine: one for one in (X86_64, AARCH64)}
