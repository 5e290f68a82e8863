"""The journal as the loop uses it, on a real disk with real threads."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from supervisor.journal import commit
from supervisor.journal.codec import Frame
from supervisor.journal.file import Os
from supervisor.journal.log import (
    Journal,
    JournalFull,
    JournalPoisoned,
)
from supervisor.journal.read import entries, read_frames
from supervisor.journal.verify import verify

SEGMENT = 16 << 10


def decision(number: int, size: int = 0) -> bytes:
    return b'[{"n":%d,"x":"%b"}]' % (number, b"x" * size)


def opened(directory: Path, **options) -> tuple[Journal, list[Frame]]:
    frames: list[Frame] = []
    options.setdefault("segment_bytes", SEGMENT)
    return Journal.open(directory, frames.append, **options), frames


async def until(condition, *, seconds: int = 60) -> None:
    """Poll: what is waited for happens in another thread."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - it happens in another thread
            await trio.sleep(0.002)


class GatedOs(Os):
    """A disk that hangs, or fails, when told."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncs = self.writes = 0
        self.error: OSError | None = None
        self.no_space = False

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        self.gate.wait(10)
        if self.error is not None:
            raise self.error
        super().fdatasync(fd)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self.writes += threading.current_thread().name == "journal-commit"
        return super().pwrite(fd, data, offset)

    def allocate(self, fd: int, size: int) -> None:
        if self.no_space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(fd, size)


@pytest.mark.guarantee("J1")
async def test_what_was_appended_comes_back_in_order_after_a_clean_close(tmp_path):
    journal, frames = opened(tmp_path / "j")
    assert (frames, journal.recovered.verdict, journal.position) == ([], "clean", 0)
    journal.start()
    positions = [journal.append(decision(n)) for n in range(5)]
    assert positions == [1, 2, 3, 4, 5]
    await journal.durable(5)
    assert journal.durable_position >= 5
    await journal.close()
    journal, frames = opened(tmp_path / "j")
    assert frames == [Frame(p, decision(n)) for n, p in enumerate(positions)]
    assert journal.recovered.frames == 5
    assert journal.recovered.verdict == "clean"
    assert journal.position == journal.durable_position >= 6
    await journal.close()


async def test_closing_before_start_releases_the_lock(tmp_path):
    for _ in range(3):
        journal, _ = opened(tmp_path / "j")
        await journal.close()


@pytest.mark.parametrize("start", [False, True], ids=["never started", "started later"])
async def test_what_is_appended_before_the_start_is_written_all_the_same(tmp_path, start):
    journal, _ = opened(tmp_path / "j")
    assert journal.append(decision(1)) == 1
    if start:
        journal.start()
        await journal.durable(1)
    await journal.close()
    assert [f.payload for f in read_frames(tmp_path / "j")] == [decision(1)]


@pytest.mark.guarantee("R13")
async def test_a_position_is_given_at_once_and_durable_only_after_its_sync(tmp_path):
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    journal.start()
    os_.gate.clear()
    first = journal.append(decision(1))
    await until(lambda: os_.syncs == 1)
    second = journal.append(decision(2))
    assert (first, second, journal.position, journal.durable_position) == (1, 2, 2, 0)
    with trio.move_on_after(0.05) as scope:
        await journal.durable(first)
    assert scope.cancelled_caught
    assert os_.writes == 1, "the second batch waits until the first sync returned"
    assert journal.stats().in_flight_us > 10_000
    os_.gate.set()
    await journal.durable(second)
    assert os_.syncs == 2
    await journal.close()


async def test_a_cancelled_waiter_changes_nothing(tmp_path):
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    journal.start()
    os_.gate.clear()
    done = []

    async def wait(position: int) -> None:
        await journal.durable(position)
        done.append(position)

    async with trio.open_nursery() as nursery:
        position = journal.append(decision(1))
        nursery.start_soon(wait, position)
        with trio.move_on_after(0.02):
            await wait(position)
        os_.gate.set()
    assert done == [position]
    await journal.close()
    assert [f.payload for f in read_frames(tmp_path / "j")] == [decision(1)]


@pytest.mark.guarantee("J1")
async def test_a_quiet_journal_marks_itself_so_that_the_last_decision_is_attested(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    position = journal.append(decision(1))
    await journal.durable(position)
    await until(lambda: journal.durable_position == position + 1)
    await trio.sleep(3 * commit.IDLE_MS / 1000)
    assert journal.position == position + 1, "one mark is enough"
    assert list(read_frames(tmp_path / "j")) == [Frame(position, decision(1))]
    await journal.close()
    kinds = [entry.payload for entry in entries(tmp_path / "j")]
    assert kinds[-2:] == [b'{"k":"mark","why":"idle"}', b'{"k":"mark","why":"shutdown"}']


@pytest.mark.guarantee("J3")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
async def test_one_failed_sync_poisons_for_good(tmp_path, code):
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    heard: list[JournalPoisoned] = []
    journal.start(heard.append)
    good = journal.append(decision(1))
    await journal.durable(good)
    await until(lambda: journal.durable_position == good + 1)
    os_.gate.clear()
    os_.error = OSError(code, os.strerror(code))
    failures = []

    async def wait(position: int) -> None:
        with pytest.raises(JournalPoisoned) as info:
            await journal.durable(position)
        failures.append(info.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, journal.append(decision(2)))
        await until(lambda: os_.syncs == 3)
        nursery.start_soon(wait, journal.append(decision(3)))
        await trio.testing.wait_all_tasks_blocked()
        os_.gate.set()
    assert len(failures) == 2
    assert failures[0] is not failures[1]
    assert failures[0].cause is os_.error
    assert failures[0].durable_position == good + 1
    os_.error = None
    with pytest.raises(JournalPoisoned):
        journal.append(decision(4))
    with pytest.raises(JournalPoisoned):
        await journal.durable(journal.position)
    await journal.durable(good)
    assert not journal.admits(10, 0)
    await journal.ready(10)
    await trio.sleep(2 * commit.IDLE_MS / 1000)
    assert os_.syncs == 3, "a failed sync is never tried again, not even by a mark"
    assert len(heard) == 1
    assert journal.poisoned is not None
    await journal.close()
    journal, frames = opened(tmp_path / "j")
    assert frames[0] == Frame(good, decision(1))
    await journal.close()


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"[1", b'["a\n"]', b'["a\t"]', b"[" + b"1" * SEGMENT + b"]"]
)
async def test_a_payload_that_is_no_decision_is_a_fault_of_the_caller(tmp_path, payload):
    journal, _ = opened(tmp_path / "j")
    with pytest.raises(ValueError, match=r"payload|limit"):
        journal.append(payload)
    assert journal.position == 0
    await journal.close()


async def test_waiting_for_a_position_that_was_never_given_is_a_fault_of_the_caller(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    with pytest.raises(ValueError, match="never given"):
        await journal.durable(1)
    await journal.close()


@pytest.mark.parametrize("layout", [{"align": 100}, {"segment_bytes": 100}])
def test_an_impossible_layout_is_refused(tmp_path, layout):
    with pytest.raises(ValueError, match="layout"):
        Journal.open(tmp_path / "j", print, **layout)


@pytest.mark.guarantee("J1", "R13")
@pytest.mark.parametrize("align", [0, 512, 4096])
async def test_rotation_under_load_keeps_every_frame_in_order(tmp_path, align):
    segment = 64 << 10
    journal, _ = opened(tmp_path / "j", align=align, segment_bytes=segment)
    journal.start()
    given: dict[int, bytes] = {}

    async def caller(number: int) -> None:
        for turn in range(15):
            payload = decision(number * 1000 + turn, 37 * (turn % 40))
            await journal.ready(len(payload))
            while True:
                try:
                    position = journal.append(payload)
                    break
                except JournalFull:  # the others were quicker; a spare is being made
                    await trio.sleep(0.001)
                    await journal.ready(len(payload))
            given[position] = payload
            await journal.durable(position)
            assert journal.durable_position >= position

    async with trio.open_nursery() as nursery:
        for number in range(32):
            nursery.start_soon(caller, number)
    await journal.close()
    report = verify(tmp_path / "j")
    assert (report.verdict, report.blemishes) == ("intact", ())
    assert report.segments >= 3
    assert {f.position: f.payload for f in read_frames(tmp_path / "j")} == given
    assert len(given) == 32 * 15
    journal, frames = opened(tmp_path / "j", align=512, segment_bytes=segment)
    assert [f.position for f in frames] == sorted(given)
    await journal.close()


async def test_a_hanging_disk_does_not_stall_the_loop(tmp_path):
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    journal.start()
    os_.gate.clear()
    position = journal.append(decision(1))
    worst = 0.0
    start = last = time.perf_counter()
    while last - start < 0.3:
        await trio.lowlevel.checkpoint()
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    assert worst < 5, "a commit inside the loop would stall it for the whole hang"
    os_.gate.set()
    await journal.durable(position)
    await journal.close()


@pytest.mark.guarantee("J1")
async def test_what_a_crash_left_unattested_is_attested_soon_after_the_start(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    await journal.durable(journal.append(decision(1)))
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (tmp_path / "j").glob("*.jnl"):
        (copy / file.name).write_bytes(file.read_bytes())
    await journal.close()
    for segment in copy.glob("*.jnl"):  # as if killed before the idle mark
        content = segment.read_bytes()
        end = content.index(b'"}]\t.\n') + 6
        segment.write_bytes(content[:end] + b"\n" * (len(content) - end))
    assert list(read_frames(copy)) == []
    journal, frames = opened(copy)
    assert [f.payload for f in frames] == [decision(1)]
    journal.start()
    await until(lambda: journal.durable_position == 2)
    assert [f.payload for f in read_frames(copy)] == [decision(1)]
    await journal.close()


async def test_two_tasks_may_wait_for_one_position(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    position = journal.append(decision(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.durable, position)
        nursery.start_soon(journal.durable, position)
    assert journal.durable_position >= position
    await journal.close()
