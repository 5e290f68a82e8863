"""Every crash and every error while a snapshot is made, and while a bad one is put aside."""

from __future__ import annotations

import copy
import errno
import itertools
import random

import pytest

from supervisor.journal import opening
from supervisor.journal.errors import JournalIOError
from supervisor.journal.segments import Spare, Writer
from supervisor.journal.snapshot import parse, snapshots_among
from tests.journal.driver import SIZE, Driver
from tests.journal.fakeos import FakeOs, contents_of, from_contents
from tests.journal.test_snapshots import Start, flipped, grown, joined, take
from tests.journal.visited import visited

PLACES = {"removed": "", "archived": "archive/", "archived elsewhere": "archive/"}


def segments_in(image: FakeOs) -> dict[str, bytes]:
    """What each sealed segment holds, here or in the archive, where that has it."""
    contents = contents_of(image)
    newest = max(name for name in contents if name.endswith(".jnl") and "/" not in name)
    places = sorted((n for n in contents if n.endswith(".jnl")), key=lambda name: "/" in name)
    return {n.rpartition("/")[2]: contents[n] for n in places if n != newest}


@pytest.mark.guarantee("J1", "J9")
@pytest.mark.parametrize("where", PLACES)
def test_a_crash_at_any_call_while_a_snapshot_is_made_loses_nothing(where):
    driver = grown(snapshots=2, place=PLACES[where], far=where == "archived elsewhere")
    for _ in range(3):
        driver.grow(500, 300)
    rng, states, wanted = random.Random(3), 0, joined(driver.appended)
    every = segments_in(driver.os)

    def crash(_call: str) -> None:
        nonlocal states
        for image in [driver.os.killed(), *driver.os.power_cuts(rng, 12)]:
            states += 1
            assert Start(image).folded == wanted
            assert not any(name.endswith(".tmp") for name in image.listdir(0))
            if PLACES[where]:
                assert every.items() <= segments_in(image).items()

    driver.os.after = crash
    take(driver, PLACES[where])
    visited(f"crash while a snapshot is made, {where}", states)


class Trips:
    """Raises at the nth call from now on; `tripped` once it did."""

    def __init__(self, driver: Driver, at: int, code: int) -> None:
        self.left, self.code, self.tripped = at, code, False
        self.driver = driver
        driver.os.before = self

    def __call__(self, call: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.tripped = True
            raise OSError(self.code, call)

    def off(self) -> None:
        self.driver.os.before = lambda _call: None


@pytest.mark.guarantee("J1", "J3", "J9")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_at_any_call_while_a_snapshot_is_made_loses_nothing(where, code):
    """And what could not be made, or not be let go, is at the next attempt."""
    grown_once = grown(snapshots=2, place=PLACES[where], far=where == "archived elsewhere")
    for _ in range(3):
        grown_once.grow(500, 300)
    rng, wanted = random.Random(5), joined(grown_once.appended)
    for at in itertools.count(1):
        driver = copy.copy(grown_once)
        driver.os, driver.writer, driver.spares = copied(grown_once)
        trips, failed = Trips(driver, at, code), False
        before = driver.writer.point.position
        try:
            take(driver, PLACES[where])
        except OSError:
            failed = True
        trips.off()
        if not trips.tripped:
            break
        for image in [driver.os.killed(), *driver.os.power_cuts(rng, 4)]:
            assert Start(image).folded == wanted
        # A failed record poisons the writer; any other failure does not.
        if failed and driver.writer.point.position == before:
            driver.writer, driver.spares = opened_again(driver)
        take(driver, PLACES[where])
        kept = snapshots_among(driver.os.listdir(0))
        assert len(kept) == 2
        oldest = parse(kept[-1], contents_of(driver.os)[kept[-1]])
        here = sorted(n for n in driver.os.listdir(0) if n.endswith(".jnl"))
        assert here[0] == oldest.point.name
        assert Start(driver.os.killed()).folded == wanted
    visited(f"fault while a snapshot is made, {where}", at - 1)


def copied(driver: Driver) -> tuple[FakeOs, Writer, list[Spare]]:
    """The same disk once more, opened."""
    again = Driver.__new__(Driver)
    again.os = driver.os.killed()
    return again.os, *opened_again(again)


def opened_again(driver: Driver) -> tuple[Writer, list[Spare]]:
    opened = opening.open_directory(
        driver.os, 0, lambda _frame: None, lambda *_: None, segment_bytes=SIZE, align=512
    )
    return opened.writer, opened.spares


def spoilt() -> tuple[Driver, str, bytes]:
    """The newest of two snapshots is damaged: its name, and what is in it."""
    driver = grown(snapshots=3)
    name = snapshots_among(driver.os.names)[0]
    contents = flipped(contents_of(driver.os), name)
    driver.os = from_contents(contents)
    return driver, name, contents[name]


def still_there(image: FakeOs, name: str) -> list[bytes]:
    """What a name stands for, here or in quarantine."""
    contents = contents_of(image)
    return [contents[one] for one in (name, f"quarantine/{name}") if one in contents]


@pytest.mark.guarantee("J2", "J9")
def test_a_crash_at_any_call_while_a_bad_snapshot_is_put_aside_loses_neither_it_nor_a_decision():
    driver, name, bad = spoilt()
    rng, states = random.Random(9), 0

    def crash(_call: str) -> None:
        nonlocal states
        for image in [driver.os.killed(), *driver.os.power_cuts(rng, 12)]:
            states += 1
            assert bad in still_there(image, name)
            assert Start(image).folded == joined(driver.appended)
            assert still_there(image, name) == [bad]
            assert f"quarantine/{name}" in image.durable_names

    driver.os.after = crash
    Start(driver.os)
    visited("crash while a bad snapshot is put aside", states)


@pytest.mark.guarantee("J2", "J3", "J9")
@pytest.mark.parametrize("far", [False, True], ids=["linked", "copied"])
def test_an_error_at_any_call_while_a_bad_snapshot_is_put_aside_loses_nothing(far):
    """The next start finds everything, and puts it aside."""
    for at in itertools.count(1):
        driver, name, bad = spoilt()
        driver.os.far = far
        trips = Trips(driver, at, errno.EIO)
        try:
            Start(driver.os)
        except JournalIOError:
            assert trips.tripped
        trips.off()
        if not trips.tripped:
            break
        for image in [driver.os.killed(), *driver.os.power_cuts(random.Random(4), 4)]:
            assert bad in still_there(image, name)
            assert Start(image).folded == joined(driver.appended)
            assert still_there(image, name) == [bad]
    visited(f"fault while a bad snapshot is put aside, {'copied' if far else 'linked'}", at - 1)


@pytest.mark.guarantee("J2", "J9")
def test_what_is_in_quarantine_is_replaced_by_nothing_and_stops_no_start():
    """Another file of that name is there already, as after a backup was restored: both stay."""
    driver, name, bad = spoilt()
    kept = f"quarantine/{name}"
    driver.os = from_contents({**contents_of(driver.os), kept: b"an earlier one"})
    start = Start(driver.os)
    assert start.folded == joined(driver.appended)
    assert list(start.opened.refused) == [name]
    assert still_there(driver.os, name) == [bad, b"an earlier one"]
