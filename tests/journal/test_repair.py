"""Giving up what is lost: explicit, with a copy, and at every crash either done or not."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from supervisor.core.record import By, JournalRepaired
from supervisor.journal import anchor as anchors
from supervisor.journal import repair
from supervisor.journal.errors import JournalCorrupt, JournalIOError, JournalLocked
from supervisor.journal.file import REAL
from supervisor.journal.log import Frame, Journal
from supervisor.journal.records import decode
from supervisor.journal.repair import NotRepairable, examine
from supervisor.journal.verify import describe, verify
from tests.journal.driver import Driver, holds, recovered
from tests.journal.fakeos import FakeOs, contents_of, from_contents
from tests.journal.test_corruption import Reading, changed, small_journal
from tests.journal.test_faults import FaultyOs, faulty
from tests.journal.visited import visited

HERE = Path("journal")
BY = By(uid=1000, pid=7)


def act(loss: repair.Loss) -> JournalRepaired:
    return JournalRepaired(at=1, first=loss.first, last=loss.last, by=BY, reason="disk replaced")


def segments_of(os_: FakeOs) -> dict[str, bytes]:
    files = contents_of(os_).items()
    return {name: c for name, c in sorted(files) if name.endswith(".jnl") and "/" not in name}


def repaired(os_: FakeOs) -> repair.Loss:
    loss = examine(HERE, os_=os_)
    assert loss is not None
    repair.repair(HERE, act(loss), os_=os_)
    return loss


def is_repaired(os_: FakeOs, proven: list[bytes]) -> Driver:
    """The proven prefix, then the repair's decision, and nothing else; new work survives."""
    after = recovered(os_)
    payloads = [frame.payload for frame in after.served]
    assert payloads[:-1] == proven
    (decision,) = decode(payloads[-1])
    assert isinstance(decision, JournalRepaired)
    after.grow(30)
    after.grow(300, 5)
    for image in after.os.power_cuts(random.Random(1), 1):
        holds(recovered(image), after.appended, after.promised)
    return after


def damages(files: dict[str, bytes]) -> list[tuple[str, dict[str, bytes]]]:
    """A flipped bit, a lost block, a cut, and zeros to the end, all over every segment."""
    made: list[tuple[str, dict[str, bytes]]] = []
    for name, content in files.items():
        for at in range(0, len(content), 127):
            flip = bytes([content[at] ^ 1 << at % 8])
            made.append((f"flip {name}:{at}", changed(files, name, at, flip)))
        for at in range(0, len(content), 512):
            made.append((f"lost {name}:{at}", changed(files, name, at, bytes(512))))
            made.append((f"cut {name}:{at}", {**files, name: content[:at]}))
            zeros = bytes(len(content) - at)
            made.append((f"zeros {name}:{at}", changed(files, name, at, zeros)))
    names = list(files)
    made.append(("swapped", {**files, names[0]: files[names[1]], names[1]: files[names[0]]}))
    made.append(("the last repeats", {**files, names[-1]: files[names[-2]]}))
    renamed = {**files, "00000002-000000000777.jnl": files[names[1]]}
    del renamed[names[1]]
    made.append(("renamed", renamed))
    return made


@pytest.mark.guarantee("J2", "J6")
@pytest.mark.parametrize("align", [0, 512])
def test_any_damage_is_given_up_behind_the_proven_prefix_and_kept_as_it_was_found(align):
    files, driver = small_journal(align, mark=True)
    positions = driver.writer.point.position
    points = 0
    for what, broken in damages(files):
        reading = Reading(broken)
        if reading.verdict != "refused":
            continue
        points += 1
        os_ = from_contents(broken)
        loss = repaired(os_)
        assert [frame.payload for frame in loss.proven] == reading.payloads, what
        assert loss.resume > max(loss.last, positions), "a lost position is given again"
        known = [frame.payload for frame in loss.proven] + [f.payload for f in loss.beyond]
        assert set(known) <= set(driver.appended), what
        names = {one.name for one in loss.files}
        kept = {n.rpartition("/")[2]: c for n, c in contents_of(os_).items() if "/" in n}
        assert kept == {name: broken[name] for name in names}, what
        stays = {n: c for n, c in broken.items() if n not in names or n == loss.point.name}
        now = segments_of(os_)
        assert {name: now[name] for name in stays} == stays, what
        assert len(now) == len(stays) + 1, what
        is_repaired(os_, reading.payloads)
    visited(f"repaired damage, align {align}", points)


# Each leaves another way of putting the new segment into its place.
CASES: dict[str, Callable[[dict[str, bytes]], dict[str, bytes]]] = {
    "in the first of three": lambda f: changed(f, min(f), f[min(f)].index(b'"n"'), b"?"),
    "a header in the middle": lambda f: changed(f, sorted(f)[1], 30, b"?"),
    "the first header": lambda f: changed(f, min(f), 30, b"?"),
    "in the newest": lambda f: changed(f, max(f), f[max(f)].index(b'"x"'), b"?"),
}


def damaged(case: str) -> tuple[FakeOs, list[bytes]]:
    files, _ = small_journal(512, mark=True)
    broken = CASES[case](files)
    reading = Reading(broken)
    assert reading.verdict == "refused"
    return from_contents(broken), reading.payloads


def touched(os_: FakeOs) -> dict[str, bytes]:
    """What a repair would copy."""
    loss, files = examine(HERE, os_=os_), segments_of(os_)
    assert loss is not None
    return {one.name: files[one.name] for one in loss.files}


def kept_in(os_: FakeOs) -> dict[str, bytes]:
    """What is in the newest copy."""
    files = contents_of(os_)
    newest = max(name.rpartition("/")[0] for name in files if "/" in name)
    return {n.rpartition("/")[2]: c for n, c in files.items() if n.startswith(f"{newest}/")}


def refused_or_repaired(os_: FakeOs, proven: list[bytes], copies: dict[str, bytes]) -> bool:
    """Whether it is repaired, and the copies are whole; if not it is refused, and can be
    repaired then."""
    before = segments_of(os_)
    reading = Reading(before)
    done = reading.verdict != "refused"
    if done:
        assert kept_in(os_) == copies
    else:
        assert reading.payloads == proven
        repaired(os_)
    is_repaired(os_, proven)
    return done


@pytest.mark.guarantee("J2", "J6")
@pytest.mark.parametrize("case", CASES)
def test_a_crash_at_any_call_of_a_repair_leaves_it_done_or_to_be_done_again(case):
    os_, proven = damaged(case)
    copies = touched(os_)
    rng = random.Random(6)
    ended = [0, 0]

    def crash(_call: str) -> None:
        for image in [os_.killed(), *os_.power_cuts(rng, 6)]:
            ended[refused_or_repaired(image, proven, copies)] += 1

    os_.after = crash
    repaired(os_)
    visited(f"crash in a repair, {case}", sum(ended))
    assert min(ended) > 0


@pytest.mark.guarantee("J6")
@pytest.mark.parametrize("case", CASES)
def test_what_a_repair_that_was_cut_off_knew_is_known_to_the_next_one(case):
    """Files that it had put out of the way already held positions and decisions."""
    os_, _ = damaged(case)
    first, rng = examine(HERE, os_=os_), random.Random(7)
    assert first is not None

    def crash(_call: str) -> None:
        for image in [os_.killed(), *os_.power_cuts(rng, 2)]:
            again = examine(HERE, os_=image)
            if again is not None:
                assert (again.first, again.last) == (first.first, first.last)
                assert again.resume >= first.resume, "a lost position would be given again"

    os_.after = crash
    repaired(os_)


@pytest.mark.guarantee("J3", "J6")
@pytest.mark.parametrize("kind", [errno.EIO, errno.ENOSPC, "short by one"])
@pytest.mark.parametrize("case", ["in the first of three", "in the newest"])
def test_a_fault_at_any_call_of_a_repair_is_said_and_it_can_be_done_again(case, kind):
    start, proven = damaged(case)
    points = 0
    for always in (False, True):
        at = 0
        while True:
            os_: FaultyOs = faulty(start)
            loss = examine(HERE, os_=os_)
            assert loss is not None
            os_.arm(at, kind, always=always)
            try:
                repair.repair(HERE, act(loss), os_=os_)
            except JournalIOError as error:
                assert os_.fired
                assert isinstance(kind, str) or error.errno == kind
            if not os_.fired:
                break
            refused_or_repaired(os_.killed(), proven, touched(start))
            at += 1
        points += at
    short = ", short write" if isinstance(kind, str) else ""
    visited(f"fault in a repair, {case}{short}", points)


@pytest.mark.guarantee("J6")
def test_what_was_not_accepted_exactly_changes_nothing():
    os_, _ = damaged("in the first of three")
    loss = examine(HERE, os_=os_)
    assert loss is not None
    before = contents_of(os_)
    for first, last in ((loss.first, loss.last + 1), (loss.first - 1, loss.last), (1, 1)):
        other = attrs.evolve(act(loss), first=first, last=last)
        with pytest.raises(NotRepairable) as caught:
            repair.repair(HERE, other, os_=os_)
        assert f"--accept-loss {loss.first}..{loss.last}" in caught.value.fix
    assert contents_of(os_) == before


@pytest.mark.guarantee("J6")
def test_what_is_no_damage_or_cannot_be_explained_is_not_repaired():
    files, _ = small_journal(512, mark=True)
    one, two, three = sorted(files)
    assert examine(HERE, os_=from_contents(files)) is None
    with pytest.raises(NotRepairable, match="nothing is damaged"):
        repair.repair(HERE, JournalRepaired(1, 1, 1, BY, "x"), os_=from_contents(files))
    for broken in (
        {one: files[one], three: files[three]},
        {**files, "00000002-000000000099.jnl": files[two]},
        {**files, "backup.jnl": files[two]},
    ):
        with pytest.raises(NotRepairable) as caught:
            examine(HERE, os_=from_contents(broken))
        assert "from a backup" in caught.value.fix


@pytest.mark.guarantee("J6")
def test_a_repair_that_is_damaged_itself_is_damage_as_any_other():
    os_, proven = damaged("in the newest")
    repaired(os_)
    files = segments_of(os_)
    newest = max(files)
    for at in range(0, len(files[newest].rstrip(b"\n")) - 2, 3):
        broken = changed(files, newest, at, bytes([files[newest][at] ^ 4]))
        reading = Reading(broken)
        if reading.verdict == "refused":
            assert reading.payloads == proven
        else:
            assert reading.payloads[:-1] == proven
    again = from_contents(changed(files, newest, 600, b"?"))
    repaired(again)
    is_repaired(again, proven)


async def write(directory: Path, count: int) -> None:
    journal = Journal.open(directory, lambda _frame: None, segment_bytes=8192)
    journal.start()
    for number in range(count):
        await journal.ready(600)
        await journal.durable(journal.append(b'["%d %b"]' % (number, b"x" * 500)))
    await journal.close()


@pytest.mark.guarantee("J2", "J6")
async def test_a_real_journal_is_repaired_told_of_and_goes_on(tmp_path):
    await write(tmp_path / "j", 40)
    written = verify(tmp_path / "j").position
    victim = sorted((tmp_path / "j").glob("*.jnl"))[2]
    content = bytearray(victim.read_bytes())
    content[content.index(b"xxx")] ^= 1
    victim.write_bytes(content)
    with pytest.raises(JournalCorrupt):
        Journal.open(tmp_path / "j", lambda _frame: None)
    damage = verify(tmp_path / "j").damage
    loss = examine(tmp_path / "j")
    assert loss is not None
    assert loss.damage == damage
    assert loss.last == written, "forty decisions and every mark"
    done = repair.repair(tmp_path / "j", act(loss))
    assert (tmp_path / "j" / done.kept / victim.name).read_bytes() == content
    await write(tmp_path / "j", 20)
    report = verify(tmp_path / "j")
    assert (report.verdict, len(report.repairs)) == ("intact", 1)
    assert "given up by uid 1000 (disk replaced)" in describe(report)
    assert report.position > loss.resume
    frames: list[Frame] = []
    journal = Journal.open(tmp_path / "j", frames.append, segment_bytes=8192)
    await journal.close()
    assert len(frames) == len(loss.proven) + 1 + 20
    assert isinstance(decode(frames[len(loss.proven)].payload)[0], JournalRepaired)


@pytest.mark.guarantee("J5", "J6")
async def test_anchors_hold_before_a_repair_and_contradict_what_it_gave_up(tmp_path):
    """An accepted loss is a loss: whoever knows better from elsewhere hears of it."""
    directory = tmp_path / "j"
    await write(directory, 12)
    before = anchors.newest(directory)
    await write(directory, 28)
    lost = anchors.newest(directory)
    victim = sorted(directory.glob("*.jnl"))[-2]
    content = bytearray(victim.read_bytes())
    content[content.index(b"xxx")] ^= 1
    victim.write_bytes(content)
    loss = examine(directory)
    assert loss is not None
    assert before.position < loss.first <= lost.position <= loss.last
    repair.repair(directory, act(loss))
    report = verify(directory, anchors=[before])
    assert [one.finding for one in report.anchors] == [anchors.HOLDS]
    assert report.exit_code() == 3, "the repair's own decision is not anchored yet"
    report = verify(directory, anchors=[before, lost])
    assert [one.finding for one in report.anchors] == [anchors.HOLDS, anchors.GIVEN_UP]
    assert "a repair gave it up" in describe(report)
    assert report.exit_code() == report.exit_code(require="chain") == 4
    await write(directory, 20)
    after = anchors.newest(directory)
    assert verify(directory, anchors=[before, after]).exit_code() == 0


@pytest.mark.guarantee("J6", "J7")
async def test_a_journal_that_is_in_use_is_not_touched(tmp_path):
    await write(tmp_path / "j", 3)
    held = os.open(tmp_path / "j", os.O_RDONLY)
    try:
        REAL.lock(held)
        with pytest.raises(JournalLocked):
            examine(tmp_path / "j")
    finally:
        os.close(held)
    assert examine(tmp_path / "j") is None
