"""Two disks that forget: a list of payloads, and the real journal on a fake file system.

`write` gives a frame to the disk, `sync` makes everything durable; a crash keeps what was
durable and any prefix of the rest.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from tests.journal.driver import Driver, recovered
from tests.journal.fakeos import FakeOs

SEGMENT_BYTES = 16_384


class Disk(Protocol):
    def commit(self, payloads: Sequence[bytes]) -> None:
        """Write a batch and sync it."""

    def crash(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        """The power goes while `unsynced` is being written; what the disk then has."""


class ListDisk:
    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def commit(self, payloads: Sequence[bytes]) -> None:
        self.kept += payloads

    def crash(self, rng: random.Random, unsynced: Sequence[bytes]) -> list[bytes]:
        self.kept += unsynced[: rng.randint(0, len(unsynced))]
        return list(self.kept)


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
        self.driver = recovered(image, size=SEGMENT_BYTES)
        return [frame.payload for frame in self.driver.served]

    def _cut(self, rng: random.Random, unsynced: Sequence[bytes]) -> None:
        calls = rng.randint(1, 6)

        def countdown(_call: str) -> None:
            nonlocal calls
            calls -= 1
            if not calls:
                raise PowerCut

        self.driver.os.before = countdown
        try:
            self.commit(unsynced[: rng.randint(1, len(unsynced))])
        except PowerCut:
            pass
        finally:
            self.driver.os.before = lambda _call: None
