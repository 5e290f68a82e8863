"""Which system calls the journal makes, from a run of the real one: none without a fault."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.journal.file import Os
from tests.journal.fakeos import FakeOs

ROOT = Path(__file__).parents[2]
# The call as the kernel sees it, and the method of Os that makes it: what the fault loops
# fail, cut short or crash behind.
CALLS = {
    "openat": "open",
    "close": "close",
    "flock": "lock",
    "fallocate": "allocate",
    "pwrite64": "pwrite",
    "fsync": "fsync",
    "fdatasync": "fdatasync",
    "renameat": "rename",
    "renameat2": "rename",
    "unlinkat": "unlink",
    "unlink": "unlink",
    "mkdir": "open_directory",
    "mkdirat": "subdirectory",
    "linkat": "link",
    "getdents64": "listdir",
    "fstat": "links",
    "newfstatat": "exists",
    "stat": "exists",
    "fadvise64": "is_cached",
    "read": "read_cached",
    "lseek": "read_cached",
    "preadv": "read_disk",
    "preadv2": "read_disk",
    # Python's own, before it reads a whole file or lists a directory.
    "ioctl": "read_cached",
    "fcntl": "listdir",
}
# These look and change nothing, or end something: a fault in them is another call's.
NEVER_FAIL = {"close", "links", "lock", "unlock"}

RUN = """
import sys, trio
sys.path.insert(0, {root!r})
from pathlib import Path
from supervisor.journal.log import Journal

async def write():
    journal = Journal.open(Path({directory!r}), lambda frame: None, segment_bytes=8192)
    journal.start()
    for _ in range({count}):
        await journal.ready(900)
        await journal.durable(journal.append(b'["%b"]' % (b"x" * 900)))
    await journal.close()

trio.run(write)
"""


def traced(directory: Path, count: int, trace: Path) -> set[str]:
    code = RUN.format(root=str(ROOT), directory=str(directory), count=count)
    strace = ["strace", "-f", "-y", "-qq", "-o", str(trace)]
    subprocess.run([*strace, sys.executable, "-c", code], check=True, timeout=60)
    return calls_on_the_journal(trace.read_text("utf-8", "replace"))


def leave_a_torn_tail(directory: Path) -> None:
    newest = max(directory.glob("*.jnl"))
    content = newest.read_bytes()
    end = -(-len(content.rstrip(b"\n")) // 512) * 512
    newest.write_bytes((content[:end] + b"torn").ljust(len(content), b"\n"))
    (directory / "00000099.tmp").write_bytes(b"left")


def calls_on_the_journal(trace: str) -> set[str]:
    """Names of the calls that touch the directory's descriptor or a file of the journal."""
    found: set[str] = set()
    for line in trace.splitlines():
        match = re.match(r"(?:\d+ +)?(\w+)\((.*)", line)
        if match and re.search(r"/j[>\"/]", match[2]) and "LOCK" not in match[2]:
            found.add(match[1])
    return found


@pytest.mark.guarantee("J1", "J3")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace lists the calls")
def test_every_call_that_the_journal_makes_is_one_that_the_fault_loops_fail(tmp_path):
    found = traced(tmp_path / "j", 30, tmp_path / "trace")
    leave_a_torn_tail(tmp_path / "j")
    found |= traced(tmp_path / "j", 3, tmp_path / "trace")
    assert found <= set(CALLS), f"no fault loop knows {sorted(found - set(CALLS))}"
    assert {"pwrite64", "fdatasync", "fsync", "fallocate", "unlinkat"} <= found


def test_the_fault_loops_stand_before_every_call_that_can_fail():
    """Each method of Os is replaced in the simulated disk, and counted there."""
    methods = {name for name, _ in inspect.getmembers(Os, inspect.isfunction) if name[0] != "_"}
    assert set(CALLS.values()) <= methods
    assert methods <= set(vars(FakeOs)), methods - set(vars(FakeOs))
    for name in methods - NEVER_FAIL:
        assert f'self.before("{name}")' in inspect.getsource(getattr(FakeOs, name)), name
