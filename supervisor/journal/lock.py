"""One writer: a lock on the journal's directory that dies with its holder.

The lock is on the directory's own inode, because a lock file can be removed and made
again beside its holder. It is a BSD lock (`flock`): a POSIX lock would vanish as soon as
any other descriptor of the file is closed. It belongs to the open file description, so a
child that was forked without exec, or was handed the descriptor, keeps it alive; then
the message names that child. The file LOCK is information for people only.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from supervisor.journal.errors import JournalLocked
from supervisor.journal.file import Os

# For a daemon that is just ending.
WAIT_MS = 2_000
_POLL_MS = 50


def take(os_: Os, fd: int, directory: Path, *, wait_ms: int) -> None:
    """Lock the directory open as `fd`. Raises JournalLocked after `wait_ms`."""
    deadline = time.monotonic_ns() + wait_ms * 1_000_000
    while True:
        try:
            os_.lock(fd)
        except BlockingIOError:
            if time.monotonic_ns() >= deadline:
                raise JournalLocked(str(directory), holder(directory)) from None
            time.sleep(_POLL_MS / 1000)
        else:
            return


def sign(directory: Path) -> None:
    """Say in LOCK who holds it. Only for people: nothing ever believes this file."""
    text = f"pid {os.getpid()}\nstarted {_start_ticks(os.getpid())}\nboot {_boot_id()}\n"
    (directory / "LOCK").write_text(text, "ascii")


def holder(directory: Path) -> str:
    """Every process that keeps the lock, as far as this one may look into /proc."""
    wanted = directory.stat()
    name = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}:{wanted.st_ino}"
    pids = [pid for pid in map(int, _numbers("/proc")) if _keeps(pid, name)]
    if not pids:
        return _signer(directory) or "a process that this one may not look into"
    return " and ".join(f"process {pid} ({_command(pid)})" for pid in sorted(pids))


def _signer(directory: Path) -> str | None:
    """Who signed LOCK, if that very process lives: a daemon hides what it has open."""
    try:
        words = (directory / "LOCK").read_text("ascii").split()
        pid, started, boot_id = int(words[1]), words[3], words[5]
        if started != _start_ticks(pid) or boot_id != _boot_id():
            return None
    except (OSError, ValueError, IndexError):
        return None
    return f"process {pid} ({_command(pid)})"


def _keeps(pid: int, name: str) -> bool:
    try:
        return any(_is_lock(pid, fd, name) for fd in _numbers(f"/proc/{pid}/fdinfo"))
    except OSError:
        return False  # it ended, or is another user's


def _is_lock(pid: int, fd: str, name: str) -> bool:
    try:
        text = Path(f"/proc/{pid}/fdinfo/{fd}").read_text("ascii")
    except OSError:
        return False
    return any("FLOCK" in line and name in line.split() for line in text.splitlines())


def _numbers(path: str) -> list[str]:
    return [entry.name for entry in Path(path).iterdir() if entry.name.isdecimal()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "ended"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _start_ticks(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    return stat.rpartition(")")[2].split()[19]
