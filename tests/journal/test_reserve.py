"""Room for outcomes that are owed, kept on a real disk with real threads."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor.journal import commit
from supervisor.journal.log import JournalFull
from supervisor.journal.verify import verify
from tests.journal.test_log import SEGMENT, GatedOs, decision, opened, until


@pytest.mark.guarantee("J8")
async def test_a_full_disk_refuses_new_work_but_no_outcome_and_heals_by_itself(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(commit, "SPARE_RETRY_MS", 20)
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    os_.no_space = True
    journal.start()
    await until(lambda: journal.stats().degraded is not None)
    assert "No space" in journal.stats().degraded
    owed = journal.cost(200)
    outcomes = 0
    while True:
        keep = owed * (outcomes + 1)
        before = journal.position
        try:
            await journal.durable(journal.append(decision(outcomes, 100), keep=keep))
        except JournalFull as error:
            assert "No space" in str(error)
            assert "Free space" in error.fix
            assert journal.position == before, "a refusal changes nothing"
            break
        outcomes += 1
    assert outcomes > 3
    assert not journal.admits(100, owed * (outcomes + 1))
    with trio.fail_after(60):
        await journal.ready(100, owed * (outcomes + 1))
    for left in reversed(range(outcomes)):
        size = 200 - len(decision(0))
        journal.append(decision(0, size), keep=owed * left, outcome=True)
        await trio.sleep(0.001 * (left % 3))
    await journal.durable(journal.position)
    assert journal.stats().spares == 0
    os_.no_space = False
    await until(lambda: journal.stats().spares >= 1 and journal.stats().degraded is None)
    assert journal.admits(100, owed)
    await journal.durable(journal.append(decision(1), keep=owed))
    await journal.close()
    assert verify(tmp_path / "j").verdict == "intact"


@pytest.mark.guarantee("J8")
async def test_a_mark_leaves_the_reserve_alone(tmp_path):
    """Time passing must not take the place of an outcome that is owed."""
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    os_.no_space = True
    cost = journal.cost(len(decision(1)))
    keep = journal._committer.room.after(cost)
    first = journal.append(decision(1), keep=keep)
    journal.start()
    await journal.durable(first)
    await until(lambda: journal._committer._marked)  # the moment for a mark has come, and gone
    assert journal.position == first
    assert journal.stats().room == keep
    await journal.close()


@pytest.mark.guarantee("J8")
async def test_as_many_spares_are_made_as_the_reserve_needs(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    keep = 5 * SEGMENT
    assert not journal.admits(100, keep)
    with trio.fail_after(60):
        await journal.ready(100, keep)
    assert journal.admits(100, keep)
    journal.append(decision(1), keep=keep)
    assert journal.stats().room >= keep
    await journal.close()


async def test_an_outcome_too_large_for_the_reserve_is_treated_as_new_work(tmp_path):
    journal, _ = opened(tmp_path / "j")
    room = journal.stats().room
    with pytest.raises(JournalFull):
        journal.append(decision(1, journal.outcome_limit + 1), keep=room, outcome=True)
    journal.append(decision(1, 10), keep=room, outcome=True)
    await journal.close()


async def test_a_long_queue_makes_callers_wait_and_lets_them_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("supervisor.journal.log.QUEUE_BYTES", 1000)
    os_ = GatedOs()
    journal, _ = opened(tmp_path / "j", os_=os_)
    journal.start()
    os_.gate.clear()
    journal.append(decision(0))
    await until(lambda: os_.syncs == 1)
    for number in range(30):
        journal.append(decision(number, 50))
    with trio.move_on_after(0.05) as scope:
        await journal.ready(50)
    assert scope.cancelled_caught
    os_.gate.set()
    with trio.fail_after(60):
        await journal.ready(50)
    await journal.close()


async def test_a_batch_for_the_next_segment_leaves_room_for_its_header(tmp_path):
    """The queue holds more than a whole segment while the disk hangs."""
    os_ = GatedOs()
    segment = 64 << 10
    journal, _ = opened(tmp_path / "j", os_=os_, align=4096, segment_bytes=segment)
    journal.start()
    await journal.ready(100, 12 * segment)
    os_.gate.clear()
    journal.append(decision(0))
    await until(lambda: os_.syncs == 1)
    queued = 0
    while queued < 2 * segment:
        journal.append(decision(queued, 900))
        queued += 900
    os_.gate.set()
    await journal.durable(journal.position)
    await journal.close()
    assert verify(tmp_path / "j").verdict == "intact"


@pytest.mark.guarantee("J8")
async def test_a_reserve_beyond_the_limit_is_refused_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "SPARES_MAX", 3)
    journal, _ = opened(tmp_path / "j")
    journal.start()
    with trio.fail_after(60):
        await journal.ready(100, 100 * SEGMENT)
    with pytest.raises(JournalFull, match="no more than 3 spare"):
        journal.append(decision(1), keep=100 * SEGMENT)
    await journal.durable(journal.append(decision(1)))
    await until(lambda: journal.stats().degraded is None)
    await journal.close()


async def test_waiting_for_what_can_never_fit_is_a_fault_of_the_caller(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    with pytest.raises(ValueError, match="limit"):
        await journal.ready(journal.payload_limit + 1)
    await journal.close()
