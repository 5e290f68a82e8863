"""The system call filter: what each call of both architectures is answered, in an interpreter."""

from __future__ import annotations

import ctypes
import errno
import itertools
import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import confine, syscalls
from sandbox import filter as calls
from sandbox.filter import Policy
from sandbox.spec import LAYERS, Spec
from tests.sandbox import bpfvm


def words(text: str) -> list[str]:
    return text.split()


INTERNET = (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
SPECS = {
    "none": (Spec(), True),
    "host": (Spec(network="host"), True),
    "none, unix": (Spec(unix=("/run/x",)), True),
    "host, unix": (Spec(network="host", unix=("/run/x",)), True),
    "no namespaces": (Spec(), False),
    "no namespaces, host": (Spec(network="host"), False),
}
POLICIES = {name: confine.policy(spec, own=own) for name, (spec, own) in SPECS.items()}
MACHINES = list(syscalls.ARCHITECTURES)
HEADERS = {
    "x86_64": [
        Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        Path("/usr/include/asm/unistd_64.h"),
    ],
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
}

# Said here once more, on purpose, so that a slip in the filter's own table is seen.
DENIED = {
    errno.EPERM: words("""
        mount umount2 pivot_root chroot open_tree open_tree_attr move_mount mount_setattr fsopen
        fsconfig fsmount fspick setns ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd
        process_madvise process_mrelease init_module finit_module delete_module create_module
        get_kernel_syms query_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl
        quotactl_fd syslog nfsservctl vhangup iopl ioperm bpf perf_event_open lookup_dcookie
        settimeofday clock_settime clock_adjtime adjtimex name_to_handle_at open_by_handle_at
        fanotify_init add_key request_key keyctl userfaultfd modify_ldt remap_file_pages uselib
    """),
    errno.ENOSYS: words("""
        clone3 io_uring_setup io_uring_enter io_uring_register memfd_secret statmount listmount
        listns
    """),
}
BY_ARGUMENT = words("""
    clone unshare personality ioctl socket socketpair prlimit64 setpriority ioprio_set
    sched_setaffinity sched_setscheduler sched_setparam sched_setattr migrate_pages move_pages
""")
# What init still does behind the filter, and what every runtime starts with.
NEEDED = words("""
    read write close openat fstat mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
    pread64 execve exit exit_group wait4 waitid kill tgkill fcntl getcwd chdir getpid gettid getuid
    futex set_tid_address set_robust_list rseq getrandom prctl recvmsg sendmsg sendto recvfrom
    ppoll dup3 pipe2 signalfd4 close_range pidfd_open pidfd_send_signal setsid umask clock_gettime
    clock_nanosleep epoll_create1 epoll_ctl epoll_pwait eventfd2 timerfd_create memfd_create
    landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp statx renameat2
""")


def compiled(machine: str, policy: Policy) -> list[bpfvm.Instruction]:
    return bpfvm.check(calls.program(syscalls.ARCHITECTURES[machine], policy))


def answer(
    machine: str, policy: Policy, name: str, *arguments: int, headers: dict[str, int] | None = None
) -> int:
    """0 when the call goes through, its errno otherwise."""
    architecture = syscalls.ARCHITECTURES[machine]
    number = (headers or architecture.numbers)[name]
    action, _ = bpfvm.run(compiled(machine, policy), architecture.audit, number, arguments)
    return bpfvm.verdict(action)


def header_numbers(machine: str) -> dict[str, int]:
    """Names and numbers as the kernel's installed headers have them."""
    for path in HEADERS[machine]:
        if path.exists():
            break
    else:
        pytest.skip(f"no kernel headers here that number the calls of {machine}")
    text = path.read_text()
    found = re.findall(r"^#\s*define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    numbers = {name: int(number) for name, number in found if name != "syscalls"}
    assert len(numbers) > 250
    return numbers


# --- the tables


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    theirs = header_numbers(machine)
    newest = max(number for number in theirs.values() if number < 1024)
    for name, number in syscalls.ARCHITECTURES[machine].numbers.items():
        assert theirs.get(name) == (number if number <= newest else None), name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_libseccomp(machine: str) -> None:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed")
    architecture = syscalls.ARCHITECTURES[machine]
    resolve = library.seccomp_syscall_resolve_name_arch
    theirs = {
        name: resolve(ctypes.c_uint32(architecture.audit), name.encode())
        for name in (*calls.REFUSED, *calls.JUDGED)
    }
    found = {name: number for name, number in theirs.items() if number >= 0}
    assert len(found) > 60
    assert found.items() <= architecture.numbers.items()


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_that_the_headers_have_is_known_and_no_other_is(machine: str) -> None:
    known = {
        number
        for first, last in syscalls.ARCHITECTURES[machine].known
        for number in range(first, last + 1)
    }
    theirs = header_numbers(machine)
    if machine == "aarch64":
        # Times of 64 bits for machines of 32, and the room for calls of a single architecture.
        not_here = {*range(403, 424), 244}
        theirs = {name: number for name, number in theirs.items() if number not in not_here}
    assert set(theirs.values()) - set(range(syscalls.LAST + 1, 1024)) <= known
    newest = max(theirs.values())
    gaps = {number for number in known if number <= newest} - set(theirs.values())
    # The kernel's returns from uprobes, which the headers got late.
    assert gaps <= ({335, 336} if machine == "x86_64" else set())


@pytest.mark.parametrize("machine", MACHINES)
def test_both_machines_refuse_the_same_calls_by_name(machine: str) -> None:
    numbers = syscalls.ARCHITECTURES[machine].numbers
    of_x86 = words("uselib modify_ldt iopl ioperm create_module get_kernel_syms query_module")
    absent = set(calls.REFUSED) - set(numbers)
    assert absent == (set(of_x86) if machine == "aarch64" else set())
    assert set(numbers) == (set(calls.REFUSED) - absent) | set(calls.JUDGED)
    assert set(calls.JUDGED) == set(BY_ARGUMENT)
    assert len(set(numbers.values())) == len(numbers)


# --- every number


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_allowed_or_fails_as_listed(machine: str, policy: Policy) -> None:
    architecture = syscalls.ARCHITECTURES[machine]
    code = compiled(machine, policy)
    expected = {
        architecture.numbers[name]: number
        for number, names in DENIED.items()
        for name in names
        if name in architecture.numbers
    }
    assert len(expected) == len(architecture.numbers) - len(BY_ARGUMENT)
    by_argument = {architecture.numbers[name] for name in BY_ARGUMENT}
    known = {n for first, last in architecture.known for n in range(first, last + 1)}
    beyond = [*range(syscalls.LAST + 1, 1100), 4096, 2**31 - 1, 2**31, 2**32 - 1]
    for number in (*range(syscalls.LAST + 1), *beyond):
        if number not in by_argument:
            found = bpfvm.verdict(bpfvm.run(code, architecture.audit, number)[0])
            assert found == expected.get(number, 0 if number in known else errno.ENOSYS), number


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("machine", MACHINES)
def test_what_init_and_every_runtime_need_goes_through(machine: str, policy: Policy) -> None:
    numbers = header_numbers(machine)
    for name in NEEDED:
        assert answer(machine, policy, name, headers=numbers) == 0, name


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architectures_call_ends_the_process(machine: str) -> None:
    i386, arm, x86_64, aarch64 = 0x4000_0003, 0x4000_0028, 0xC000_003E, 0xC000_00B7
    code = compiled(machine, Policy())
    own = syscalls.ARCHITECTURES[machine].audit
    assert own in (x86_64, aarch64)
    for audit in {i386, arm, x86_64, aarch64, 0, 0xC000_0016} - {own}:
        for number in (0, 1, 39, 102, 172, syscalls.LAST):
            assert bpfvm.run(code, audit, number)[0] == bpfvm.KILL


def test_a_call_with_the_x32_bit_is_not_known() -> None:
    code = compiled("x86_64", POLICIES["host, unix"])
    for number in (0, 1, 39, 59, 101, *range(512, 548)):
        action, _ = bpfvm.run(code, syscalls.X86_64.audit, 0x4000_0000 | number)
        assert bpfvm.verdict(action) == errno.ENOSYS


# --- arguments

HIGH = 0x1_0000_0000
MINUS = 2**64 - 1
NEW = {
    "NS": 0x2_0000,
    "CGROUP": 0x200_0000,
    "UTS": 0x400_0000,
    "IPC": 0x800_0000,
    "USER": 0x1000_0000,
    "PID": 0x2000_0000,
    "NET": 0x4000_0000,
}
THREAD = 0x3D_0F00  # what pthread_create passes
VFORK = 0x4111  # CLONE_VM | CLONE_VFORK | SIGCHLD: posix_spawn


@pytest.mark.parametrize("machine", MACHINES)
def test_clone_makes_threads_and_children_but_no_namespace(machine: str) -> None:
    for flags in (17, THREAD, VFORK, 0, 0x80_0000, 0x8000_0000, HIGH | 17):
        assert answer(machine, Policy(), "clone", flags) == 0, hex(flags)
    for flag in (*NEW.values(), sum(NEW.values())):
        for with_these in (0, 17, THREAD, HIGH, MINUS ^ 0xFFFF_FFFF):
            assert answer(machine, Policy(), "clone", flag | with_these) == errno.EPERM
            assert answer(machine, Policy(), "unshare", flag | with_these) == errno.EPERM
    assert answer(machine, Policy(), "unshare", 0x80) == errno.EPERM  # NEWTIME
    for flags in (0x200, 0x400, 0x600, 0x4_0000):  # FS, FILES, SYSVSEM
        assert answer(machine, Policy(), "unshare", flags) == 0


@pytest.mark.parametrize("machine", MACHINES)
def test_personality_asks_and_takes_on_the_harmless(machine: str) -> None:
    for persona in (0xFFFF_FFFF, MINUS, 0, 8, 0x2_0000, 0x2_0008, 0x4_0000, 0x4_0008):
        assert answer(machine, Policy(), "personality", persona) == 0, hex(persona)
    read_implies_exec, mmap_page_zero, compat_layout, bsd = 0x40_0000, 0x10_0000, 0x20_0000, 6
    for persona in (read_implies_exec, mmap_page_zero, compat_layout, bsd, 0xFFFF_FFFE):
        for more in (0, 8, 0x4_0000, HIGH):
            assert answer(machine, Policy(), "personality", persona | more) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_input_cannot_be_pushed_into_a_terminal_whatever_the_high_half_says(machine: str) -> None:
    for request in (0x5412, 0x541C):
        for above in (0, HIGH, MINUS << 32):
            assert answer(machine, Policy(), "ioctl", 0, request | above) == errno.EPERM
    for request in (0x5401, 0x5411, 0x5413, 0x541B, 0x541D, 0x8933):
        assert answer(machine, Policy(), "ioctl", 0x5412, request, 0x541C) == 0


def expected_socket(policy: str, family: int, protocol: int) -> int:
    """The rule in words: what exists in a sandbox's own network or in the host's."""
    spec, own = SPECS[policy]
    if family == socket.AF_UNIX:
        return 0 if spec.unix else errno.EAFNOSUPPORT
    if family not in INTERNET or not (own or spec.network == "host"):
        return errno.EAFNOSUPPORT
    if family == socket.AF_NETLINK:
        return 0 if protocol == 0 else errno.EPROTONOSUPPORT
    return 0 if protocol < 256 or spec.network == "host" else errno.EPROTONOSUPPORT


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("machine", MACHINES)
def test_socket_makes_what_network_and_unix_allow_and_nothing_else(machine: str, name: str) -> None:
    architecture = syscalls.ARCHITECTURES[machine]
    code, number = compiled(machine, POLICIES[name]), architecture.numbers["socket"]
    smc, mptcp = 256, 262
    for family in range(64):
        for kind, protocol in itertools.product((1, 2, 3, 5), (0, 1, 6, 17, 255, smc, mptcp)):
            for above in (0, HIGH):  # the kernel takes an int
                arguments = (family | above, kind | above, protocol | above)
                action, _ = bpfvm.run(code, architecture.audit, number, arguments)
                wanted = expected_socket(name, family, protocol)
                assert bpfvm.verdict(action) == wanted, (family, kind, protocol)


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("machine", MACHINES)
def test_socketpair_makes_connected_pairs_only(machine: str, name: str) -> None:
    flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    for kind in range(16):
        connected = kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
        wanted = 0 if connected or SPECS[name][0].unix else errno.ESOCKTNOSUPPORT
        for more in (0, flags, HIGH, MINUS << 4 & MINUS):
            got = answer(machine, POLICIES[name], "socketpair", socket.AF_UNIX, kind | more)
            assert got == wanted, (kind, more)
    for family in (0, 2, 10, 16, 30, 40):
        got = answer(machine, POLICIES[name], "socketpair", family, socket.SOCK_STREAM)
        assert got == errno.EAFNOSUPPORT


BY_PID = words("sched_setaffinity sched_setscheduler sched_setparam sched_setattr")


@pytest.mark.parametrize("machine", MACHINES)
def test_init_is_left_alone_where_it_is_the_only_stranger(machine: str) -> None:
    policy = POLICIES["none"]
    for name in (*BY_PID, "migrate_pages", "move_pages"):
        for pid, wanted in ((0, 0), (1, errno.EPERM), (2, 0), (HIGH | 1, errno.EPERM), (77, 0)):
            assert answer(machine, policy, name, pid) == wanted, (name, pid)
    for name, process, group, user in (("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)):
        for which, who, wanted in (
            *((process, 0, 0), (process, 1, errno.EPERM), (process, 9, 0)),
            *((group, 0, 0), (group, 1, errno.EPERM), (group, HIGH | 1, errno.EPERM)),
            *((user, 0, errno.EPERM), (user, 65534, errno.EPERM), (7, 0, errno.EPERM)),
        ):
            assert answer(machine, policy, name, which, who, 5) == wanted, (name, which, who)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_pid_namespace_every_other_process_is_left_alone(machine: str) -> None:
    policy = POLICIES["no namespaces"]
    for name in (*BY_PID, "migrate_pages", "move_pages"):
        for pid in (1, 2, 77, MINUS, 2**31):
            assert answer(machine, policy, name, pid) == errno.EPERM
        assert answer(machine, policy, name, 0) == 0
    for name, process, group in (("setpriority", 0, 1), ("ioprio_set", 1, 2)):
        for which in (process, group):
            assert answer(machine, policy, name, which, 0) == 0
            assert answer(machine, policy, name, which, 1) == errno.EPERM
            assert answer(machine, policy, name, which, 4711) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["none", "no namespaces"])
def test_limits_of_others_can_be_read_but_not_set(machine: str, name: str) -> None:
    stranger = 1 if name == "none" else 4711
    for new in (1, 0x7FFF_0000_0000, HIGH, 0xFFFF_FFFF, MINUS):  # either half alone is a pointer
        assert answer(machine, POLICIES[name], "prlimit64", stranger, 7, new) == errno.EPERM
        assert answer(machine, POLICIES[name], "prlimit64", 0, 7, new) == 0
    assert answer(machine, POLICIES[name], "prlimit64", stranger, 7, 0, 0x7FFF_0000_0000) == 0


@given(
    st.sampled_from(MACHINES),
    st.sampled_from(list(POLICIES)),
    st.integers(0, 2**32 - 1) | st.integers(0, 600),
    st.tuples(*[st.integers(0, 2**64 - 1) | st.integers(0, 300)] * 6),
)
def test_whatever_is_called_gets_an_answer(
    machine: str, name: str, number: int, arguments: tuple[int, ...]
) -> None:
    audit = syscalls.ARCHITECTURES[machine].audit
    action, taken = bpfvm.run(_PROGRAMS[machine, name], audit, number, arguments)
    assert bpfvm.verdict(action) in {
        *(0, errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT),
        *(errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT),
    }
    assert taken <= 24


_PROGRAMS = {
    (machine, name): compiled(machine, policy)
    for machine in MACHINES
    for name, policy in POLICIES.items()
}


@pytest.mark.parametrize("machine", MACHINES)
def test_programs_are_short_and_a_plain_call_is_decided_in_a_few_steps(machine: str) -> None:
    numbers = header_numbers(machine)
    for name in POLICIES:
        code = _PROGRAMS[machine, name]
        assert len(code) < 320
        for call in NEEDED:
            audit = syscalls.ARCHITECTURES[machine].audit
            assert bpfvm.run(code, audit, numbers[call])[1] <= 12, call


def test_the_page_of_the_layers_names_each_of_them_and_each_call() -> None:
    page = (Path(__file__).parents[2] / "docs" / "layers.md").read_text()
    assert [name for name in LAYERS if f"`{name}`" not in page] == []
    for name, (number, _) in calls.REFUSED.items():
        rows = [row for row in page.splitlines() if f"`{name}`" in row]
        assert [row.startswith(f"| `{errno.errorcode[number]}`") for row in rows] == [True], name
    assert [name for name in calls.JUDGED if f"`{name}`" not in page] == []
