"""Two disks that forget and fail: a list of payloads, and the real journal on a fake system.

`write` gives a frame to the disk, `sync` makes everything durable; a crash keeps what was
durable and any prefix of the rest.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Protocol

from tests.journal.driver import Driver, recovered
from tests.journal.fakeos import FakeOs

SEGMENT_BYTES = 16_384


class Disk(Protocol):
    def commit(self, payloads: Sequence[bytes]) -> None:
        """Write a batch and sync it."""

    def crash(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        """The power goes while `unsynced` is being written; what the disk then has."""

    def fail(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        """Writing `unsynced` fails, and the daemon ends of it; what its successor reads."""


class ListDisk:
    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def commit(self, payloads: Sequence[bytes]) -> None:
        self.kept += payloads

    def crash(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        self.kept += unsynced[: rng.randint(0, len(unsynced))]
        return list(self.kept)

    def fail(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        return self.crash(rng, unsynced)


class PowerCut(BaseException):
    """Not an error that anything could handle."""


class JournalDisk:
    """The journal's own writer and recovery, cut anywhere inside a commit."""

    def __init__(self) -> None:
        self.driver = Driver(FakeOs(), size=SEGMENT_BYTES)

    def commit(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self.driver.append([payload])

    def crash(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        if unsynced:
            self._cut(rng, unsynced)
        if rng.random() < 0.3:
            image = self.driver.os.killed()
        else:
            image = next(iter(self.driver.os.power_cuts(rng, 1)))
        return self._started(rng, image)

    def fail(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        """A sync fails, or a write is short; the same kernel goes on, its cache kept or not."""
        os_ = self.driver.os
        call = rng.choice(["fdatasync", "fdatasync", "pwrite"])

        def fdatasync(fd: int) -> None:
            os_.lose(fd, rng)
            raise OSError(errno.EIO, "failed")

        def pwrite(fd: int, data: bytes, offset: int) -> int:
            os_.put(fd, data[: rng.randrange(len(data))] or b"\n", offset)
            raise OSError(errno.ENOSPC, "full")

        setattr(os_, call, {"fdatasync": fdatasync, "pwrite": pwrite}[call])
        with contextlib.suppress(OSError):
            self.commit(unsynced)
        os_.sticky = rng.random() < 0.5
        return self._started(rng, os_.killed())

    def _started(self, rng: random.Random, image: FakeOs) -> list[bytes]:
        """A start; and every third is cut off anywhere, and the next one as well, perhaps."""
        while rng.random() < 0.3:
            with _cut_off(image, rng.randint(1, 12)) as cut:
                recovered(image, size=SEGMENT_BYTES)
            if not cut:
                break
            alive = rng.random() < 0.5
            image = image.killed() if alive else next(iter(image.power_cuts(rng, 1)))
        self.driver = recovered(image.killed(), size=SEGMENT_BYTES)
        return [frame.payload for frame in self.driver.served]

    def _cut(self, rng: random.Random, unsynced: Sequence[bytes]) -> None:
        with _cut_off(self.driver.os, rng.randint(1, 6)):
            self.commit(unsynced[: rng.randint(1, len(unsynced))])


@contextlib.contextmanager
def _cut_off(os_: FakeOs, calls: int) -> Iterator[list[str]]:
    """Nothing goes on from the call of this number, which is put into what is given."""
    left, cut = itertools.count(calls - 1, -1), list[str]()

    def countdown(call: str) -> None:
        if not next(left):
            cut.append(call)
            raise PowerCut

    os_.before = countdown
    try:
        yield cut
    except PowerCut:
        pass
    finally:
        os_.before = lambda _call: None
