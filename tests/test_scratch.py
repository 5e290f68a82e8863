"""The scratch file: what is put there is read back, room is used again, and nothing needs it."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from supervisor import scratch as scratch_module
from supervisor.core.contents import Contents
from supervisor.scratch import Scratch

KIB = 1024


def bytes_of(n: int, size: int) -> bytes:
    return random.Random(n).randbytes(size)


def test_what_was_put_there_is_read_back_and_the_file_has_no_name(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    contents = [Contents(bytes_of(n, 100 + n)) for n in range(9)]
    for one in contents:
        assert one.in_memory
        one.keep_in(scratch.put)
        assert not one.in_memory
    for n, one in enumerate(contents):
        assert len(one) == 100 + n
        assert one[:] == bytes_of(n, 100 + n)
        assert one[7:30] == bytes_of(n, 100 + n)[7:30]
    assert scratch.used == sum(map(len, contents))
    assert not [*tmp_path.iterdir()]


def test_what_is_there_is_not_put_there_again(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    one = Contents(b"abc")
    one.keep_in(scratch.put)
    one.keep_in(scratch.put)
    assert scratch.used == 3


def test_room_that_nobody_has_any_more_is_used_again(tmp_path: Path) -> None:
    """Of many that come and go the file takes hardly more than those that are there at once."""
    scratch, chosen = Scratch(tmp_path), random.Random(1)
    kept: dict[int, Contents] = {}
    for n in range(2_000):
        if len(kept) == 20:
            del kept[chosen.choice([*kept])]
        kept[n] = Contents(bytes_of(n, chosen.randrange(1, 4 * KIB)))
        kept[n].keep_in(scratch.put)
    for n, one in kept.items():
        assert one[:] == bytes_of(n, len(one))
    assert scratch.used < 3 * 20 * 2 * KIB
    kept.clear()
    del one
    last = Contents(b"last")
    last.keep_in(scratch.put)
    assert (last[:], scratch.used) == (b"last", 4)


def test_on_a_full_disk_it_stays_in_memory_and_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch(tmp_path)
    first = Contents(b"first")
    first.keep_in(scratch.put)
    pwrite = os.pwrite

    def fill(fd: int, content: bytes, begin: int) -> int:
        """One byte more has room."""
        if begin > len(b"first"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(fd, content[:1], begin)

    monkeypatch.setattr(scratch_module.os, "pwrite", fill)
    second = Contents(b"second")
    second.keep_in(scratch.put)
    assert second.in_memory
    assert scratch.used == len(b"first")
    monkeypatch.undo()
    second.keep_in(scratch.put)
    assert (first[:], second[:]) == (b"first", b"second")
    assert not second.in_memory


def test_where_no_file_can_be_without_a_name_all_stays_in_memory(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "none")
    one = Contents(b"abc")
    one.keep_in(scratch.put)
    assert one.in_memory
    assert (one[1:], scratch.used) == (b"bc", 0)


def test_what_the_disk_lost_is_not_read_as_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Contents(b"abc")
    one.keep_in(Scratch(tmp_path).put)
    monkeypatch.setattr(scratch_module.os, "pread", lambda *_: b"ab")
    with pytest.raises(OSError, match="lost"):
        one[:]


def test_it_is_closed_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    before = {*os.listdir("/proc/self/fd")}
    one = Contents(b"abc")
    one.keep_in(Scratch(tmp_path).put)
    assert {*os.listdir("/proc/self/fd")} - before
    del one
    assert {*os.listdir("/proc/self/fd")} == before
