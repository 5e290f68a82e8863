"""Tries the ways out that several layers guard at once. Standard input names the targets as JSON:

`undeclared` (a file everybody may read and write), `hidden` (one inside a declared directory),
`socket` and `datagram` (paths of Unix sockets in a declared directory), `abstract` (a name),
`port` (TCP on the host's loopback), `pid` (a process of this user), `key` (System V memory).
Prints {way: "open" or "held"}.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNS, PTRACE_SEIZE, PTRACE_DETACH = 0x10000000, 0x20000, 0x4206, 17
MNT_DETACH = 2
IO_URING_SETUP, KEYCTL = 425, {"x86_64": 250, "aarch64": 219}[os.uname().machine]


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def stream(family: int, address: object, protocol: int = 0) -> None:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as one:
        one.settimeout(3)
        one.connect(address)


def new_namespace() -> None:
    child = os.fork()
    if child == 0:
        os._exit(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise PermissionError


def uncover(hidden: str) -> None:
    child = os.fork()
    if child == 0:
        done = libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0
        done = done and libc.umount2(hidden.encode(), MNT_DETACH) == 0
        os._exit(not done)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise PermissionError


def renice(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid) + 1)


def trace(pid: int) -> None:
    checked(libc.ptrace(PTRACE_SEIZE, pid, 0, 0))
    libc.ptrace(PTRACE_DETACH, pid, 0, 0)


def ways(to: dict[str, object]) -> dict[str, object]:
    pid = to["pid"]
    return {
        "read a file that was not declared": lambda: open(to["undeclared"]).close(),
        "write to a file that was not declared": lambda: open(to["undeclared"], "r+").close(),
        "change times or modes of such a file": lambda: os.utime(to["undeclared"]),
        "read what is hidden in a declared directory": lambda: open(to["hidden"]).close(),
        "reach a Unix socket in a declared directory": lambda: stream(socket.AF_UNIX, to["socket"]),
        "send to one from a pair of datagram sockets": lambda: socket.socketpair(
            socket.AF_UNIX, socket.SOCK_DGRAM
        )[0].sendto(b"x", to["datagram"]),
        "reach an abstract Unix socket of the host": lambda: stream(
            socket.AF_UNIX, "\0" + str(to["abstract"])
        ),
        "reach the host's loopback by TCP": lambda: stream(
            socket.AF_INET, ("127.0.0.1", to["port"])
        ),
        "the same by multipath TCP": lambda: stream(socket.AF_INET, ("127.0.0.1", to["port"]), 262),
        "make a vsock socket": lambda: socket.socket(socket.AF_VSOCK).close(),
        "signal a process of the same user": lambda: os.kill(pid, signal.SIGCONT),
        "trace it or read its memory": lambda: trace(pid),
        "read its environment": lambda: open(f"/proc/{pid}/environ").close(),
        "see its command line": lambda: open(f"/proc/{pid}/cmdline").close(),
        "change its limits": lambda: resource.prlimit(
            pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE)
        ),
        "change its priority": lambda: renice(pid),
        "find System V memory of the host": lambda: checked(libc.shmget(to["key"], 0, 0)),
        "make a user namespace and mount": new_namespace,
        "unmount what hides a path, in a namespace": lambda: uncover(to["hidden"]),
        "use io_uring": lambda: checked(
            libc.syscall(IO_URING_SETUP, 1, ctypes.create_string_buffer(120))
        ),
        "use the daemon's session keyring": lambda: checked(libc.syscall(KEYCTL, 0, -3, 0)),
    }


if __name__ == "__main__":
    found = {}
    for name, way in ways(json.load(sys.stdin)).items():
        try:
            way()
            found[name] = "open"
        except OSError:
            found[name] = "held"
    print(json.dumps(found))
