"""Following a journal while it is written: every line once, none before it is durable."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from supervisor.journal import follow
from supervisor.journal.errors import JournalCorrupt, JournalIOError
from supervisor.journal.follow import Follower
from supervisor.journal.read import Entry, entries
from supervisor.journal.select import CALL, OPERATION, Selection, records_in
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of


def spill(driver: Driver, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for name, content in contents_of(driver.os).items():
        (directory / name).write_bytes(content)


@pytest.mark.guarantee("J6")
def test_every_line_comes_once_when_it_is_durable_over_many_segments(tmp_path: Path) -> None:
    driver = Driver(FakeOs())
    driver.grow(60)
    spill(driver, tmp_path / "j")
    follower = Follower(tmp_path / "j")
    found = list(follower.first())
    while driver.writer.point.number < 5:
        before = driver.writer.point.position
        driver.grow(60, 90)
        spill(driver, tmp_path / "j")
        fresh = follower.more()
        assert all(one.attested for one in fresh)
        assert max(one.position for one in [*found, *fresh]) >= before
        found += fresh
        assert follower.more() == []
    everything = [one[:5] for one in entries(tmp_path / "j") if one.attested]
    places = [(one.file, one.offset) for one in found]
    assert [place[:2] for place in everything] == places
    assert len(set(places)) == len(places)


@pytest.mark.guarantee("J6")
def test_damage_behind_what_was_seen_is_told(tmp_path: Path) -> None:
    driver = Driver(FakeOs())
    driver.grow(60)
    driver.mark()
    spill(driver, tmp_path / "j")
    follower = Follower(tmp_path / "j")
    list(follower.first())
    driver.grow(60, 70)
    driver.mark()
    spill(driver, tmp_path / "j")
    newest = max(one for one in (tmp_path / "j").glob("*.jnl") if b" [" in one.read_bytes())
    content = newest.read_bytes()
    at = content.rindex(b" [") + 1
    newest.write_bytes(content[: at + 1] + b"?" + content[at + 2 :])
    with pytest.raises(JournalCorrupt, match=newest.name):
        follower.more()


def test_following_waits_for_more_and_ends_with_the_directory(tmp_path: Path, monkeypatch) -> None:
    driver = Driver(FakeOs())
    driver.grow(60)
    driver.mark()
    spill(driver, tmp_path / "j")
    follower = Follower(tmp_path / "j")
    list(follower.first())
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            driver.grow(10)
            driver.mark()
            spill(driver, tmp_path / "j")
        if len(waits) == 4:
            shutil.rmtree(tmp_path / "j")

    monkeypatch.setattr(time, "sleep", wait)
    added = follower.added()
    assert [next(added).payload for _ in range(2)][1] == driver.appended[-1]
    assert waits == [follow.PAUSE_S] * 3
    with pytest.raises(JournalIOError):
        list(added)


def entry(position: int, payload: bytes) -> Entry:
    return Entry("f", 10, position, 0, payload, "", True)


def test_a_selection_takes_records_and_not_their_neighbours() -> None:
    frame = entry(
        7, b'[{"k":"a","at":5,"operation_id":"op_1"},{"k":"b","at":9,"call_id":"call_2"}]'
    )
    mark = entry(8, b'{"mark":"idle"}')

    def kinds(selection: Selection) -> list[str]:
        return [one["k"] for one in selection.takes(frame) or ()]

    assert kinds(Selection()) == ["a", "b"]
    assert kinds(Selection(about=((OPERATION, "op_1"),))) == ["a"]
    assert kinds(Selection(about=((CALL, "call_2"),))) == ["b"]
    assert kinds(Selection(since=6)) == ["b"]
    assert kinds(Selection(until=9)) == ["a"]
    assert kinds(Selection(kinds=frozenset({"b"}))) == ["b"]
    assert kinds(Selection(first=8)) == []
    assert Selection(last=6).takes(frame) is None
    assert Selection(last=6).ended(frame)
    assert Selection().takes(mark) == []
    assert records_in(mark) == []
    assert Selection(since=0).takes(mark) is None
