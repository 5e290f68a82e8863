"""Takes all that a user may have of one thing, says what stopped it, and holds on to it.

usage: exhaust.py fds|pipes|watches|inotify|processes|files|memory. Ends at a line on fd 3.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import os
import select
import socket
import sys

F_GETPIPE_SZ = 1032
PROCESSES = 12
KEPT: list[object] = []


def fds_in_flight() -> str:
    """Descriptors that nobody receives, each process's own in its own sockets."""
    sent = os.open("/dev/null", os.O_RDONLY)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sent] * 200))]
    while True:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        KEPT.extend((ours, theirs))
        ours.setblocking(False)
        try:
            while True:
                ours.sendmsg([b"x"], rights)
        except BlockingIOError:
            continue
        except OSError as error:
            return errno.errorcode[error.errno]


def pipes() -> str:
    """Pipes, filled: the kernel counts pages per user, and gives new pipes fewer at some point."""
    smallest = 1 << 20
    try:
        while True:
            _, write = os.pipe()
            smallest = min(smallest, fcntl.fcntl(write, F_GETPIPE_SZ))
    except OSError:
        return f"smallest {smallest}"


def watches() -> str:
    """Each epoll instance watches each descriptor."""
    plain = [os.eventfd(0) for _ in range(120)]
    KEPT.append(plain)
    try:
        while True:
            poll = select.epoll()
            KEPT.append(poll)
            for fd in plain:
                poll.register(fd, select.EPOLLIN)
    except OSError as error:
        return errno.errorcode[error.errno]


def inotify() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    while libc.inotify_init() >= 0:
        pass
    return errno.errorcode[ctypes.get_errno()]


def in_many_processes(what: object) -> str:
    """What the last of them met."""
    met = ""
    for _ in range(PROCESSES):
        read, write = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            return errno.errorcode[error.errno]
        if child == 0:
            os.write(write, what().encode())
            os.close(write)
            os.read(3, 1)
            os._exit(0)
        os.close(write)
        met = os.read(read, 100).decode()
        os.close(read)
    return met


def processes() -> str:
    for count in range(100_000):
        try:
            child = os.fork()
        except OSError as error:
            return f"{errno.errorcode[error.errno]} {count}"
        if child == 0:
            os.read(3, 1)
            os._exit(0)
    return "no end"


def files() -> str:
    """Fill /tmp by bytes, then by names."""
    met = []
    try:
        with open("/tmp/large", "wb") as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError as error:
        met.append(errno.errorcode[error.errno])
    os.unlink("/tmp/large")
    try:
        for n in range(1 << 20):
            os.close(os.open(f"/tmp/{n}", os.O_CREAT))
    except OSError as error:
        met.append(errno.errorcode[error.errno])
    return " ".join(met)


if __name__ == "__main__":
    does = {
        "fds": lambda: in_many_processes(fds_in_flight),
        "pipes": lambda: in_many_processes(pipes),
        "watches": lambda: in_many_processes(watches),
        "inotify": inotify,
        "processes": processes,
        "files": files,
    }
    print(json.dumps(does[sys.argv[1]]()), flush=True)
    os.read(3, 1)
