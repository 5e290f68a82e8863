"""A journal with a long past: real decisions, written by the real writer.

    python -m bench.history DIRECTORY --records 1_000_000 --live 100 --kept 1_000

First come `live` operations that a crash interrupted with an effect unknown; then finished
ones, each a dispatch with one effect that was applied. The newest `kept` of these are not
evicted. The decisions of one are those of the one before with other names and times: two
are decided and compared, and the rest is made from the first, which is fifty times as fast.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.deciding import MS, Deciding, terms
from supervisor.core.contract import Contract
from supervisor.core.state import State
from supervisor.journal.commit import BATCH_BYTES, BATCH_FRAMES
from supervisor.journal.file import REAL
from supervisor.journal.records import encode as encode_records
from supervisor.journal.segments import START, Writer, make_spare

_AGO = 3_600_000 * MS  # recent, so that nothing of it is let go for its age
_NUMBER = re.compile(rb"(?<![0-9a-f])[0-9]{19,20}(?![0-9a-f])")


class Made(NamedTuple):
    """What was written; the directory's newest line stands at `position`."""

    records: int
    frames: int
    position: int
    bytes: int


class _Pattern:
    """The frames of one operation, to be made again for a later one.

    Names end in 20 digits and times have 19; between operations both grow evenly.
    """

    def __init__(self, first: list[bytes], second: list[bytes]) -> None:
        self._parts = [self._part(*pair) for pair in zip(first, second, strict=True)]

    def _part(self, first: bytes, second: bytes) -> tuple[bytes, list[tuple[int, int]]]:
        names = [int(one) for one in _NUMBER.findall(first)]
        later = [int(one) for one in _NUMBER.findall(second)]
        text = _NUMBER.sub(lambda one: b"%%0%dd" % len(one[0]), first.replace(b"%", b"%%"))
        assert text == _NUMBER.sub(lambda one: b"%%0%dd" % len(one[0]), second.replace(b"%", b"%%"))
        return text, [(one, two - one) for one, two in zip(names, later, strict=True)]

    def frames(self, later: int) -> list[bytes]:
        """Those of the operation that comes so many operations after the first."""
        return [
            text % tuple(start + later * step for start, step in numbers)
            for text, numbers in self._parts
        ]


class _History(Deciding):
    """Collects the frames of what is decided; writes them in batches as large as the daemon's."""

    def __init__(self, directory: Path, *, segment_bytes: int, kept: int) -> None:
        super().__init__(
            terms(Contract.NO_SAFE_RETRY),
            State(),
            at=time.time_ns() - _AGO,
            on_frame=lambda records: self.put(encode_records(records), len(records)),
            operations_kept=kept,
        )
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = REAL.open_directory(directory, create=False)
        self._size = segment_bytes
        self._writer = Writer(REAL, self._fd, START, align=512)
        self._most = min(BATCH_BYTES, segment_bytes // 4)
        self._batch: list[bytes] = []
        self._batched = 0
        self._number = 0
        self.records = self.frames = self.bytes = 0
        self._taken: list[bytes] = []
        self._rotate()

    def put(self, payload: bytes, records: int) -> None:
        if len(self._batch) == BATCH_FRAMES or self._batched + len(payload) > self._most:
            self.flush()
        self._batch.append(payload)
        self._taken.append(payload)
        self._batched += len(payload)
        self.records += records
        self.frames += 1

    def flush(self) -> None:
        if self._batched + 256 * len(self._batch) > self._writer.rest:
            self._rotate()
        if self._batch:
            self.bytes += self._writer.commit(self._batch)
        self._batch, self._batched = [], 0

    def close(self) -> int:
        self.flush()
        self._writer.close()
        REAL.close(self._fd)
        return self._writer.point.position

    def _rotate(self) -> None:
        self._number += 1
        self._writer.rotate(make_spare(REAL, self._fd, self._number, self._size))

    def again(self, frames: list[bytes], records: int) -> None:
        """Frames of an operation of so many records, that nobody decided."""
        for payload in frames:
            self.put(payload, 0)
        self.records += records

    def one(self) -> list[bytes]:
        """The frames of one more finished operation."""
        self._taken = []
        self.finished(self.submitted())
        return self._taken


def make(
    directory: Path,
    *,
    records: int = 1_000_000,
    live: int = 100,
    kept: int = 1_000,
    segment_bytes: int = 16 << 20,
) -> Made:
    """Write a journal of at least so many records into `directory`, which is new or empty."""
    history = _History(directory, segment_bytes=segment_bytes, kept=kept + live)
    history.restart()
    for _ in range(live):
        history.began(history.submitted())
    history.restart()
    first = history.one()
    before = history.records
    second = history.one()
    each = history.records - before
    if kept * each < records:  # from here on each that is accepted evicts one
        for _ in range(kept - 2):
            history.one()
        first, before = history.one(), history.records
        second = history.one()
        each = history.records - before
    pattern = _Pattern(first, second)
    assert pattern.frames(1) == second
    assert pattern.frames(2) == history.one(), "operations grow evenly"
    for later in range(3, 3 + max(0, records - history.records) // each + 1):
        history.again(pattern.frames(later), each)
    position = history.close()
    return Made(history.records, history.frames, position, history.bytes)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.history", description="Write a long journal.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--live", type=int, default=100)
    parser.add_argument("--kept", type=int, default=1_000)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    made = make(options.directory, records=options.records, live=options.live, kept=options.kept)
    took = time.monotonic() - started
    print(f"{made.records} records, {made.frames} frames, {made.bytes} bytes, {took:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
