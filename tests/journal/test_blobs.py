"""The blob writer against a disk that fails, and a process that ends, at each of its calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.journal import blobs, durably
from supervisor.journal.blobs import Loss
from tests.journal.visited import visited

CONTENT = b'{"pad":"' + b"x" * 20_000 + b'"}'
DIGEST = blobs.digest_of(CONTENT)
SIZE = len(CONTENT)
ERRNOS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE]


class Died(BaseException):
    """The process ended here: nothing of it runs any more, no clean-up either."""


class Disk:
    """Counts the calls by which a blob is written, and fails the `nth`."""

    def __init__(self, patch: pytest.MonkeyPatch, nth: int, fault: BaseException) -> None:
        self.calls: list[str] = []
        self.nth = nth
        self.fault = fault
        self.dead = False
        for module, names in (
            (os, ("open", "write", "fsync", "close")),
            (Path, ("mkdir", "rename", "unlink")),
        ):
            for name in names:
                patch.setattr(module, name, self._counted(name, getattr(module, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            if self.dead:
                raise self.fault
            self.calls.append(name)
            if len(self.calls) == self.nth:
                self.dead = isinstance(self.fault, Died)
                raise self.fault
            return real(*given, **more)

        return call


class Unsynced:
    """What a power cut could take back just now: content, and names by their directory."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.content: set[Path] = set()
        self.names: dict[Path, set[Path]] = {}
        self.seen: list[str] = []
        real = os.open, os.write, os.fsync, Path.mkdir, Path.rename

        def open_(file: Path, flags: int, *more: int) -> int:
            if flags & os.O_CREAT:
                self._named(file)
            return real[0](file, flags, *more)

        def write(fd: int, data: bytes) -> int:
            self.content.add(_path(fd))
            self.seen += ["a part of it has its name"] if _path(fd).name == DIGEST else []
            return real[1](fd, data)

        def fsync(fd: int) -> None:
            real[2](fd)
            self.content.discard(_path(fd))
            self.names.pop(_path(fd), None)

        def mkdir(path: Path, *given: Any, **more: Any) -> None:
            if not path.exists():
                self._named(path)
            real[3](path, *given, **more)

        def rename(path: Path, target: Path) -> Path:
            self._named(target)
            self.seen += [f"{path.name} is not synced"] if path in self.content else []
            return real[4](path, target)

        for module, name, put in (
            (os, "open", open_),
            (os, "write", write),
            (os, "fsync", fsync),
            (Path, "mkdir", mkdir),
            (Path, "rename", rename),
        ):
            patch.setattr(module, name, put)

    def _named(self, path: Path) -> None:
        self.names.setdefault(path.parent, set()).add(path)


def _path(fd: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{fd}"))


@pytest.mark.guarantee("E8")
def test_no_power_cut_takes_back_a_blob_that_was_put(tmp_path: Path) -> None:
    """In a new directory, in an old one, and where somebody ended before he had synced it."""
    for start in ("new", "old", "left"):
        directory = tmp_path / start / "blobs"
        directory.parent.mkdir()
        if start != "new":
            directory.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            disk = Unsynced(patch)
            if start == "left":
                (directory / DIGEST).write_bytes(CONTENT)
                disk.names[directory] = {directory / DIGEST}
            blobs.put(directory, DIGEST, CONTENT)
            assert not disk.seen, start
            assert not disk.content, start
            assert not disk.names, start
        assert blobs.read(directory, DIGEST, SIZE) == CONTENT


@pytest.mark.guarantee("E8")
def test_no_changed_bit_and_no_cut_is_read_as_the_result(tmp_path: Path) -> None:
    blobs.put(tmp_path, DIGEST, CONTENT)
    for at in range(0, SIZE, 97):
        changed = bytearray(CONTENT)
        changed[at] ^= 1 << at % 8
        (tmp_path / DIGEST).write_bytes(changed)
        assert blobs.read(tmp_path, DIGEST, SIZE) is Loss.DAMAGED
        (tmp_path / DIGEST).write_bytes(CONTENT[:at])
        assert blobs.read(tmp_path, DIGEST, SIZE) is Loss.DAMAGED


def calls(tmp_path: Path) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, 0, Died())
        blobs.put(tmp_path / "counted", DIGEST, CONTENT)
    return disk.calls


@pytest.mark.guarantee("E8")
@pytest.mark.parametrize("fault", [Died(), *(OSError(n, os.strerror(n)) for n in ERRNOS)], ids=repr)
def test_a_blob_is_whole_or_not_there_wherever_its_writer_fails(
    tmp_path: Path, fault: BaseException
) -> None:
    whole = calls(tmp_path)
    assert whole.count("fsync") >= 2  # its content, and its name
    assert whole.index("fsync", whole.index("write")) < whole.index("rename")
    visited("fault while a blob is written", len(whole))
    for nth in range(1, len(whole) + 1):
        directory = tmp_path / str(nth)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, nth, fault)
            with pytest.raises(type(fault)):
                blobs.put(directory, DIGEST, CONTENT)
        assert blobs.read(directory, DIGEST, SIZE) in {CONTENT, Loss.MISSING}, whole[nth - 1]
        blobs.clear(directory)
        assert set(os.listdir(directory) if directory.exists() else ()) <= {DIGEST}
        blobs.put(directory, DIGEST, CONTENT)
        assert blobs.read(directory, DIGEST, SIZE) == CONTENT


@pytest.mark.guarantee("E8")
@pytest.mark.parametrize(
    ("harmed", "loss"),
    [
        (CONTENT[:-1], Loss.DAMAGED),
        (CONTENT + b" ", Loss.DAMAGED),
        (CONTENT.replace(b"x", b"y", 1), Loss.DAMAGED),
        (b"", Loss.DAMAGED),
        (None, Loss.MISSING),
    ],
    ids=["cut", "longer", "flipped", "empty", "removed"],
)
def test_what_is_not_the_content_is_said_and_the_next_writer_replaces_it(
    tmp_path: Path, harmed: bytes | None, loss: Loss
) -> None:
    blobs.put(tmp_path, DIGEST, CONTENT)
    (tmp_path / DIGEST).unlink()
    if harmed is not None:
        (tmp_path / DIGEST).write_bytes(harmed)
    assert blobs.read(tmp_path, DIGEST, SIZE) is loss
    blobs.put(tmp_path, DIGEST, CONTENT)
    assert blobs.read(tmp_path, DIGEST, SIZE) == CONTENT


def test_what_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / DIGEST).mkdir()
    with pytest.raises(OSError, match="directory"):
        blobs.read(tmp_path, DIGEST, SIZE)


def test_one_that_is_there_is_written_once_and_its_name_made_durable_again(tmp_path: Path) -> None:
    blobs.put(tmp_path, DIGEST, CONTENT)
    before = (tmp_path / DIGEST).stat().st_ino
    with pytest.MonkeyPatch.context() as patch:
        synced: list[Path] = []
        patch.setattr(durably, "sync", synced.append)
        blobs.put(tmp_path, DIGEST, CONTENT)
    assert (tmp_path / DIGEST).stat().st_ino == before
    assert tmp_path in synced


def test_what_is_stored_is_told_by_name_and_what_cannot_be_removed_stays(tmp_path: Path) -> None:
    directory = tmp_path / "blobs"
    assert blobs.stored(directory) == []
    blobs.put(directory, DIGEST, CONTENT)
    other = "0" * 64
    (directory / other).mkdir()  # nothing that can be unlinked
    (directory / f"{DIGEST}.1-0.tmp").write_bytes(b"half")
    assert sorted(blobs.stored(directory)) == sorted([DIGEST, other])
    assert blobs.remove(directory, [other, DIGEST]) == 1
    assert blobs.stored(directory) == [other]
    blobs.clear(directory)
    assert [one.name for one in directory.iterdir()] == [other]
