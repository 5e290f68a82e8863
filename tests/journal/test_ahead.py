"""Reading ahead changes when a start reads, and nothing that it finds."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio

from supervisor.journal.ahead import MOST, Ahead
from supervisor.journal.codec import Frame
from supervisor.journal.errors import JournalError, JournalLocked
from supervisor.journal.file import REAL, Os
from supervisor.journal.log import Journal
from supervisor.journal.snapshot import BadSnapshot, snapshots_among
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of
from tests.journal.test_snapshots import grown, laid_out

SIZE = 8192


def opened(directory: Path, os_: Os) -> tuple[object, ...]:
    """Everything that a start finds in it, and what it leaves there."""
    begun: list[tuple[int, bytes]] = []
    frames: list[Frame] = []

    async def main() -> object:
        journal = Journal.open(
            directory,
            frames.append,
            lambda position, content: begun.append((position, bytes(content))),
            segment_bytes=SIZE,
            os_=os_,
        )
        await journal.close()
        return attrs.evolve(journal.recovered, took_ms=0)

    try:
        found = trio.run(main)
    except JournalError as error:
        found = str(error).replace(str(directory), "")
    left = {one.name: one.read_bytes() for one in directory.iterdir() if one.name.endswith(".jnl")}
    return found, begun, frames, left


def ahead_of(directory: Path) -> Ahead:
    ahead = Ahead.begin(directory)
    assert ahead is not None
    return ahead


def snapshots(directory: Path) -> list[Path]:
    return [directory / name for name in snapshots_among(os.listdir(directory))]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jnl"))


def flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)


def before(directory: Path) -> Path:
    """The segment in which the newest snapshot is; the only one without any."""
    return segments(directory)[-2:][0]


def no_segment_is_left(directory: Path) -> None:
    for one in segments(directory):
        one.unlink()


def both_are_rotten(directory: Path) -> None:
    for one in snapshots(directory):
        flip(one, 9)


# What happened to a journal with two snapshots.
CASES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda _directory: None,
    "the newest snapshot is rotten": lambda directory: flip(snapshots(directory)[0], 9),
    "both snapshots are rotten": both_are_rotten,
    "a frame before the snapshot is damaged": lambda directory: flip(
        before(directory), before(directory).read_bytes().index(b"[{") + 1
    ),
    "the last frame is torn": lambda directory: segments(directory)[-1].write_bytes(
        segments(directory)[-1].read_bytes().rstrip(b"\n")[:-9].ljust(2048, b"\n")
    ),
    "a segment is missing": lambda directory: segments(directory)[-1].unlink(),
    "no segment is left": no_segment_is_left,
    "a spare has a header": lambda directory: (directory / "00000099.spare").write_bytes(
        segments(directory)[-1].read_bytes()[:300].ljust(SIZE, b"\n")
    ),
    "all of it is gone": lambda directory: (shutil.rmtree(directory), directory.mkdir())[1],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kept", [0, 2])
def test_a_start_that_read_ahead_is_as_one_that_did_not(tmp_path, case, kept):
    for name in ("one", "other"):
        laid_out(tmp_path / name, contents_of(grown(snapshots=kept).os))
        if kept or "snapshot" not in case:
            CASES[case](tmp_path / name)
    assert opened(tmp_path / "one", ahead_of(tmp_path / "one")) == opened(tmp_path / "other", REAL)


@pytest.fixture
def reads(monkeypatch) -> list[tuple[str, str]]:
    """Each file that is read from the disk, and the thread that does it."""
    seen: list[tuple[str, str]] = []

    def noted(real):
        def read(os_, directory, name, *rest):
            seen.append((threading.current_thread().name, name))
            return real(os_, directory, name, *rest)

        return read

    for call in ("read_disk", "holds_only", "is_cached"):
        monkeypatch.setattr(Os, call, noted(getattr(Os, call)))
    return seen


def test_a_start_waits_for_nothing_that_can_be_read_ahead(tmp_path, reads):
    place = tmp_path / "j"
    laid_out(place, contents_of(grown(snapshots=2).os))
    (place / "00000099.spare").write_bytes(b"\n" * SIZE)
    files = [snapshots(place)[0], *segments(place)[-2:], place / "00000099.spare"]
    opened(place, ahead_of(place))
    assert {thread for thread, _ in reads} == {"journal-ahead"}
    wanted = [one.name for one in files]
    cached = wanted[2]  # once more: what the page cache has of the newest segment
    assert sorted(name for _, name in reads) == sorted([*wanted, cached])


def test_what_a_killed_writer_left_unsynced_is_synced_before_it_is_read(tmp_path, monkeypatch):
    place = tmp_path / "j"
    laid_out(place, contents_of(grown(snapshots=0).os))
    newest = segments(place)[-1].name
    done: list[tuple[str, str]] = []
    fsync, read_disk = Os.fsync, Os.read_disk

    def noted_fsync(os_, fd):
        done.append(("fsync", os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2]))
        fsync(os_, fd)

    def noted_read(os_, directory, name):
        done.append(("read", name))
        return read_disk(os_, directory, name)

    monkeypatch.setattr(Os, "fsync", noted_fsync)
    monkeypatch.setattr(Os, "read_disk", noted_read)
    ahead = ahead_of(place)
    fd = ahead.open_directory(place, create=False)
    ahead.read_disk(fd, newest)
    os.close(fd)
    assert done == [("fsync", "j"), ("fsync", newest), ("read", newest)]


def test_no_long_journal_is_held_in_memory(tmp_path, reads):
    driver = Driver(FakeOs())
    while len([name for name in driver.os.names if name.endswith(".jnl")]) <= MOST:
        driver.grow(700)
    laid_out(tmp_path / "j", contents_of(driver.os))
    found = opened(tmp_path / "j", ahead_of(tmp_path / "j"))
    assert len(found[2]) == len(driver.appended)
    assert "journal-ahead" not in {thread for thread, _ in reads}


def test_only_the_first_answer_is_from_before(tmp_path):
    place = tmp_path / "j"
    laid_out(place, contents_of(grown(snapshots=1).os))
    (place / "00000099.spare").write_bytes(b"\n" * SIZE)
    ahead = ahead_of(place)
    fd = ahead.open_directory(place, create=True)
    snapshot, segment = snapshots(place)[0].name, segments(place)[-1].name
    known = ahead.read_disk(fd, snapshot)
    (place / "00000099.spare").write_bytes(b"changed")
    old = ahead.read_disk(fd, segment)
    assert ahead.parse(snapshot, known).name == snapshot
    for name in (snapshot, segment):
        (place / name).write_bytes(b"changed")
        assert ahead.read_disk(fd, name) == b"changed"
    assert ahead.is_cached(fd, segment, old)
    assert not ahead.is_cached(fd, segment, old)
    assert ahead.is_cached(fd, segment, b"changed")
    assert ahead.holds_only(fd, "00000099.spare", b"\n") == (SIZE, True)
    assert ahead.holds_only(fd, "00000099.spare", b"\n") == (7, False)
    with pytest.raises(BadSnapshot):
        ahead.parse(snapshot, b"changed")
    os.close(fd)


def test_another_directory_is_read_when_it_is_asked_for(tmp_path):
    place, other = tmp_path / "j", tmp_path / "other"
    for one in (place, other):
        laid_out(one, contents_of(grown(snapshots=0).os))
    ahead = ahead_of(place)
    name = segments(other)[-1].name
    (other / name).write_bytes(b"changed")
    fd = ahead.open_directory(other, create=False)
    assert ahead.read_disk(fd, name) == b"changed"
    assert ahead.is_cached(fd, name, b"changed")
    assert ahead.holds_only(fd, name, b"\n") == (7, False)
    held = ahead.open_directory(place, create=False)
    assert ahead.read_disk(held, name) != b"changed"
    os.close(fd)
    os.close(held)


@pytest.mark.guarantee("J7")
def test_what_another_one_has_locked_is_not_read(tmp_path, reads):
    place = tmp_path / "j"
    assert Ahead.begin(place) is None
    laid_out(place, contents_of(grown(snapshots=1).os))
    ahead = ahead_of(place)
    fd = ahead.open_directory(place, create=True)
    ahead.read_disk(fd, segments(place)[-1].name)
    before, read = os.listdir("/proc/self/fd"), len(reads)
    with pytest.raises(JournalLocked):
        Ahead.begin(place)
    assert (os.listdir("/proc/self/fd"), len(reads)) == (before, read)
    os.close(fd)
    assert opened(place, ahead_of(place))[2]
