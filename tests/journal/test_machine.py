"""Any order of appends, crashes, failed syncs, rotations and rot, against a plain list."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from supervisor.journal.chain import Walker
from supervisor.journal.errors import JournalCorrupt
from supervisor.journal.naming import segments_among
from tests.journal.driver import Driver, recovered
from tests.journal.fakeos import FakeOs, contents_of

seeds = st.integers(0, 1 << 30)


class JournalMachine(RuleBasedStateMachine):
    """`maybe` are payloads whose fate the last failure left open."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(FakeOs())
        self.model: list[bytes] = []
        self.maybe: list[bytes] = []

    def appending(self, *sizes: int) -> None:
        before = len(self.driver.appended)
        self.driver.grow(*sizes)
        self.model += self.driver.appended[before:]

    @rule(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=3))
    def append(self, sizes: list[int]) -> None:
        self.appending(*sizes)

    @rule()
    def mark(self) -> None:
        self.driver.mark()

    @rule()
    def spare(self) -> None:
        self.driver.spare()

    @rule(seed=seeds)
    def power_cut(self, seed: int) -> None:
        self.restart(next(iter(self.driver.os.power_cuts(random.Random(seed), 1))))

    @rule(sticky=st.booleans())
    def kill(self, sticky: bool) -> None:
        self.driver.os.sticky = sticky
        self.restart(self.driver.os.killed())

    @rule(size=st.integers(0, 700), seed=seeds, cut=st.booleans(), sticky=st.booleans())
    def sync_fails(self, size: int, seed: int, cut: bool, sticky: bool) -> None:
        """The batch may be there or not; then the machine or only the process goes down."""
        os_ = self.driver.os
        rng = random.Random(seed)

        def fail(fd: int) -> None:
            os_.lose(fd, rng)
            raise OSError(errno.EIO, "failed")

        os_.fdatasync = fail
        before = len(self.driver.appended)
        with pytest.raises(OSError, match="failed"):
            self.driver.grow(size, 5)
        del os_.fdatasync
        self.maybe = self.driver.appended[before:]
        os_.sticky = sticky
        self.restart(next(iter(os_.power_cuts(rng, 1))) if cut else os_.killed())

    def restart(self, image: FakeOs) -> None:
        number = self.driver.number
        self.driver = recovered(image)
        self.driver.number = number + 10
        found = self.driver.appended
        extra = found[len(self.model) :]
        assert found[: len(self.model)] == self.model
        assert extra == self.maybe[: len(extra)]
        self.model, self.maybe = list(found), []

    @precondition(lambda self: self.model)
    @rule(seed=seeds)
    def rot(self, seed: int) -> None:
        """One changed bit anywhere is refused or changes nothing."""
        files = {n: c for n, c in contents_of(self.driver.os).items() if n.endswith(".jnl")}
        rng = random.Random(seed)
        name = rng.choice(sorted(files))
        changed = bytearray(files[name])
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        files[name] = bytes(changed)
        found: list[bytes] = []

        def emit(_name, _offset, line) -> None:
            if line.payload.startswith(b"["):
                found.append(line.payload)

        try:
            Walker(segments_among(files), files.__getitem__, emit).run()
        except JournalCorrupt:
            assert found == self.model[: len(found)]
        else:
            assert found == self.model

    @invariant()
    def positions_go_on(self) -> None:
        assert self.driver.writer.point.position >= len(self.model)


@pytest.mark.guarantee("J2", "J3")
def test_a_damaged_header_brings_back_nothing_that_a_failed_sync_left_behind() -> None:
    """The frames of the failed batch are whole, behind the end that the restart made official."""
    machine = JournalMachine()
    machine.appending(8, 400, 400)
    machine.sync_fails(size=0, seed=1, cut=False, sticky=True)
    machine.driver.mark()
    files = {n: c for n, c in contents_of(machine.driver.os).items() if n.endswith(".jnl")}
    given_up = [n for n in sorted(files) if b'"x":"44444"' in files[n]]
    assert given_up, "the failed batch is on the disk"
    successor = sorted(files)[sorted(files).index(given_up[0]) + 1]
    for bit in range(8 * 64):
        changed = bytearray(files[successor])
        changed[bit // 8] ^= 1 << bit % 8
        found: list[bytes] = []

        def emit(_name, _offset, line, found=found) -> None:
            if line.payload.startswith(b"["):
                found.append(line.payload)

        damaged = {**files, successor: bytes(changed)}
        with pytest.raises(JournalCorrupt) as caught:
            Walker(segments_among(damaged), damaged.__getitem__, emit).run()
        assert caught.value.report.file == successor
        assert found == machine.model[: len(found)]


class LongMachine(JournalMachine):
    pass


TestJournalMachine = pytest.mark.many(
    pytest.mark.guarantee("J1", "J2", "J3")(JournalMachine.TestCase)
)
TestJournalMachine.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLongMachine = pytest.mark.long(LongMachine.TestCase)
TestLongMachine.settings = settings(
    max_examples=1000,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
