"""The stream of events: each once and in order, whatever happens while one part is sent."""

from __future__ import annotations

import json
import random
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from supervisor.core.ids import OperationId
from supervisor.core.record import OperationEvicted
from supervisor.core.state import State
from supervisor.dispatch import Events
from supervisor.dispatch import events as events_module
from supervisor.dispatch.events import page_of
from supervisor.journal.records import encode
from supervisor.service.events import _stream


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "PAGE_FRAMES", 4)


def happened(events: Events, position: int) -> None:
    records = (OperationEvicted(position * 10**9, OperationId(f"op_{position:04}")),)
    events.queue(position, encode(records), records, State())
    events.publish(position)


def stream(events: Events, *, follow: bool, only: str | None = None, after: int = 0) -> Any:
    context: Any = SimpleNamespace(engine=SimpleNamespace(events=events))
    command: Any = SimpleNamespace(after=after, operation_id=only, follow=follow)
    return _stream(context, command, None)


@pytest.mark.guarantee("R9")
@pytest.mark.parametrize(("last", "seeds"), [(1, 20), (3, 20), (200, 3)])
async def test_who_follows_gets_each_once_and_misses_none(last: int, seeds: int) -> None:
    """Everybody rests when chance says so: a frame may come at any of these moments, and it may be
    the last one for long."""
    for seed in range(seeds):
        await followed_to(last, seed)


async def followed_to(last: int, seed: int) -> None:
    chance, events, found = random.Random(seed), Events(), list[int]()

    async def rest() -> None:
        for _ in range(chance.choice((0, 0, 1, 2, 5))):
            await trio.lowlevel.checkpoint()

    async def follow() -> None:
        async with aclosing(stream(events, follow=True)) as followed:
            async for lines in followed:
                found.extend(json.loads(line)["position"] for line in lines.splitlines())
                await rest()
                if found[-1] == last:
                    return

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            for position in range(1, last + 1):
                happened(events, position)
                if chance.random() < 0.1:
                    events.put_in([*map(page_of, events.full_pages())])
                await rest()
    assert found == [*range(1, last + 1)]


async def test_those_of_one_operation_are_found_in_pages_too() -> None:
    events = Events()
    for position in range(1, 30):
        happened(events, position)
    events.put_in([*map(page_of, events.full_pages())])
    for position in (1, 7, 29):
        lines = b"".join(
            [one async for one in stream(events, follow=False, only=f"op_{position:04}")]
        )
        assert [json.loads(line)["position"] for line in lines.splitlines()] == [position]
    assert [one async for one in stream(events, follow=False, after=29)] == []


@pytest.mark.parametrize("only", [None, "op_0001"])
async def test_of_a_journal_in_which_nothing_came_behind_the_snapshot_there_are_none(
    only: str | None,
) -> None:
    """As of one that takes nothing any more: it is damaged, and shown."""
    events = Events()
    events.begin_behind(70)
    with trio.fail_after(10):
        assert [one async for one in stream(events, follow=False, only=only)] == []
