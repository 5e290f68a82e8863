"""One writer: a lock that dies with its holder, and a message that names who holds it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.journal.log import Journal, JournalLocked

ROOT = Path(__file__).parents[2]

HOLDER = """
import os, subprocess, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from supervisor.journal.log import Journal
journal = Journal.open(Path({directory!r}), print, segment_bytes=8192)
fd = journal._directory
child = 0
if {how!r} == "exec":
    child = subprocess.Popen(["sleep", "60"]).pid
if {how!r} == "fork":
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
if {how!r} == "passed":
    child = subprocess.Popen(["sleep", "60"], pass_fds=[fd]).pid
print(child, flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def holder(directory: Path, how: str = "alone") -> Iterator[tuple[subprocess.Popen[str], int]]:
    code = HOLDER.format(root=str(ROOT), directory=str(directory), how=how)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = 0
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        yield process, child
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def try_open(directory: Path) -> None:
    """Open and give the lock back; the journal was never started, so nothing runs."""
    import trio

    journal = Journal.open(directory, lambda _frame: None, segment_bytes=8192)
    trio.run(journal.close)


@pytest.mark.guarantee("J7")
def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path):
    with holder(tmp_path / "j") as (process, _):
        before = {p.name: p.read_bytes() for p in (tmp_path / "j").iterdir()}
        with pytest.raises(JournalLocked) as info:
            try_open(tmp_path / "j")
        assert f"process {process.pid} " in info.value.holder
        assert str(process.pid) in info.value.fix
        assert {p.name: p.read_bytes() for p in (tmp_path / "j").iterdir()} == before
        assert f"pid {process.pid}\n" in (tmp_path / "j/LOCK").read_text()


@pytest.mark.guarantee("J7")
def test_a_second_journal_in_the_same_process_is_refused(tmp_path):
    import trio

    journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=8192)
    with pytest.raises(JournalLocked):
        try_open(tmp_path / "j")
    trio.run(journal.close)
    try_open(tmp_path / "j")


@pytest.mark.guarantee("J7")
@pytest.mark.parametrize("how", ["alone", "exec"])
def test_the_lock_dies_with_its_holder(tmp_path, how):
    with holder(tmp_path / "j", how) as (process, _):
        process.kill()
        process.wait()
        try_open(tmp_path / "j")


@pytest.mark.guarantee("J7")
@pytest.mark.parametrize("how", ["fork", "passed"])
def test_a_child_that_keeps_the_descriptor_keeps_the_lock_and_is_named(tmp_path, how):
    with holder(tmp_path / "j", how) as (process, child):
        process.kill()
        process.wait()
        with pytest.raises(JournalLocked) as info:
            try_open(tmp_path / "j")
        assert f"process {child} " in info.value.holder
        os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while True:
            try:
                return try_open(tmp_path / "j")
            except JournalLocked:
                assert time.monotonic() < deadline
                time.sleep(0.01)


@pytest.mark.guarantee("J7")
def test_removing_or_replacing_the_lock_file_lets_nobody_in(tmp_path):
    with holder(tmp_path / "j"):
        (tmp_path / "j/LOCK").unlink()
        with pytest.raises(JournalLocked):
            try_open(tmp_path / "j")
        (tmp_path / "j/LOCK").write_text("pid 1\n")
        with pytest.raises(JournalLocked):
            try_open(tmp_path / "j")


@pytest.mark.guarantee("J7")
def test_another_path_to_the_same_directory_is_the_same_journal(tmp_path):
    with holder(tmp_path / "j"):
        (tmp_path / "link").symlink_to(tmp_path / "j")
        with pytest.raises(JournalLocked):
            try_open(tmp_path / "link")


@pytest.mark.guarantee("J7")
def test_a_lock_file_with_a_reused_pid_locks_nobody_out(tmp_path):
    try_open(tmp_path / "j")
    (tmp_path / "j/LOCK").write_text(f"pid {os.getpid()}\n")
    try_open(tmp_path / "j")


@pytest.mark.guarantee("J7")
def test_a_restart_that_overlaps_waits_for_the_old_process(tmp_path):
    import threading

    import trio

    with holder(tmp_path / "j") as (process, _):
        timer = threading.Timer(0.2, process.kill)
        timer.start()
        journal = Journal.open(
            tmp_path / "j", lambda _frame: None, segment_bytes=8192, lock_wait_ms=10_000
        )
        trio.run(journal.close)
        timer.join()
