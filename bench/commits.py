"""What one durable commit costs: the disk alone, and the journal from a thread and from a loop.

Every subject keeps its files below a directory of its own and commits records of the same
bytes. A turn is some commits back to back; what must be made ready beforehand (the next
segment, the records) is made before its clock starts.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import trio

from supervisor.journal.codec import OVERHEAD, aligned, encode
from supervisor.journal.file import REAL
from supervisor.journal.log import Journal
from supervisor.journal.segments import START, Writer, make_spare

SEGMENT_BYTES, ALIGN = 16 << 20, 512
PAYLOAD_BYTES = 300


@attrs.frozen
class Turn:
    """Some commits: what each took, and all of them together, in ns."""

    durations: list[int]
    elapsed_ns: int


class Subject(Protocol):
    """Something that makes records durable."""

    @property
    def name(self) -> str: ...
    @property
    def batch(self) -> int:
        """Records in a commit that is waited for."""
        ...

    async def turn(self, commits: int) -> Turn: ...


def key(number: int) -> str:
    """What nothing else may be recorded under: a call, an attempt, an ordinal."""
    return f"call_{number:020d}/0/0"


def payload(number: int) -> bytes:
    """A record as the daemon writes them, in `PAYLOAD_BYTES` bytes; no two are the same."""
    head = b'[{"call":"%b","k":"effect_announced","note":"' % key(number).encode()
    return head + b"x" * (PAYLOAD_BYTES - len(head) - 3) + b'"}]'


class Records:
    """Numbered records, so that no key comes twice."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, commits: int, batch: int) -> list[list[tuple[str, bytes]]]:
        """Key and payload of each record, commit by commit."""
        first, self._next = self._next, self._next + commits * batch
        numbers = range(first, self._next)
        pairs = [(key(number), payload(number)) for number in numbers]
        return [pairs[at : at + batch] for at in range(0, len(pairs), batch)]


def timed(commits: Sequence[Callable[[], object]]) -> Turn:
    """One after the other, on this thread."""
    durations: list[int] = []
    begin = before = time.perf_counter_ns()
    for commit in commits:
        commit()
        after = time.perf_counter_ns()
        durations.append(after - before)
        before = after
    return Turn(durations, before - begin)


@attrs.define
class Disk:
    """pwrite and fdatasync of as many bytes, into the same kind of segment: the floor."""

    batch: int
    _fd: int
    _size: int
    _at: int = 0

    @property
    def name(self) -> str:
        return "pwrite, fdatasync"

    async def turn(self, commits: int) -> Turn:
        line, _ = encode(1, 1, "0" * 64, payload(0))
        data = line * self.batch
        step = aligned(len(data), ALIGN)
        if self._at + step * commits > self._size:
            self._at = 0  # a plain overwrite either way

        def commit() -> None:
            os.pwrite(self._fd, data, self._at)
            os.fdatasync(self._fd)
            self._at += step

        return timed([commit] * commits)


@contextlib.contextmanager
def disk(directory: Path, batch: int) -> Generator[Disk]:
    with opened(directory) as fd:
        spare = make_spare(REAL, fd, 1, SEGMENT_BYTES)
        file = REAL.open(fd, spare.name)
        try:
            yield Disk(batch, file, spare.size)
        finally:
            os.close(file)


@attrs.define
class OneThread:
    """The journal's writer called directly: frame, checksum, chain, pwrite, fdatasync."""

    batch: int
    _directory: int
    _writer: Writer
    _records: Records = attrs.field(factory=Records)
    _segments: int = 0

    @property
    def name(self) -> str:
        return "journal, one thread"

    async def turn(self, commits: int) -> Turn:
        most = aligned((PAYLOAD_BYTES + OVERHEAD) * self.batch, ALIGN)
        if self._writer.rest < most * commits:
            self._segments += 1
            self._writer.rotate(make_spare(REAL, self._directory, self._segments, SEGMENT_BYTES))
        batches = [[data for _, data in one] for one in self._records.take(commits, self.batch)]
        return timed([functools.partial(self._writer.commit, batch) for batch in batches])


@contextlib.contextmanager
def one_thread(directory: Path, batch: int) -> Generator[OneThread]:
    with opened(directory) as fd:
        writer = Writer(REAL, fd, START, align=ALIGN)
        try:
            yield OneThread(batch, fd, writer)
        finally:
            writer.close()


@attrs.define
class UnderTrio:
    """Tasks that each append one record and wait until it is durable, again and again.

    A turn is so many commits of each task, and a duration one task's wait for one record.
    """

    callers: int
    _journal: Journal
    _records: Records = attrs.field(factory=Records)
    batch: int = 1

    @property
    def name(self) -> str:
        return f"journal, trio, {self.callers} caller{'s' * (self.callers > 1)}"

    async def turn(self, commits: int) -> Turn:
        each = self._records.take(self.callers, commits)
        durations: list[int] = []

        async def caller(records: list[tuple[str, bytes]]) -> None:
            journal = self._journal
            for _, data in records:
                begin = time.perf_counter_ns()
                while not journal.admits(len(data), 0):
                    await journal.ready(len(data))
                await journal.durable(journal.append(data))
                durations.append(time.perf_counter_ns() - begin)

        begin = time.perf_counter_ns()
        async with trio.open_nursery() as nursery:
            for records in each:
                nursery.start_soon(caller, records)
        return Turn(durations, time.perf_counter_ns() - begin)


@contextlib.asynccontextmanager
async def under_trio(directory: Path, callers: int) -> AsyncGenerator[UnderTrio]:
    journal = Journal.open(directory, lambda _frame: None, segment_bytes=SEGMENT_BYTES, align=ALIGN)
    journal.start()
    try:
        yield UnderTrio(callers, journal)
    finally:
        await journal.close()


@contextlib.contextmanager
def opened(directory: Path) -> Generator[int]:
    fd = REAL.open_directory(directory, create=True)
    try:
        yield fd
    finally:
        os.close(fd)
