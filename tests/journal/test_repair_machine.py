"""Any order of work, snapshots, crashes, rot and repairs, on a disk that forgets.

The core, the committer, the recovery and the repair are the real ones; one state machine plays
clients, handlers, disk and operator, and keeps in plain lists what was ever durable.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from supervisor.cli.repairing import messages_behind
from supervisor.core.ids import EffectId, OperationId, SessionId
from supervisor.core.record import (
    By,
    EffectAnnounced,
    JournalRepaired,
    OperationAccepted,
)
from supervisor.core.standing import OperationState, operation_state
from supervisor.journal import repair
from supervisor.journal.errors import JournalCorrupt, JournalIOError
from supervisor.journal.records import decode
from supervisor.journal.repair import Loss, NotRepairable, examine
from supervisor.journal.verify import INTACT, describe, verify
from tests.core.made import code
from tests.journal.daemon import TERMS, Daemon, Decisions, folded, held, started
from tests.journal.fakeos import SECTOR, FakeOs, contents_of, from_contents
from tests.journal.test_faults import FaultyOs, faulty

HERE = Path("journal")
BY = By(uid=1000, pid=7)
Message = tuple[SessionId, str]

seeds = st.integers(0, 1 << 30)
# How a piece of work ends, and at which of its calls; most end well.
ends = st.one_of(
    st.just(("well", 0)),
    st.tuples(st.sampled_from(["power", "kill", "fault"]), st.integers(0, 30)),
)


class Stopped(BaseException):
    """The process is no more. Not an error that anything could handle."""


@contextlib.contextmanager
def ending(disk: FakeOs, how: str, at: int, seed: int) -> Iterator[list[FakeOs]]:
    """The disk to work on, which is followed, on leaving, by the disk that is left."""
    os_ = faulty(disk) if how == "fault" else disk.killed()
    if isinstance(os_, FaultyOs):
        os_.rng = random.Random(seed)
        os_.arm(at, errno.EIO, always=False)
    elif how != "well":
        left = itertools.count(at, -1)

        def countdown(_call: str) -> None:
            if not next(left):
                raise Stopped

        os_.before = countdown
    disks = [os_]
    try:
        yield disks
    except (Stopped, OSError, JournalIOError):
        assert how != "well"
    # What went well is on the disk whatever happens next.
    cut = how in {"well", "power"}
    disks.append(next(iter(os_.power_cuts(random.Random(seed), 1))) if cut else os_.killed())


def rotted(os_: FakeOs, rng: random.Random, *, block: bool) -> FakeOs:
    """One bit or one sector of what is written is another one. A sector that is lost at the very
    end may look as if it had never been written."""
    files = contents_of(os_)
    name = rng.choice(sorted(n for n in files if n.endswith((".jnl", ".json")) and "/" not in n))
    content = bytearray(files[name])
    written = [match.start() for match in re.finditer(rb"[^\n]", content)]
    at = rng.choice(written)
    if block:
        at -= at % SECTOR
        content[at : at + SECTOR] = bytes(len(content[at : at + SECTOR]))
    else:
        content[at] ^= 1 << rng.randrange(8)
    return from_contents({**files, name: bytes(content)})


def examined(os_: FakeOs) -> Loss | NotRepairable | None:
    """What an operator is shown; to look changes nothing, and shows the same again."""
    before = contents_of(os_)
    try:
        loss = examine(HERE, os_=os_)
        assert examine(HERE, os_=os_) == loss
    except NotRepairable as error:
        return error
    finally:
        assert contents_of(os_) == before
    return loss


def accepted(loss: Loss) -> JournalRepaired:
    return JournalRepaired(1, loss.first, loss.last, BY, "disk", tuple(messages_behind(loss)))


def readable(loss: Loss) -> set[Message]:
    """The messages that stand in what is given up: accepted there, or forgotten by a repair."""
    found: set[Message] = set()
    for record in itertools.chain.from_iterable(decode(one.payload) for one in loss.beyond):
        if isinstance(record, OperationAccepted):
            found.add((record.session_id, record.request_id))
        if isinstance(record, JournalRepaired):
            found |= set(record.requests)
    return found


def is_refused(os_: FakeOs, act: JournalRepaired, why: str) -> None:
    before = contents_of(os_)
    with pytest.raises(NotRepairable, match=why):
        repair.repair(HERE, act, os_=os_)
    assert contents_of(os_) == before


class RepairMachine(RuleBasedStateMachine):
    """`kept` are the decisions that must come back, `maybe` those whose fate the last crash left
    open, `given` the last position that was ever durable. `leaves` and `messages` are what was
    ever durable, by its position; `named` the messages that a repair said were lost, by its;
    `doubted` the operations that were not finished before one."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = FakeOs()
        self.kept: Decisions = []
        self.maybe: Decisions = []
        self.given = self.starts = 0
        self.spoilt = False  # by rot where no start looks
        self.leaves: dict[EffectId, int] = {}
        self.messages: dict[Message, int] = {}
        self.named: dict[Message, int] = {}
        self.doubted: set[OperationId] = set()
        self.lost: list[range] = []

    # Work.

    def start(self, os_: FakeOs) -> Daemon:
        """What it serves is all that was durable, and perhaps what was on its way."""
        self.starts += 1
        daemon = Daemon(os_, 10_000 * self.starts)
        extra = daemon.found[len(self.kept) :]
        assert daemon.found[: len(self.kept)] == self.kept
        assert extra == self.maybe[: len(extra)]
        self.are_durable(extra)
        self.maybe = []
        return daemon

    def are_durable(self, decisions: Decisions) -> None:
        self.kept = self.kept + decisions
        for position, payload in decisions:
            for record in decode(payload):
                if isinstance(record, EffectAnnounced):
                    self.leaves[record.effect_id] = position
                if isinstance(record, OperationAccepted):
                    self.messages[record.session_id, record.request_id] = position

    def ended(self, daemon: Daemon) -> None:
        durable = daemon.durable()
        assert not durable or durable[0][0] > self.given, "a position is given twice"
        self.are_durable(durable)
        self.given = max(self.given, daemon.committer.durable)
        self.maybe = daemon.queued[len(durable) :]

    @rule(picks=st.lists(st.integers(0, 60), max_size=14), end=ends, seed=seeds, snap=st.booleans())
    def work(self, picks: list[int], end: tuple[str, int], seed: int, snap: bool) -> None:
        daemon: Daemon | None = None
        with ending(self.disk, *end, seed) as disks:
            daemon = self.start(disks[0])
            for pick in picks:
                daemon.goes_on(pick)
                if pick % 4:
                    daemon.sync()
            if snap:
                daemon.snapshot()
            daemon.close()
        if daemon is not None:
            self.ended(daemon)
        self.disk = disks[-1]

    def begin(self) -> None:
        """A clean start and end decide what was on its way; nothing is forgotten in silence."""
        daemon = self.start(self.disk)
        daemon.close()
        self.ended(daemon)
        state = daemon.state
        for effect_id, position in self.leaves.items():
            assert effect_id in state.effects or self.is_lost(position)
        for message, position in self.messages.items():
            known = message in state.messages or message in state.forgotten
            assert known or self.is_lost(position)
        assert set(self.named) <= set(state.forgotten)
        for operation_id in self.doubted & set(state.operations):
            standing = operation_state(state.operations[operation_id])
            assert standing is OperationState.UNKNOWN

    def is_lost(self, position: int) -> bool:
        return any(position in one for one in self.lost)

    # Rot, and what an operator does then.

    @precondition(lambda self: self.kept)
    @rule(seed=seeds, block=st.booleans(), end=ends)
    def rot(self, seed: int, block: bool, end: tuple[str, int]) -> None:
        """It is harmless, or refused, and then given up."""
        self.begin()
        intact = from_contents(contents_of(self.disk))
        rotten = rotted(intact, random.Random(seed), block=block)
        found: Decisions = []
        try:
            reached = started(rotten.killed(), found).writer.point.position
        except JournalCorrupt:
            assert found == self.kept[: len(found)]
            self.disk = self.given_up(rotten, end, seed) or intact
        else:
            harmless = found == self.kept and reached >= self.given
            assert harmless or (block and found == self.kept[: len(found)])
            self.disk = rotten if harmless else intact
            self.spoilt |= harmless
        self.begin()

    def given_up(self, rotten: FakeOs, end: tuple[str, int], seed: int) -> FakeOs | None:
        """As the errors say: a snapshot out of the way, then what is lost; None: the backup."""
        while isinstance(loss := examined(rotten), NotRepairable):
            moved = re.search(r"Move (snap-\d+\.json) out", loss.fix)
            if moved is None:
                assert "from a backup" in loss.fix
                return None
            rotten.unlink(0, moved[1])
            rotten.fsync(0)
        if loss is None:
            return rotten  # what was damaged is not needed any more
        self.is_understood(loss)
        act = accepted(loss)
        is_refused(rotten, attrs.evolve(act, last=act.last + 1), "and accepted")
        with ending(rotten, *end, seed) as disks:
            repair.repair(HERE, act, os_=disks[0])
        again = examined(disks[-1])
        if again is not None:
            assert isinstance(again, Loss), again
            assert end[0] != "well"
            self.is_understood(again)
            act = accepted(again)
            repair.repair(HERE, act, os_=disks[-1])
        is_refused(disks[-1], act, "nothing is damaged")
        self.is_repaired(disks[-1], loss)
        self.is_kept(disks[-1], rotten, loss)
        return disks[-1]

    def is_understood(self, loss: Loss) -> None:
        """What it names as proven is all that was durable before it, and nothing else."""
        began = [] if loss.began is None else held(loss.began.content)
        since = began[-1][0] if began else 0
        proven = [(one.position, one.payload) for one in loss.proven if one.position > since]
        assert began + proven == [one for one in self.kept if one[0] < loss.first]
        assert loss.resume > self.given, "a lost position would be given again"

    def is_repaired(self, os_: FakeOs, loss: Loss) -> None:
        """The proven prefix, then the repair's decision; everything that was open is unknown, and
        what can be read of what is lost is named."""
        found: Decisions = []
        started(os_.killed(), found)
        *proven, (position, payload) = found
        assert proven == [one for one in self.kept if one[0] < loss.first]
        (act,) = decode(payload)
        assert isinstance(act, JournalRepaired)
        assert (act.first, act.last >= loss.last) == (loss.first, True)
        assert position > self.given
        self.doubted |= {
            o.operation_id for o in folded(proven).operations.values() if not o.finished
        }
        self.named = {m: p for m, p in self.named.items() if p < loss.first}
        self.named |= dict.fromkeys(readable(loss), position)
        assert set(folded(found).forgotten) == set(self.named)
        self.kept, self.given = found, position
        self.lost.append(range(loss.first, position))

    def is_kept(self, os_: FakeOs, rotten: FakeOs, loss: Loss) -> None:
        """What was found is in a copy, byte for byte, and what is there now verifies whole."""
        files, before = contents_of(os_), contents_of(rotten)
        copies = {(n.rpartition("/")[2], c) for n, c in files.items() if "/" in n}
        assert {(one.name, before[one.name]) for one in loss.files} <= copies
        if self.spoilt:
            return
        with tempfile.TemporaryDirectory(prefix="effectd-repaired-") as place:
            for name, content in files.items():
                if "/" not in name:
                    Path(place, name).write_bytes(content)
            report = verify(Path(place))
            assert report.verdict == INTACT, describe(report)


def flipped(os_: FakeOs, name: str, what: bytes) -> FakeOs:
    files = contents_of(os_)
    at = files[name].index(what)
    changed = bytes([files[name][at] ^ 1])
    return from_contents({**files, name: files[name][:at] + changed + files[name][at + 1 :]})


@pytest.mark.guarantee("J6", "R8")
def test_what_one_repair_forgot_is_forgotten_by_the_one_that_gives_its_record_up():
    """Else a request that is refused since the first one would be taken for a new one."""
    daemon = Daemon(FakeOs(), 0)
    for request_id in ("in doubt", "lost"):
        daemon.submit(TERMS[0], request_id)
        daemon.sync()
    daemon.close()
    os_ = flipped(daemon.os, min(contents_of(daemon.os)), b"in doubt")
    for damaged_next in (b'"k":"repair"', None):
        loss = examined(os_)
        assert isinstance(loss, Loss)
        assert set(messages_behind(loss)) == {("uid:1000", "lost")}
        repair.repair(HERE, accepted(loss), os_=os_)
        if damaged_next is not None:
            os_ = flipped(os_, max(n for n in contents_of(os_) if "/" not in n), damaged_next)
    again = Daemon(os_, 10_000)
    assert code(again.do(again.submitted(TERMS[0], "lost"))) == "EffectOutcomeUnknown"


class LongRepairMachine(RepairMachine):
    pass


TestRepairMachine = pytest.mark.many(
    pytest.mark.guarantee("J1", "J2", "J3", "J6", "J9")(RepairMachine.TestCase)
)
TestRepairMachine.settings = settings(
    max_examples=10,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLongRepairMachine = pytest.mark.timeout(3_600)(pytest.mark.long(LongRepairMachine.TestCase))
TestLongRepairMachine.settings = settings(
    max_examples=1_000,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
