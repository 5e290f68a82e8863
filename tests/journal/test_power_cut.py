"""Real kernels' file systems and a real power cut: shut down without a flush, on a loop device."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from supervisor.journal.log import Frame, Journal, JournalPoisoned
from supervisor.journal.read import read_frames
from supervisor.journal.verify import verify
from tests.filesystems import cut_power, loop_device, mounted, require
from tests.journal.test_real import writer
from tests.journal.visited import visited


@contextlib.contextmanager
def new_disk(kind: str) -> Iterator[tuple[str, Path]]:
    """A device with an empty file system, and a directory to mount it at.

    The device is memory: what a cut loses is lost between the file system and its device, and
    a sync need not wait for whoever else uses the disk.
    """
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="effectd-cuts-", dir=memory) as folder:
        at = Path(folder) / "disk"
        at.mkdir()
        with loop_device(Path(folder) / "image", kind) as device:
            yield device, at


@pytest.mark.long
@pytest.mark.guarantee("J1", "J2")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_what_was_acknowledged_before_a_power_cut_is_there_after_it(kind):
    require(kind)
    rng = random.Random(9)
    acknowledged: dict[int, bytes] = {}
    verdicts: set[str] = set()
    with new_disk(kind) as (device, at):
        for life in range(40):
            with mounted(device, at, kind):
                acknowledged |= writer(
                    at / "j", life, rng.randrange(1, 150), before_kill=lambda: cut_power(at)
                )
            with mounted(device, at, kind):
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


@pytest.mark.guarantee("J1", "J2")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "cuts", "seed"), [("ext4", 100, 11), ("ext4", 100, 12), ("xfs", 30, 13)]
)
def test_power_cuts_lose_nothing_that_was_acknowledged(kind, cuts, seed):
    """One process, so that a cut costs little more than its mount; and in parts, so that several
    workers share them."""
    require(kind)
    rng = random.Random(seed)
    acknowledged: dict[int, bytes] = {}
    lives = 0
    with new_disk(kind) as (device, at):
        for life in range(cuts):
            with mounted(device, at, kind):
                if life:
                    assert kept(at / "j", acknowledged)
                acknowledged |= trio.run(until_the_power_goes, at, life, rng.randrange(1, 9))
                lives += 1
        with mounted(device, at, kind):
            assert kept(at / "j", acknowledged)
            assert verify(at / "j").verdict == "intact"
    visited(f"power cuts of a real {kind}, seed {seed}", lives)
    assert len(acknowledged) > 2 * cuts


def kept(directory: Path, acknowledged: dict[int, bytes]) -> bool:
    """Whether a reader that changes nothing finds all that was acknowledged."""
    found = {f.position: f.payload for f in read_frames(directory, unattested=True)}
    return {p: found.get(p) for p in acknowledged} == acknowledged
