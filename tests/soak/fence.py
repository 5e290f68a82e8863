"""A user namespace of a test's own, so that the kernel counts what is made below it alone.

Each namespace is charged to the user namespace that it was made in and to all above, until the
kernel has freed it: whoever holds it, a process, a mount, a descriptor, a socket on its way, or
nobody. No other process of this host changes these counts.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import attrs

from sandbox import linux

KINDS = {
    "cgroup": linux.CLONE_NEWCGROUP,
    "ipc": linux.CLONE_NEWIPC,
    "mnt": linux.CLONE_NEWNS,
    "net": linux.CLONE_NEWNET,
    "pid": linux.CLONE_NEWPID,
    "uts": linux.CLONE_NEWUTS,
    "user": linux.CLONE_NEWUSER,
}
_LIMIT = "/proc/sys/user/max_{}_namespaces"
_EVERY_ID = "0 0 4294967295"


@attrs.frozen
class Fence:
    """``fd`` is the user namespace, with the same ids as outside."""

    fd: int

    def around(self, command: Sequence[str]) -> list[str]:
        """``command``, inside; its pid is that of the process that is started."""
        place = f"--user=/proc/{os.getpid()}/fd/{self.fd}"
        return ["nsenter", place, "--preserve-credentials", "--", *command]

    def namespaces(self) -> dict[str, int]:
        """How many of each kind there are inside. Nothing may make one meanwhile: it would fail."""
        command = [sys.executable, "-m", __name__, str(self.fd)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, pass_fds=(self.fd,))
        counts: dict[str, int] = json.loads(done.stdout)
        return counts


@contextlib.contextmanager
def fenced() -> Iterator[Fence]:
    """A new one. Whatever is still in it afterwards stays there."""
    command = ["unshare", "--user", "sh", "-c", "echo; read end"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        process = Path(f"/proc/{first.pid}")
        if os.geteuid() != 0:
            (process / "setgroups").write_text("deny")
        for name, mine in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
            (process / name).write_text(f"{mine} {mine} 1" if os.geteuid() else _EVERY_ID)
        fd = os.open(process / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        first.communicate(b"\n")
    try:
        yield Fence(fd)
    finally:
        os.close(fd)


def _count(name: str, flag: int) -> int:
    """The lowest limit under which there may be one more is one more than there are: no kernel
    says the number itself."""
    limit = Path(_LIMIT.format(name))
    usual = limit.read_text()
    try:
        child = os.fork()
        if child == 0:
            _raise_until_made(limit, flag)
        _, status = os.waitpid(child, 0)
        number = os.waitstatus_to_exitcode(status)
        assert number == 0, f"no {name} namespace can be made: {os.strerror(number)}"
        return int(limit.read_text()) - 1
    finally:
        limit.write_text(usual)


def _raise_until_made(limit: Path, flag: int) -> NoReturn:
    """In a process that ends with it, since in its new namespace it no longer reaches the limit."""
    status = errno.EIO
    try:
        for most in itertools.count(1):
            limit.write_text(f"{most}")
            status = _refused(flag)
            if status != errno.ENOSPC:
                break
    finally:
        os._exit(status)


def _refused(flag: int) -> int:
    """Make one: 0, or the error number."""
    try:
        linux.new_namespace(flag)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _main(fd: int) -> None:
    linux.enter_namespace(fd, linux.CLONE_NEWUSER)
    print(json.dumps({name: _count(name, flag) for name, flag in KINDS.items()}))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
