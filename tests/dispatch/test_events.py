"""Events: each once and in order, in whatever way they are kept, and nothing for nobody."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise

import pytest
import trio

from supervisor.core.ids import OperationId
from supervisor.core.record import OperationEvicted, Record
from supervisor.core.state import State
from supervisor.dispatch import Event, Events
from supervisor.dispatch import events as events_module
from supervisor.dispatch.events import page_of
from supervisor.journal.records import encode

NOBODY = State()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "PAGE_FRAMES", 4)
    monkeypatch.setattr(events_module, "LOOSE_FRAMES", 9)


def about(position: int) -> tuple[Record, ...]:
    return (OperationEvicted(position * 10**9, OperationId(f"op_{position}")),)


def happened(events: Events, *positions: int) -> None:
    for position in positions:
        records = about(position)
        events.queue(position, encode(records), records, NOBODY)
        events.publish(position)


def put_in_pages(events: Events) -> None:
    events.put_in([*map(page_of, events.full_pages())])


def after(events: Events, position: int) -> Iterator[Event]:
    return (event for part in events.after(position) for event in part)


def positions(events: Events, position: int = 0) -> list[int]:
    found = [*after(events, position)]
    assert [one.records for one in found] == [about(one.position) for one in found]
    return [one.position for one in found]


@pytest.mark.guarantee("R9")
def test_from_every_position_all_that_is_newer_comes_once_in_pages_or_not() -> None:
    events = Events()
    for step in range(1, 8):
        happened(events, *range(7 * step - 6, 7 * step + 1))
        for position in range(-1, 7 * step + 2):
            assert positions(events, position) == [*range(max(position, 0) + 1, 7 * step + 1)]
        assert (events.earliest, events.latest, events.gone) == (1, 7 * step, 0)
        if step % 2:
            put_in_pages(events)
            assert not events.crowded


def test_the_oldest_go_and_it_is_said_where_they_begin() -> None:
    events = Events(kept=20)
    assert (events.earliest, events.latest) == (1, 0)
    for position in range(1, 60):
        happened(events, position)
        if position % 10 == 0:
            put_in_pages(events)
        found = positions(events)
        assert found == [*range(events.gone + 1, position + 1)]
        assert events.earliest == found[0]
        assert min(position, 16) <= len(found) <= 20
    events.begin_behind(70)
    assert (positions(events), events.earliest, events.latest) == ([], 71, 70)


def test_what_goes_while_pages_are_made_is_not_there_again() -> None:
    events = Events(kept=9)
    happened(events, *range(1, 10))
    first, second = map(page_of, [*events.full_pages(), [*after(events, 4)][:4]])
    happened(events, *range(10, 16))  # 1 to 6 go
    events.put_in([first, second])
    assert positions(events) == [5, 6, 7, 8, *range(9, 16)]
    happened(events, 16)
    assert positions(events) == [*range(9, 17)]


def test_what_was_asked_for_before_is_what_was_there_then() -> None:
    events = Events(kept=20)
    happened(events, *range(1, 16))
    put_in_pages(events)
    asked = after(events, 2)
    happened(events, *range(16, 40))
    put_in_pages(events)
    assert [one.position for one in asked] == [*range(3, 16)]


def test_an_owner_is_kept_with_it() -> None:
    events = [Event(1, None, b"[]"), Event(2, 0, b"[]"), Event(3, 1000, b"[]")]
    assert [*page_of(events).after(0)] == events


def test_events_that_are_in_no_page_are_crowded() -> None:
    events = Events()
    happened(events, *range(1, 9))
    assert not events.crowded
    happened(events, 9)
    assert events.crowded


async def test_all_who_wait_for_an_operation_hear_of_its_next_frame_and_nothing_is_left() -> None:
    """A leak would be as large as what is waited for: every operation."""
    events, heard = Events(), []

    async def wait(n: int) -> None:
        await events.change_of(OperationId(f"op_{n // 2}")).wait()
        heard.append(n)

    async with trio.open_nursery() as nursery:
        for n in range(2, 6):
            nursery.start_soon(wait, n)
        await trio.testing.wait_all_tasks_blocked()
        happened(events, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(heard) == [2, 3]
        happened(events, 2)
    assert sorted(heard) == [2, 3, 4, 5]
    gc.collect()
    before = _waited_for()
    for n in range(50):  # it is over already: nobody waits
        assert not events.change_of(OperationId(f"op_{n}")).is_set()
    gc.collect()
    assert _waited_for() == before


def _waited_for() -> int:
    return sum(type(one) is trio.Event for one in gc.get_objects())


def test_pages_are_a_fraction_of_what_stands_in_the_journal() -> None:
    events = [Event(n, 1000, encode(about(n))) for n in range(256)]
    page = page_of(events)
    assert len(page.content) < sum(len(one.payload) for one in events) / 4
    assert all(one.position < later.position for one, later in pairwise(page.after(-1)))
