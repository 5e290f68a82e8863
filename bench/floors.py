"""What a sandbox is measured against: the same program started with no sandbox, or another's.

Each runs /bin/true once and returns the ns from the request until it was seen dead. They block,
on purpose: an event loop around them would only make the floor higher.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Callable

PROGRAM = "/bin/true"
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}

BWRAP_LACKS = (
    "no Landlock, no seccomp filter, no resource limits, no cgroup, no private /tmp size, no pidfd"
    " or record for whoever waits, outputs not read"
)
_BWRAP = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session"),
    *("--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
    PROGRAM,
)


def popen() -> int:
    """``subprocess.Popen`` with /dev/null three times, and wait: the floor of every ratio."""
    return run((PROGRAM,))


def popen_with_pipes() -> int:
    """``subprocess.Popen`` with stdout and stderr read to their ends."""
    begin = time.perf_counter_ns()
    process = subprocess.Popen(
        (PROGRAM,),
        stdin=_nothing(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    process.communicate()
    return _seen(begin, process.returncode)


def posix_spawn() -> int:
    """``os.posix_spawn`` and waitpid: the fastest that Python has, with nothing redirected."""
    begin = time.perf_counter_ns()
    _, status = os.waitpid(os.posix_spawn(PROGRAM, (PROGRAM,), ENVIRONMENT), 0)
    return _seen(begin, os.waitstatus_to_exitcode(status))


def bubblewrap() -> int:
    """``bwrap --unshare-all`` with a system to look at; see `BWRAP_LACKS`."""
    return run(_BWRAP)


def bubblewrap_version() -> str | None:
    """None when it is not installed, or cannot make a sandbox here."""
    if shutil.which("bwrap") is None:
        return None
    if subprocess.run(_BWRAP, check=False, capture_output=True).returncode:
        return None
    said = subprocess.run(("bwrap", "--version"), check=True, capture_output=True, text=True)
    return said.stdout.split()[-1]


FLOORS: dict[str, Callable[[], int]] = {
    "Popen": popen,
    "Popen, 2 pipes": popen_with_pipes,
    "os.posix_spawn": posix_spawn,
}


def started(argv: tuple[str, ...] = (PROGRAM,)) -> subprocess.Popen[bytes]:
    """Started with /dev/null three times, and not waited for."""
    return subprocess.Popen(
        argv,
        stdin=_nothing(),
        stdout=_nothing(),
        stderr=_nothing(),
        env=ENVIRONMENT,
    )


@functools.cache
def _nothing() -> int:
    """Opened once: a floor does nothing that could be left out."""
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def run(argv: tuple[str, ...]) -> int:
    """Started and waited for; RuntimeError when it did not end with 0."""
    begin = time.perf_counter_ns()
    return _seen(begin, started(argv).wait())


def _seen(begin: int, status: int) -> int:
    spent = time.perf_counter_ns() - begin
    if status:
        raise RuntimeError(f"a floor's process ended with {status}")
    return spent
