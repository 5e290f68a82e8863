"""Every system call fails once, in a loop: nothing acknowledged is lost, nothing is retried."""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable

import pytest

from supervisor.journal.errors import JournalCorrupt, JournalError, JournalIOError
from tests.journal.driver import SIZE, Driver, holds, recovered
from tests.journal.fakeos import FakeOs, contents_of, from_contents
from tests.journal.visited import visited

ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EINTR]
SHORT: dict[str, Callable[[int], int]] = {
    "short by one": lambda n: n - 1,
    "one byte": lambda n: 1,
    "nothing": lambda n: 0,
}


class FaultyOs(FakeOs):
    """Fails at call number `at`, and from then on when `always`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.at, self.always = -1, False
        self.kind: int | str = errno.EIO
        self.fired: list[str] = []
        self.rng = random.Random(1)
        self.before = self._count

    def arm(self, at: int, kind: int | str, *, always: bool) -> None:
        self.calls, self.at, self.kind, self.always = [], at, kind, always

    def _due(self) -> bool:
        number = len(self.calls) - 1
        return self.at >= 0 and (number == self.at or (self.always and number > self.at))

    def _count(self, call: str) -> None:
        self.calls.append(call)
        if self._due() and call not in ("fdatasync", "fsync") and isinstance(self.kind, int):
            self.fired.append(call)
            raise OSError(self.kind, os.strerror(self.kind))

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self._count("pwrite")
        if self._due() and isinstance(self.kind, str):
            self.fired.append("pwrite")
            count = SHORT[self.kind](len(data))
            self.put(fd, data[:count], offset) if count else None
            return count
        self.put(fd, data, offset)
        return len(data)

    def fdatasync(self, fd: int) -> None:
        self._failing_sync("fdatasync", fd)

    def fsync(self, fd: int) -> None:
        self._failing_sync("fsync", fd)

    def _failing_sync(self, call: str, fd: int) -> None:
        self._count(call)
        if not self._due() or isinstance(self.kind, str):
            return self._sync_now(fd)
        self.fired.append(call)
        if fd > 0:
            self.lose(fd, self.rng)
        raise OSError(self.kind, os.strerror(self.kind))

    def _sync_now(self, fd: int) -> None:
        if fd > 0:
            self._sync(self._inode(fd))
        else:
            self._sync_names(fd)


def of(kind: int | str) -> str:
    return ", short write" if isinstance(kind, str) else ""


def work(driver: Driver) -> None:
    driver.grow(30)
    driver.grow(300, 20)
    driver.spare()
    driver.grow(600, 150)
    driver.mark()
    driver.grow(500)


def run_until_fault(at: int, kind: int | str, *, always: bool, sticky: bool) -> FaultyOs | None:
    """The disk after the fault was met by the restart that follows; None when none fired."""
    os_ = FaultyOs()
    driver = Driver(os_)
    os_.sticky = sticky
    os_.arm(at, kind, always=always)
    try:
        work(driver)
    except OSError:
        assert os_.fired
    if not os_.fired:
        return None
    restart(os_, driver)
    return os_


def restart(os_: FaultyOs, driver: Driver) -> None:
    """The fault is over. The same kernel, a new process; then more work and a power cut."""
    after = recovered(os_.killed())
    holds(after, driver.appended, driver.promised)
    after.grow(40)
    after.grow(5, 5)
    for image in after.os.power_cuts(random.Random(2), 4):
        holds(recovered(image), after.appended, after.promised)
    for image in os_.power_cuts(random.Random(3), 4):
        holds(recovered(image), driver.appended, driver.promised)


@pytest.mark.guarantee("J1", "J3")
@pytest.mark.parametrize("sticky", [False, True], ids=["cache dropped", "cache kept"])
@pytest.mark.parametrize("kind", [*ERRORS, *SHORT])
def test_a_fault_at_any_call_loses_nothing_acknowledged(kind, sticky):
    fired: list[str] = []
    for always in (False, True):
        at = 0
        while (os_ := run_until_fault(at, kind, always=always, sticky=sticky)) is not None:
            fired.append(os_.fired[0])
            at += 1
    visited(f"fault while writing{of(kind)}", len(fired))
    expected = {"pwrite"} if isinstance(kind, str) else {"pwrite", "fdatasync", "fsync", "rename"}
    assert expected <= set(fired)


@pytest.mark.guarantee("J3")
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_failed_commit_makes_no_further_call(call):
    os_ = FaultyOs()
    driver = Driver(os_)
    os_.arm({"pwrite": 0, "fdatasync": 1}[call], errno.EIO, always=False)
    with pytest.raises(OSError, match="Input/output"):
        driver.grow(10)
    assert os_.calls[-1] == call
    assert os_.fired == [call]


@pytest.mark.guarantee("J8")
def test_a_spare_that_cannot_be_made_leaves_nothing_behind():
    at = 0
    while True:
        os_ = FaultyOs()
        driver = Driver(os_)
        names = set(os_.names)
        os_.arm(at, errno.ENOSPC, always=False)
        try:
            driver.spare()
        except OSError as error:
            assert error.errno == errno.ENOSPC
        if not os_.fired:
            break
        assert {name for name in os_.names if not name.endswith(".spare")} == names
        driver.grow(5)
        at += 1
    assert at >= 5


def faulty(image: FakeOs) -> FaultyOs:
    """The same disk under a new kernel's faults."""
    new, copy = FaultyOs(), image.killed()
    new.inodes, new.names, new.durable_names = copy.inodes, copy.names, copy.durable_names
    new.moves, new.sticky, new._number = copy.moves, copy.sticky, copy._number
    return new


def clean() -> Driver:
    driver = Driver(FakeOs())
    work(driver)
    return driver


def torn() -> Driver:
    """Half a batch at the end, and a spare that stands ready."""
    driver = clean()
    driver.spare()
    fd = driver.os.open(0, driver.writer.point.name)
    driver.os.put(fd, b"torn" * 75, driver.writer._next)
    driver.os.fdatasync(fd)
    return driver


def stale_cache() -> Driver:
    """A failed sync left a batch in the page cache, which the disk does not have."""
    driver = clean()
    fd = driver.os.open(0, driver.writer.point.name)
    driver.os.put(fd, b"torn" * 75, driver.writer._next)
    inode = driver.os.inodes[driver.os.names[driver.writer.point.name]]
    inode.pending, driver.os.sticky = [], True
    return driver


def leftovers() -> Driver:
    """A spare cut short in its making, and one that a rotation had begun to use."""
    driver = clean()
    driver.spare()
    fd = driver.os.open(0, driver.spares[0].name)
    driver.os.put(fd, b"begun" * 20, 0)
    driver.os.put(driver.os.open(0, "00000099.tmp", create=True), b"\n" * 700, 0)
    return driver


def unborn() -> Driver:
    """A directory in which nothing was ever written."""
    driver = Driver.__new__(Driver)
    driver.os, driver.align, driver.size, driver.number = FakeOs(), 512, SIZE, 0
    driver.appended, driver.promised = [], 0
    return driver


LEFT = [clean, torn, stale_cache, leftovers, unborn]


def open_until_fault(driver: Driver, at: int, kind: int | str, *, always: bool) -> str | None:
    """Start on what `driver` left while call `at` fails; then once more without the fault."""
    os_ = faulty(driver.os)
    os_.arm(at, kind, always=always)
    before = {n: c for n, c in contents_of(os_).items() if n.endswith(".jnl")}
    again = Driver.__new__(Driver)
    again.os, again.align, again.size, again.number = os_, 512, SIZE, 700
    try:
        again.open()
    except JournalError as error:
        assert isinstance(error, JournalIOError), error
        assert isinstance(kind, str) or error.errno == kind
        assert os_.fired
    if not os_.fired:
        return None
    after = contents_of(os_)
    assert {n: after[n] for n in before} == before, "a segment was changed"
    restart(os_, driver)
    return os_.fired[0]


@pytest.mark.guarantee("J2", "J3")
@pytest.mark.parametrize(
    ("left", "kind"),
    [
        *itertools.product(LEFT, ERRORS),
        *itertools.product(
            [left for left in LEFT if left is not clean], SHORT
        ),  # it writes nothing
    ],
)
def test_a_fault_at_any_call_of_a_start_changes_no_segment_and_the_next_start_succeeds(left, kind):
    fired: list[str] = []
    driver = left()
    for always in (False, True):
        at = 0
        while (call := open_until_fault(driver, at, kind, always=always)) is not None:
            fired.append(call)
            at += 1
    visited(f"fault in a start, {left.__name__}{of(kind)}", len(fired))
    if isinstance(kind, int):
        assert {"listdir", "fsync"} <= set(fired)
        assert left is unborn or {"read_disk", "is_cached"} <= set(fired)
        assert left is clean or {"pwrite", "rename"} <= set(fired) or left is leftovers


@pytest.mark.guarantee("J2")
def test_a_refused_start_leaves_even_the_leftovers_as_they_are():
    """Who is called to a damaged journal finds it as the crash left it, spares included."""
    driver = leftovers()
    name = driver.writer.point.name
    files = contents_of(driver.os)
    at = files[name].index(b'"x"')
    files[name] = files[name][:at] + b"?" + files[name][at + 1 :]
    os_ = from_contents(files)
    again = unborn()
    again.os = os_
    with pytest.raises(JournalCorrupt):
        again.open()
    assert contents_of(os_) == files
    assert not os_.moves


@pytest.mark.guarantee("J1", "J2")
@pytest.mark.parametrize("left", [torn, leftovers])
def test_a_crash_in_a_start_after_a_crash_in_a_start_loses_nothing(left):
    """After every call of a start the power goes, and again after every call of the next."""
    rng = random.Random(8)
    driver = left()
    points = 0

    def third(image: FakeOs) -> None:
        nonlocal points
        for cut in image.power_cuts(rng, 2):
            points += 1
            holds(recovered(cut), driver.appended, driver.promised)

    def second(image: FakeOs) -> None:
        for cut in image.power_cuts(rng, 4):
            cut.after = lambda _call, cut=cut: third(cut)
            holds(recovered(cut), driver.appended, driver.promised)

    first = driver.os.killed()
    first.after = lambda _call: second(first)
    holds(recovered(first), driver.appended, driver.promised)
    visited(f"crash two starts deep, {left.__name__}", points)
