"""Changes what belongs to an open file description, or says what it is.  usage: ... spoil|look

For fds 0 to 3 and a fresh /dev/null: {fd: [flags, offset, lock owner]}.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys

WATCHED = os.O_NONBLOCK | os.O_APPEND | os.O_ASYNC


def state(fd: int) -> list[int]:
    try:
        offset = os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:
        offset = -1
    return [fcntl.fcntl(fd, fcntl.F_GETFL) & WATCHED, offset, fcntl.fcntl(fd, fcntl.F_GETOWN)]


if __name__ == "__main__":
    fds = [0, 1, 2, 3, os.open("/dev/null", os.O_RDWR)]
    before = {str(fd): state(fd) for fd in fds}
    if sys.argv[1] == "spoil":
        for fd in fds:
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
            fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
        os.lseek(0, 3, os.SEEK_SET)
        with socket.socket(fileno=os.dup(3)) as channel:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    os.write(1, json.dumps(before).encode() + b"\n")
    if sys.argv[1] == "spoil":
        while True:
            try:
                os.read(3, 1)
                break
            except BlockingIOError:
                os.sched_yield()
        os.write(1, b"true\n")
