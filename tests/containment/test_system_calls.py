"""The ways into the kernel that no handler needs are closed, those that programs need are open.

`programs/attempts.c` makes every attempt in a process of its own; the table says how it must end.
"""

from __future__ import annotations

import functools
import platform
import shutil
import socket
from pathlib import Path
from typing import Final

import pytest
import trio

from sandbox.spec import Ended
from tests.containment.support import Programs, as_handler, outcomes
from tests.sandbox.support import launched, run_to_end

OPEN: Final = "open"

# Name: how it ends at level strict with network "none". Where a call takes a target, that is PID 1
# of the sandbox, its init.
SEALED: dict[str, str] = {
    # Namespaces and mounts: a handler that could make a user namespace would have every capability
    # in it, and with them all of the kernel's code that trusts those.
    "unshare_user": "EPERM",
    "unshare_mount": "EPERM",
    "unshare_network": "EPERM",
    "unshare_pid": "EPERM",
    "unshare_cgroup": "EPERM",
    "unshare_time": "EPERM",
    "clone_user": "EPERM",
    "clone3_user": "ENOSYS",
    # Its flags lie behind a pointer, where no filter sees them. At ENOSYS libraries use clone(2).
    "clone3_plain": "ENOSYS",
    "setns_own": "EPERM",
    "setns_init": "EPERM",
    "mount_tmpfs": "EPERM",
    "mount_bind": "EPERM",
    "mount_proc": "EPERM",
    "remount": "EPERM",
    "propagation": "EPERM",
    "unmount": "EPERM",
    "open_tree_clone": "EPERM",
    "move_mount": "EPERM",
    "fsopen": "EPERM",
    "fspick": "EPERM",
    "mount_setattr": "EPERM",
    "open_tree_attr": "EPERM ENOSYS",
    "pivot_root": "EPERM",
    "change_root": "EPERM",
    "set_hostname": "EPERM",
    "set_domain": "EPERM",
    "device_node": "EPERM EACCES",
    # Ids and capabilities: uid 0 is not mapped, so that it cannot even be named.
    "become_root": "EINVAL EPERM",
    "become_roots_group": "EINVAL EPERM",
    "become_another": "EINVAL EPERM",
    "set_groups": "EPERM",
    "raise_capability": "EPERM",
    "drop_no_new_privs": "EINVAL",
    "ambient_capability": "EPERM",
    # Other processes.
    "trace_init": "EPERM",
    "trace_me": "EPERM",
    "read_memory_of_init": "EPERM",
    "write_memory_of_init": "EPERM",
    "compare_with_init": "EPERM",
    "take_fd_of_init": "EPERM",
    "advise_init": "EPERM",
    "release_init": "EPERM",
    "limit_init": "EPERM",
    "raise_own_limit": "EPERM",
    "nice_init": "EPERM",
    "nice_user": "EPERM",
    "schedule_init": "EPERM",
    "schedule_attributes_of_init": "EPERM",
    "parameters_of_init": "EPERM",
    "pin_init": "EPERM",
    "io_priority_of_init": "EPERM",
    "io_priority_of_user": "EPERM",
    "migrate_init": "EPERM",
    "move_pages_of_init": "EPERM",
    "become_realtime": "EPERM",
    # Parts of the kernel that no handler needs.
    "io_uring_setup": "ENOSYS",
    "io_uring_enter": "ENOSYS",
    "io_uring_register": "ENOSYS",
    "bpf_map": "EPERM",
    "perf_event": "EPERM",
    "userfaultfd": "EPERM",
    "session_keyring": "EPERM ENOSYS",
    "read_session_keyring": "EPERM ENOSYS",
    "user_keyring": "EPERM ENOSYS",
    "add_key": "EPERM ENOSYS",
    "request_key": "EPERM ENOSYS",
    "load_module": "EPERM",
    "unload_module": "EPERM",
    "kexec": "EPERM",
    "reboot": "EPERM",
    "swap_on": "EPERM",
    "swap_off": "EPERM",
    "set_clock": "EPERM",
    "set_time_of_day": "EPERM",
    "adjust_clock": "EPERM",
    "read_clock_state": "EPERM",
    "kernel_log": "EPERM",
    "accounting": "EPERM",
    "quota": "EPERM",
    "hang_up": "EPERM",
    "name_to_handle": "EPERM",
    "open_by_handle": "EPERM",
    "fanotify": "EPERM",
    "fanotify_unprivileged": "EPERM",
    "secret_memory": "EPERM ENOSYS",
    "mount_statistics": "EPERM ENOSYS",
    "list_mounts": "EPERM ENOSYS",
    "directory_cookie": "EPERM ENOSYS",
    "executable_reads": "EPERM",
    "remap": "EPERM ENOSYS",
    "type_into_terminal": "EPERM",
    # The kernel looks at the low half only, so must the filter.
    "type_into_terminal_high_bits": "EPERM",
    "console_selection": "EPERM",
    "own_terminal": "ENOENT",
    "new_terminal": "ENOENT",
    "x32_call": "ENOSYS",
    "i386_call": "SIGSYS",
    "io_ports": "EPERM ENOSYS",
    "io_level": "EPERM ENOSYS",
    "segment": "EPERM ENOSYS",
    # Sockets: nothing but IP and the route messages that name interfaces.
    "socket_unix_stream": "EAFNOSUPPORT",
    "socket_unix_datagram": "EAFNOSUPPORT",
    "socket_unix_packets": "EAFNOSUPPORT",
    "socket_multipath": "EPROTONOSUPPORT",
    "socket_multipath6": "EPROTONOSUPPORT",
    "socket_raw": "EPERM",
    "socket_packet": "EAFNOSUPPORT",
    "socket_vsock": "EAFNOSUPPORT",
    "socket_vsock_datagram": "EAFNOSUPPORT",
    "socket_algorithms": "EAFNOSUPPORT",
    "socket_key": "EAFNOSUPPORT",
    "socket_xdp": "EAFNOSUPPORT",
    "socket_tipc": "EAFNOSUPPORT",
    "socket_rds": "EAFNOSUPPORT",
    "socket_can": "EAFNOSUPPORT",
    "socket_bluetooth": "EAFNOSUPPORT",
    "socket_qualcomm": "EAFNOSUPPORT",
    "socket_nfc": "EAFNOSUPPORT",
    "socket_smc": "EAFNOSUPPORT",
    "netlink_diagnostics": "EAFNOSUPPORT EPROTONOSUPPORT",
    "netlink_filter": "EAFNOSUPPORT EPROTONOSUPPORT",
    "netlink_audit": "EAFNOSUPPORT EPROTONOSUPPORT",
    "netlink_kernel_events": "EAFNOSUPPORT EPROTONOSUPPORT",
    "netlink_generic": "EAFNOSUPPORT EPROTONOSUPPORT",
    "netlink_connector": "EAFNOSUPPORT EPROTONOSUPPORT",
    "netlink_crypto": "EAFNOSUPPORT EPROTONOSUPPORT",
    # A datagram end of a pair can be pointed at any socket file that is in sight.
    "pair_datagram": "EAFNOSUPPORT EPERM EPROTONOSUPPORT EOPNOTSUPP ESOCKTNOSUPPORT",
    "pair_datagram_flags": "EAFNOSUPPORT EPERM EPROTONOSUPPORT EOPNOTSUPP ESOCKTNOSUPPORT",
}
# What ordinary programs do all the time.
NEEDED: Final = (
    *("limit_myself", "nice_myself", "ask_personality", "no_randomization"),
    *("socket_tcp", "socket_tcp6", "socket_udp", "socket_route", "pair_stream", "pair_packets"),
)
# Rows of another processor are compiled out there.
X86: Final = {"x32_call", "i386_call", "io_ports", "io_level", "segment"}
# With network "host" a handler has all of IP, as any program of its user.
IP_ONLY_WHEN_NONE: Final = {"socket_multipath", "socket_multipath6"}
# With a declared Unix socket a handler may make such sockets, and so may a pair be datagrams.
UNIX_SOCKETS: Final = {
    *("socket_unix_stream", "socket_unix_datagram", "socket_unix_packets"),
    *("pair_datagram", "pair_datagram_flags"),
}
# A user of this host can do these without a sandbox, or with one that is a user namespace only: so
# the attempts are made right, and it is the sandbox that stops them.
PROVEN: Final = {
    *("unshare_user", "unshare_mount", "unshare_network", "unshare_pid", "unshare_cgroup"),
    *(
        "unshare_time",
        "clone_user",
        "clone3_user",
        "clone3_plain",
        "setns_own",
        "mount_tmpfs",
        "mount_bind",
    ),
    *("mount_proc", "remount", "propagation", "unmount", "open_tree_clone", "fsopen", "fspick"),
    *("mount_setattr", "change_root", "set_hostname", "set_domain", "become_another"),
    *("raise_capability", "ambient_capability", "trace_init", "trace_me", "take_fd_of_init"),
    *("limit_init", "nice_init", "nice_user", "schedule_init", "schedule_attributes_of_init"),
    *("parameters_of_init", "pin_init", "io_priority_of_init", "io_priority_of_user"),
    *("executable_reads", "socket_unix_stream", "socket_unix_datagram", "socket_unix_packets"),
    *("socket_raw", "socket_packet", "pair_datagram", "pair_datagram_flags", "netlink_audit"),
    *("netlink_kernel_events", "netlink_generic"),
}


@functools.cache
def inside(programs: Programs, **options: object) -> dict[str, str]:
    """Every attempt, in one sandbox."""

    async def all_of_them() -> dict[str, str]:
        async with launched() as launcher:
            spec = programs.spec(**options)
            end, out, err = await run_to_end(launcher, (programs.attempts, "all"), spec=spec)
            assert isinstance(end, Ended), end
            assert (end.how, end.status) == ("exited", 0), err
            return outcomes(out)

    return trio.run(all_of_them)


def skip_foreign(name: str) -> None:
    if name in X86 and platform.machine() != "x86_64":
        pytest.skip("a system call of another processor")


@pytest.mark.guarantee("S4", "S5")
@pytest.mark.parametrize("name", SEALED)
def test_the_way_is_closed(programs: Programs, name: str) -> None:
    skip_foreign(name)
    assert inside(programs)[name] in SEALED[name].split()


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("name", [name for name in SEALED if name not in IP_ONLY_WHEN_NONE])
def test_the_way_is_closed_with_the_hosts_network_too(programs: Programs, name: str) -> None:
    skip_foreign(name)
    assert inside(programs, network="host")[name] in SEALED[name].split()


@pytest.mark.parametrize("network", ["none", "host"])
@pytest.mark.parametrize("name", NEEDED)
def test_what_programs_need_is_open(programs: Programs, name: str, network: str) -> None:
    assert inside(programs, network=network)[name] == OPEN


@pytest.mark.guarantee("S5")
def test_a_declared_unix_socket_opens_such_sockets_and_nothing_more(
    programs: Programs, folder: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "listener"))
        declared = inside(programs, unix=(str(folder / "listener"),))
    plain = inside(programs)
    changed = {name for name in plain if plain[name] != declared[name]}
    assert changed == UNIX_SOCKETS
    assert {declared[name] for name in UNIX_SOCKETS} == {OPEN}


def test_every_attempt_stands_in_the_table(programs: Programs) -> None:
    names = as_handler(programs.attempts, "-").stdout.decode().split()
    assert len(names) == len(set(names))
    foreign = set() if platform.machine() == "x86_64" else X86
    assert set(names) == {*SEALED, *NEEDED} - foreign


def test_the_attempts_succeed_where_nothing_stops_them(programs: Programs) -> None:
    free = outcomes(as_handler(programs.attempts, "all").stdout)
    namespace = "unshare --user --mount --net --pid --fork --uts --ipc --cgroup --keep-caps"
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare (util-linux) to make a user namespace without a filter")
    ids = ("--map-user=4242", "--map-group=4242")
    powerful = outcomes(as_handler(*namespace.split(), *ids, programs.attempts, "all").stdout)
    done = {name for name in PROVEN if OPEN in (free[name], powerful.get(name))}
    assert done == PROVEN
