"""Leaves everything that two processes of one user could meet by, then looks for another's.

usage: neighbour.py NAME OTHER. Leaves what carries NAME and says so; after a line on fd 3 it looks
for what carries OTHER. Prints {thing: "found" or "absent"}.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import sys

NAME, OTHER = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
librt = ctypes.CDLL("librt.so.1", use_errno=True)
KEYS = {"one": 0x0E11, "two": 0x0E12}
PORTS = {"one": 4211, "two": 4212}
IPC_CREAT, SHM_NAME, QUEUE_NAME = 0o1000, "/effectd-test-{}", "/effectd-test-q-{}"


def leave() -> list[str]:
    """What could be left: a limit or a filter may refuse some of it."""
    left = []
    for place in ("/tmp", "/tmp/home", "/dev/shm", "/var/tmp", "/run", "/run/credentials"):
        with contextlib.suppress(OSError), open(f"{place}/{NAME}", "w") as file:
            file.write("left")
            left.append(place)
    key = KEYS[NAME]
    if libc.shmget(key, 4096, IPC_CREAT | 0o666) >= 0:
        left.append("shared memory")
    if libc.semget(key, 1, IPC_CREAT | 0o666) >= 0:
        left.append("semaphores")
    if libc.msgget(key, IPC_CREAT | 0o666) >= 0:
        left.append("message queue")
    if librt.shm_open(SHM_NAME.format(NAME).encode(), os.O_CREAT | os.O_RDWR, 0o666) >= 0:
        left.append("posix shared memory")
    queue = QUEUE_NAME.format(NAME).encode()
    if librt.mq_open(queue, os.O_CREAT | os.O_RDWR, 0o666, None) >= 0:
        left.append("posix queue")
    with contextlib.suppress(OSError):
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0effectd-test-{NAME}")
        abstract.listen()
        KEPT.append(abstract)
        left.append("abstract socket")
    KEPT.append(socket.create_server(("127.0.0.1", PORTS[NAME])))
    left.append("port")
    return left


KEPT: list[object] = []


def look() -> dict[str, str]:
    found = {}
    for place in ("/tmp", "/tmp/home", "/dev/shm", "/var/tmp", "/run", "/run/credentials"):
        found[place] = os.path.exists(f"{place}/{OTHER}")
    key = KEYS[OTHER]
    found["shared memory"] = libc.shmget(key, 0, 0) >= 0
    found["semaphores"] = libc.semget(key, 0, 0) >= 0
    found["message queue"] = libc.msgget(key, 0) >= 0
    found["posix shared memory"] = (
        librt.shm_open(SHM_NAME.format(OTHER).encode(), os.O_RDWR, 0) >= 0
    )
    found["posix queue"] = librt.mq_open(QUEUE_NAME.format(OTHER).encode(), os.O_RDWR) >= 0
    found["port"] = _connects(socket.AF_INET, ("127.0.0.1", PORTS[OTHER]))
    found["abstract socket"] = _connects(socket.AF_UNIX, f"\0effectd-test-{OTHER}")
    found["its credentials"] = os.path.exists(f"/run/credentials/secret-of-{OTHER}")
    found["own credentials"] = not os.path.exists(f"/run/credentials/secret-of-{NAME}")
    found["processes"] = len([n for n in os.listdir("/proc") if n.isdigit()]) > 2
    return {thing: "found" if there else "absent" for thing, there in found.items()}


def _connects(family: int, address: object) -> bool:
    try:
        with socket.socket(family) as one:
            one.settimeout(2)
            one.connect(address)
            return True
    except OSError:
        return False


if __name__ == "__main__":
    print(json.dumps(leave()), flush=True)
    os.read(3, 1)
    print(json.dumps(look()), flush=True)
