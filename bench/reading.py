"""A long journal read back: opened, verified offline, and against the least that could be done.

The least is a loop over lines that computes each one's checksum and digest and compares
nothing. A reader's memory is its own peak in a process of its own, given as VmHWM.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import attrs

from bench.commits import ALIGN, PAYLOAD_BYTES, SEGMENT_BYTES, opened, payload
from bench.figures import Series
from supervisor.journal.codec import OVERHEAD, SECTOR, aligned
from supervisor.journal.file import REAL
from supervisor.journal.log import Journal
from supervisor.journal.segments import START, Writer, make_spare
from supervisor.journal.verify import verify

ROOT = Path(__file__).resolve().parents[1]
OPEN, VERIFY, LEAST = "open", "verify", "readline, crc32, SHA-256"


@attrs.frozen
class Reading:
    """What reading `records` took, a run at a time, by what read them; peaks in KiB."""

    records: int
    batch: int
    series: dict[str, Series]

    def per_s(self, what: str) -> float:
        return self.records / self.series[what].median_ns * 1e9


@attrs.frozen
class Peak:
    """The most memory that `verify` had at once, in KiB, for so many records."""

    records: int
    kib: int


def write_history(directory: Path, records: int, batch: int) -> None:
    """A journal of `records` decisions in batches of `batch`, as one life would leave it."""
    most = aligned((PAYLOAD_BYTES + OVERHEAD) * batch, ALIGN)
    with opened(directory) as fd:
        writer, segments = Writer(REAL, fd, START, align=ALIGN), 0
        for first in range(0, records, batch):
            if writer.rest < most:
                segments += 1
                writer.rotate(make_spare(REAL, fd, segments, SEGMENT_BYTES))
            writer.commit([payload(at) for at in range(first, min(first + batch, records))])
        writer.close()


async def measure(directory: Path, records: int, batch: int, runs: int) -> Reading:
    """Each reader in turn; RuntimeError when one of them counts other records."""
    write_history(directory, records, batch)
    return await measure_again(directory, records, batch, runs)


async def measure_again(directory: Path, records: int, batch: int, runs: int) -> Reading:
    """Likewise, of a history that is there."""
    readers: dict[str, Callable[[Path], int]] = {
        LEAST: _least,
        VERIFY: lambda path: verify(path).frames,
    }
    found: dict[str, list[tuple[int, ...]]] = {OPEN: [], **{name: [] for name in readers}}
    for _ in range(runs):
        for name, read in readers.items():
            begin = time.perf_counter_ns()
            count = read(directory)
            found[name].append((time.perf_counter_ns() - begin,))
            _check(name, count, records)
        found[OPEN].append((await _open(directory, records),))
    return Reading(records, batch, {name: Series(tuple(one)) for name, one in found.items()})


async def _open(directory: Path, records: int) -> int:
    """As a start does it: from the disk and not the cache, every decision handed over."""
    count = 0

    def on_frame(_frame: object) -> None:
        nonlocal count
        count += 1

    begin = time.perf_counter_ns()
    journal = Journal.open(directory, on_frame, segment_bytes=SEGMENT_BYTES, align=ALIGN)
    spent = time.perf_counter_ns() - begin
    await journal.close()
    _check(OPEN, count, records)
    return spent


def _least(directory: Path) -> int:
    """The decisions; of a segment's unwritten rest it sees a sector."""
    return sum(_least_of(file) for file in sorted(directory.glob("*.jnl")))


def _least_of(file: Path) -> int:
    count = filler = 0
    with open(file, "rb") as lines:
        for line in lines:
            if len(line) > 1:
                filler = 0
                crc32(line[9:-3])
                sha256(line[:-1]).hexdigest()
                count += not line.endswith(b"}\t.\n")  # the journal's own
            elif (filler := filler + 1) > SECTOR:
                break
    return count


def peak(directory: Path) -> int:
    """KiB. The verifier alone, as on a bare Python, in a process of its own."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from supervisor.journal.verify import main\n"
        f"status = main([{str(directory)!r}, '--require', 'chain'])\n"
        "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "sys.exit(f'failed: {status}' if status else print(peak[0].split()[1]))"
    )
    said = subprocess.run(
        (sys.executable, "-I", "-S", "-c", code), check=True, capture_output=True, text=True
    )
    return int(said.stdout.split()[-1])


def _check(name: str, count: int, records: int) -> None:
    if count != records:
        raise RuntimeError(f"{name} found {count} records of {records}")
