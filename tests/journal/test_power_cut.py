"""A real kernel and a real power cut: ext4 on a loop device, shut down without a flush."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from supervisor.journal.log import Frame, Journal, JournalPoisoned
from supervisor.journal.read import read_frames
from supervisor.journal.verify import verify
from tests.journal.test_real import may_mount, writer
from tests.journal.visited import visited

EXT4_IOC_SHUTDOWN = 0x8004587D
CUTS = 200
NO_LOG_FLUSH = 2  # what the file system's own journal has not written is lost as well


def loop_device_works() -> bool:
    return may_mount() and shutil.which("mkfs.ext4") is not None and Path("/dev/loop0").exists()


@contextlib.contextmanager
def mounted(image: Path, at: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "loop", str(image), str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


def new_disk(folder: Path) -> tuple[Path, Path]:
    """The image of an empty ext4, and a directory to mount it at."""
    image, at = folder / "image", folder / "disk"
    at.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    return image, at


def cut_power(at: Path) -> None:
    fd = os.open(at, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(fd)


@pytest.mark.long
@pytest.mark.guarantee("J1", "J2")
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not loop_device_works(), reason="needs CAP_SYS_ADMIN, mkfs.ext4 and a loop device"
)
def test_what_was_acknowledged_before_a_power_cut_is_there_after_it(tmp_path):
    image, at = new_disk(tmp_path)
    rng = random.Random(9)
    acknowledged: dict[int, bytes] = {}
    verdicts: set[str] = set()
    for life in range(40):
        with mounted(image, at):
            acknowledged |= writer(
                at / "j", life, rng.randrange(1, 150), before_kill=lambda: cut_power(at)
            )
        with mounted(image, at):
            frames: list[Frame] = []
            journal = Journal.open(at / "j", frames.append, segment_bytes=32768)
            verdicts.add(journal.recovered.verdict)
            trio.run(journal.close)
            assert verify(at / "j").verdict == "intact"
        found = {frame.position: frame.payload for frame in frames}
        assert {p: found.get(p) for p in acknowledged} == acknowledged
    print(f"{len(acknowledged)} acknowledged frames in 40 power cuts, verdicts {verdicts}")
    assert len(acknowledged) > 1000


async def until_the_power_goes(at: Path, life: int, count: int) -> dict[int, bytes]:
    """Three callers append until `count` were acknowledged; those, when the power goes."""
    acknowledged: dict[int, bytes] = {}
    journal = Journal.open(at / "j", lambda _frame: None, segment_bytes=32768)
    journal.start()

    async def caller(number: int) -> None:
        with contextlib.suppress(JournalPoisoned):
            for turn in range(count):
                payload = b'["%d.%d.%d","%b"]' % (life, number, turn, b"x" * (turn * 53 % 900))
                await journal.ready(len(payload))
                position = journal.append(payload)
                await journal.durable(position)
                acknowledged[position] = payload
                if len(acknowledged) == count:
                    cut_power(at)
                    nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(caller, number)
    await journal.close()
    return acknowledged


@pytest.mark.long
@pytest.mark.guarantee("J1", "J2")
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    not loop_device_works(), reason="needs CAP_SYS_ADMIN, mkfs.ext4 and a loop device"
)
def test_two_hundred_power_cuts_lose_nothing_that_was_acknowledged(tmp_path):
    """One process, so that a cut costs little more than its two mounts."""
    image, at = new_disk(tmp_path)
    rng = random.Random(11)
    acknowledged: dict[int, bytes] = {}
    for life in range(CUTS):
        with mounted(image, at):
            if life:
                assert kept(at / "j", acknowledged)
            acknowledged |= trio.run(until_the_power_goes, at, life, rng.randrange(1, 9))
    with mounted(image, at):
        assert kept(at / "j", acknowledged)
        assert verify(at / "j").verdict == "intact"
    visited("power cuts of a real ext4", CUTS)
    assert len(acknowledged) > 2 * CUTS


def kept(directory: Path, acknowledged: dict[int, bytes]) -> bool:
    """Whether a reader that changes nothing finds all that was acknowledged."""
    found = {f.position: f.payload for f in read_frames(directory, unattested=True)}
    return {p: found.get(p) for p in acknowledged} == acknowledged
