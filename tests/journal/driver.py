"""A journal on a disk that forgets, driven one call at a time, and what must hold of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from supervisor.journal import codec, opening, segments
from supervisor.journal.codec import Frame
from supervisor.journal.errors import JournalError
from tests.journal.fakeos import FakeOs, contents_of

SIZE = 2048


def payload(number: int, size: int = 0) -> bytes:
    return b'[{"n":%d,"x":"%b"}]' % (number, b"%x" % (number % 16) * size)


class Broken(AssertionError):
    """A promise that did not hold; a crash inside the journal's own code counts too."""


class Driver:
    """Appends in order and remembers what was promised. One segment is `size` bytes."""

    def __init__(self, os_: FakeOs, *, align: int = 512, size: int = SIZE) -> None:
        self.os, self.align, self.size = os_, align, size
        self.appended: list[bytes] = []  # may be on disk
        self.promised = 0  # of these: must be
        self.served: list[Frame] = []
        self.number = 0
        self.open()

    def open(self) -> None:
        self.served = []
        opened = opening.open_directory(
            self.os, 0, self.served.append, segment_bytes=self.size, align=self.align
        )
        self.writer, self.spares = opened.writer, opened.spares
        self.verdict = "torn-tail" if opened.walked.tail.torn else "clean"
        self.appended = [frame.payload for frame in self.served]
        self.promised = len(self.appended)

    def append(self, payloads: Sequence[bytes], *, decisions: bool = True) -> None:
        bound = sum(len(p) + codec.OVERHEAD for p in payloads)
        if bound > self.writer.rest:
            self.rotate()
        if decisions:
            self.appended += payloads
        self.writer.commit(payloads)
        self.promised = len(self.appended)

    def grow(self, *sizes: int) -> None:
        payloads = [payload(self.number + i, size) for i, size in enumerate(sizes)]
        self.number += len(sizes)
        self.append(payloads)

    def rotate(self) -> None:
        if not self.spares:
            self.spare()
        self.writer.rotate(self.spares.pop(0))

    def mark(self) -> None:
        self.append([codec.mark("idle")], decisions=False)

    def spare(self) -> None:
        taken = [int(name[:8]) for name in self.os.names if name[:8].isdecimal()]
        number = max(taken, default=0) + 1
        self.spares.append(segments.make_spare(self.os, 0, number, self.size))


def recovered(os_: FakeOs, *, align: int = 512, size: int = SIZE) -> Driver:
    """Open what a crash left; every way to fail is a broken promise."""
    driver = Driver.__new__(Driver)
    driver.os, driver.align, driver.size, driver.number = os_, align, size, 5000
    try:
        driver.open()
    except JournalError as error:
        raise Broken(f"a legitimate state is refused: {error}") from error
    except Exception as error:
        raise Broken(f"opening crashed: {error!r}") from error
    return driver


def holds(after: Driver, appended: Sequence[bytes], promised: int) -> None:
    """Recovered is a prefix of what was appended, and has all that was promised."""
    found = [frame.payload for frame in after.served]
    if found != list(appended[: len(found)]):
        raise Broken(f"not a prefix: {len(found)} frames")
    if len(found) < promised:
        raise Broken(f"{promised - len(found)} acknowledged frames are lost")
    positions = [frame.position for frame in after.served]
    if positions != sorted(set(positions)):
        raise Broken("positions repeat or go back")


class Enumerator:
    """Crashes after every call of a driver, checks each distinct state once, and counts."""

    def __init__(
        self, seed: int, *, limit: int, align: int = 512, again_every: int = 16, size: int = SIZE
    ) -> None:
        self.rng = random.Random(seed)
        self.limit, self.align, self.again_every = limit, align, again_every
        self.size = max(size, 4 * align)
        self.states = self.killed = self.nested = 0
        self.seen: set[int] = set()
        self.verdicts: dict[str, int] = {}

    def watch(self, driver: Driver) -> None:
        driver.os.after = lambda _call: self.crash(driver)

    def crash(self, driver: Driver) -> None:
        appended, promised = list(driver.appended), driver.promised
        for image in driver.os.power_cuts(self.rng, self.limit):
            state = hash((frozenset(contents_of(image).items()), tuple(appended), promised))
            if state in self.seen:
                continue
            self.seen.add(state)
            self.states += 1
            again = self.states % self.again_every == 0
            copy = image.killed() if again else image
            after = recovered(image, align=self.align, size=self.size)
            self.verdicts[after.verdict] = self.verdicts.get(after.verdict, 0) + 1
            holds(after, appended, promised)
            if again:
                self.crash_again(after)
                self.crash_inside_recovery(copy, appended, promised)
        self.kill(driver, appended, promised)

    def kill(self, driver: Driver, appended: list[bytes], promised: int) -> None:
        """Only the process dies; what its successor serves must survive a power cut."""
        self.killed += 1
        after = recovered(driver.os.killed(), align=self.align, size=self.size)
        holds(after, appended, promised)
        served = [frame.payload for frame in after.served]
        for image in after.os.power_cuts(self.rng, 4):
            holds(recovered(image, align=self.align, size=self.size), served, len(served))

    def crash_again(self, after: Driver) -> None:
        """Appends after a recovery survive the next crash."""
        after.grow(40, 300)
        appended, promised = list(after.appended), after.promised
        for image in after.os.power_cuts(self.rng, 4):
            self.nested += 1
            holds(recovered(image, align=self.align, size=self.size), appended, promised)

    def crash_inside_recovery(self, image: FakeOs, appended: list[bytes], promised: int) -> None:
        """A crash after any call of the recovery itself; then the recovery of that."""

        def again(_call: str) -> None:
            for second in image.power_cuts(self.rng, 3):
                self.nested += 1
                holds(recovered(second, align=self.align, size=self.size), appended, promised)

        image.after = again
        recovered(image, align=self.align, size=self.size)
