"""Real kills, a really full disk: what only a kernel can do."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from supervisor.journal import commit
from supervisor.journal.file import REAL, Os
from supervisor.journal.log import Frame, Journal, JournalFull
from supervisor.journal.verify import verify
from tests.filesystems import KINDS, fill, require, small

ROOT = Path(__file__).parents[2]

WRITER = """
import sys, trio
sys.path.insert(0, {root!r})
from pathlib import Path
from supervisor.journal.log import Journal

async def main():
    journal = Journal.open(Path({directory!r}), lambda frame: None, segment_bytes=32768)
    journal.start()
    async def caller(number):
        turn = 0
        while True:
            payload = b'["%d.%d.%d","%b"]' % ({life}, number, turn, b"x" * (turn * 53 % 900))
            await journal.ready(len(payload))
            if not journal.admits(len(payload), 0):
                continue
            position = journal.append(payload)
            await journal.durable(position)
            sys.stdout.buffer.write(b"%d %b\\n" % (position, payload))
            sys.stdout.buffer.flush()
            turn += 1
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(caller, number)

trio.run(main)
"""


def writer(
    directory: Path, life: int, lines: int, before_kill: Callable[[], None] | None = None
) -> dict[int, bytes]:
    """SIGKILL a writer after it acknowledged about that many; what it acknowledged.

    What it says after `before_kill` was called does not count.
    """
    code = WRITER.format(root=str(ROOT), directory=str(directory), life=life)
    quiet = None if before_kill is None else subprocess.DEVNULL  # it will say what it met
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=quiet)
    assert process.stdout is not None
    heard = []
    try:
        while len(heard) < lines and (line := process.stdout.readline()):
            heard.append(line)
        if before_kill is not None:
            before_kill()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    if before_kill is None:
        heard += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    assert len(heard) >= lines, "the writer ended by itself"
    whole = (line.split(b" ", 1) for line in heard if line.endswith(b"]\n"))
    return {int(position): payload.rstrip(b"\n") for position, payload in whole}


def kill_loop(directory: Path, lives: int) -> int:
    rng = random.Random(4)
    acknowledged: dict[int, bytes] = {}
    for life in range(lives):
        acknowledged |= writer(directory, life, rng.randrange(1, 120))
        frames: list[Frame] = []
        trio.run(Journal.open(directory, frames.append, segment_bytes=32768).close)
        found = {frame.position: frame.payload for frame in frames}
        assert {p: found.get(p) for p in acknowledged} == acknowledged
        assert verify(directory).verdict == "intact"
    return len(acknowledged)


@pytest.mark.guarantee("J1")
def test_what_a_killed_writer_acknowledged_is_there(tmp_path):
    assert kill_loop(tmp_path / "j", 4) > 40


@pytest.mark.long
@pytest.mark.guarantee("J1")
@pytest.mark.timeout(1800)
def test_what_writers_acknowledged_is_there_after_many_kills(tmp_path):
    assert kill_loop(tmp_path / "j", 40) > 1000


class SmallDisk(Os):
    """A real disk whose files may not grow beyond a limit that the kernel enforces."""

    @contextlib.contextmanager
    def limited(self, size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)


async def until(condition, *, seconds: int = 60) -> None:
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - it happens in another thread
            await trio.sleep(0.005)


async def fill_and_heal(directory: Path, relieve) -> None:
    """New work until it is refused, every outcome that was promised, relief, new work."""
    journal = Journal.open(directory, lambda _frame: None, segment_bytes=64 << 10)
    journal.start()
    await until(lambda: journal.stats().degraded is not None)
    owed = journal.cost(100)
    taken = 0
    with pytest.raises(JournalFull):
        while True:
            await journal.ready(1000)
            await journal.durable(journal.append(b'["%b"]' % (b"x" * 900), keep=owed * (taken + 1)))
            taken += 1
    assert taken > 10
    for left in reversed(range(taken)):
        journal.append(b'["%b"]' % (b"y" * 90), keep=owed * left, outcome=True)
    await journal.durable(journal.position)
    assert journal.poisoned is None
    relieve()
    await until(lambda: journal.stats().degraded is None and journal.stats().spares > 0)
    await journal.durable(journal.append(b"[1]", keep=owed))
    await journal.close()
    report = verify(directory)
    assert (report.verdict, report.frames) == ("intact", 2 * taken + 1)


@pytest.mark.guarantee("J8")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_full_file_system_refuses_new_work_keeps_the_reserve_and_heals(
    kind, tmp_path, monkeypatch
):
    require(kind)
    monkeypatch.setattr(commit, "SPARE_RETRY_MS", 20)
    disk = tmp_path / "disk"
    disk.mkdir()
    with small(kind, disk, tmp_path / "image"):
        journal = Journal.open(disk / "j", lambda _frame: None, segment_bytes=64 << 10)
        await journal.close()
        fill(disk / "ballast")
        await fill_and_heal(disk / "j", (disk / "ballast").unlink)


@pytest.mark.guarantee("J8")
async def test_a_file_size_limit_refuses_new_work_keeps_the_reserve_and_heals(
    tmp_path, monkeypatch
):
    """The same for an ordinary user: the kernel refuses every further spare (EFBIG)."""
    monkeypatch.setattr(commit, "SPARE_RETRY_MS", 20)
    journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=64 << 10)
    await journal.close()
    disk = SmallDisk()
    with contextlib.ExitStack() as stack:
        stack.enter_context(disk.limited((64 << 10) - 1))
        await fill_and_heal(tmp_path / "j", stack.close)


def test_reading_the_disk_gives_what_was_written_whatever_the_size(tmp_path):
    directory = REAL.open_directory(tmp_path, create=False)
    try:
        for size in (0, 1, 511, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 700):
            content = random.Random(size).randbytes(size)
            (tmp_path / "f").write_bytes(content)
            assert REAL.read_disk(directory, "f") == content
            assert REAL.read_cached(directory, "f") == content
            assert REAL.is_cached(directory, "f", content)
            assert not REAL.is_cached(directory, "f", content + b"x")
            assert REAL.holds_only(directory, "f", b"\n") == (size, size == 0)
            if size:
                assert not REAL.is_cached(directory, "f", content[:-1])
                assert not REAL.is_cached(directory, "f", content[:-1] + b"%c" % (content[-1] ^ 1))
            (tmp_path / "f").write_bytes(b"\n" * size)
            assert REAL.holds_only(directory, "f", b"\n") == (size, True)
            if size:
                with (tmp_path / "f").open("r+b") as file:
                    file.seek(size - 1)
                    file.write(b"x")
                assert REAL.holds_only(directory, "f", b"\n") == (size, False)
    finally:
        os.close(directory)


@pytest.mark.guarantee("J1")
@pytest.mark.parametrize("made", ["now", "by one that was killed before it could sync"])
def test_a_new_journal_is_durable_in_the_directory_above(tmp_path, monkeypatch, made):
    """Else a power cut takes the journal with its name, and every acknowledged frame in it."""
    synced: list[int] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        fsync(fd)

    if made != "now":
        (tmp_path / "j").mkdir(mode=0o700)
    monkeypatch.setattr(os, "fsync", watched)
    os.close(REAL.open_directory(tmp_path / "j", create=True))
    assert synced == [tmp_path.stat().st_ino]
    os.close(REAL.open_directory(tmp_path / "j", create=False))
    assert len(synced) == 1


def test_a_symlink_in_a_segments_place_is_not_followed(tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "l").symlink_to("f")
    directory = REAL.open_directory(tmp_path, create=False)
    try:
        for call in (
            lambda: REAL.read_disk(directory, "l"),
            lambda: REAL.open(directory, "l"),
            lambda: REAL.read_cached(directory, "l"),
            lambda: REAL.is_cached(directory, "l", b"x"),
            lambda: REAL.holds_only(directory, "l", b"x"),
        ):
            with pytest.raises(OSError, match="symbolic links") as info:
                call()
            assert info.value.errno == errno.ELOOP
    finally:
        os.close(directory)


def test_opening_a_journal_of_many_segments_takes_little(tmp_path):
    async def write() -> None:
        journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=256 << 10)
        journal.start()
        for _ in range(40):
            for _ in range(50):
                await journal.ready(400, 0)
                journal.append(b'["%b"]' % (b"x" * 250))
            await journal.durable(journal.position)
        await journal.close()

    trio.run(write)
    started = time.monotonic()
    frames: list[int] = []
    journal = Journal.open(tmp_path / "j", lambda f: frames.append(f.position))
    trio.run(journal.close)
    print(f"{len(frames)} frames in {time.monotonic() - started:.3f} s")
    assert len(frames) == 2000


@pytest.mark.guarantee("J2")
def test_two_that_list_a_directory_at_once_both_see_all_of_it(tmp_path):
    """Of a start that saw no segment because somebody else was listing, nothing would be safe.
    How far a listing came stands in what was opened, which both have in common."""
    names = sorted(f"{n:08}-{n:012}.jnl" for n in range(200))
    for name in names:
        (tmp_path / name).touch()
    fd, seen = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY), []

    def listing() -> None:
        seen.extend(sorted(REAL.listdir(fd)) == names for _ in range(400))

    threads = [threading.Thread(target=listing) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(fd)
    assert len(seen) == 4 * 400
    assert all(seen)
