"""Requests about operations that are packed: the same answers, and the loop does not stop."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from config.load import Handlers
from config.schema import Config, Origin
from supervisor.core import packing
from supervisor.core.drawer import Packed
from supervisor.core.record import Ending
from supervisor.core.state import State
from supervisor.core.step import EndAsked
from supervisor.dispatch import Engine, Events
from supervisor.journal.log import Journal
from supervisor.scratch import Scratch
from supervisor.server import Peer, Request
from supervisor.service import Service
from supervisor.service.context import LARGE
from tests.core.agent import WRITE, Agent
from tests.core.made import CLIENT
from tests.core.packed import packed
from tests.e2e.support.api import without_the_time
from tests.sandbox.support import launched

CALLS = 40
PEER = Peer(os.getpid(), CLIENT.uid, CLIENT.uid, frozenset(), 0)


def worked() -> Agent:
    """An open operation that made its calls and is done, and one that made one."""
    agent = Agent()
    large = agent.op
    for n in range(CALLS):
        agent.completed(WRITE, n)
    agent.do(EndAsked(agent.now, large, CLIENT, 0, Ending.DONE))
    agent.op = agent.message()
    agent.completed(WRITE, 0)
    agent.end(Ending.DONE)
    return agent


async def answers(
    directory: Path, state: State, frames: list[bytes], asked: list[tuple[str, ...]]
) -> list[Any]:
    """What a service of this state says to each, but for what moves with the clock."""
    journal = Journal.open(directory, lambda _frame: None, segment_bytes=65_536)
    config = Config(state_dir=directory, origin=Origin(daemon_uid=0))

    async def nothing() -> Any:
        raise AssertionError("nobody asks for it")

    async def groups(_uid: int) -> frozenset[int]:
        return frozenset()

    journal.start()
    for frame in frames:
        await journal.durable(journal.append(frame))
    found = []
    async with launched() as launcher:
        engine = Engine(
            config=config,
            handlers=Handlers({}),
            journal=journal,
            launcher=launcher,
            state=state,
            events=Events(),
            scratch=Scratch(config.state_dir),
            groups=groups,
        )
        service = Service(engine, nothing, started=0)
        for path in asked:
            packing.unpacked.cache_clear()
            response = await service.app(Request("GET", ("v1", *path), {}, {}, b"", PEER))
            assert response.status == 200, response.body
            found.append(without_the_time(json.loads(response.body)))
    await journal.close()
    return found


async def test_every_answer_is_the_same_and_large_ones_are_unpacked_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = worked()
    first, *_ = agent.state.operations[agent.op].call_order
    operation = max(agent.state.operations.values(), key=lambda one: len(one.calls))
    call_id, effect_id = operation.call_order[-1], max(operation.effects)
    one = operation.operation_id
    asked: list[tuple[str, ...]] = [
        ("operations",),
        ("effects",),
        ("sessions", "uid:1000"),
        ("operations", one),
        ("operations", one, "recovery"),
        ("operations", one, "checkpoint"),
        ("operations", one, "note"),
        ("operations", agent.op),
        ("calls", call_id),
        ("calls", first),
        ("effects", effect_id),
    ]
    threads: list[threading.Thread] = []
    read = packing.read

    def noted(cls: type[Any], value: Any) -> Any:
        if cls is packing.Operation and value["operation_id"] == one:
            threads.append(threading.current_thread())
        return read(cls, value)

    monkeypatch.setattr(packing, "read", noted)
    for name in ("whole", "small"):
        (tmp_path / name).mkdir(mode=0o700)
    whole = await answers(tmp_path / "whole", agent.state, agent.frames, asked)
    small = packed(agent.state)
    assert not small.operations.loose
    held = small.operations.as_held(one)
    assert isinstance(held, Packed)
    assert len(held.content) > LARGE
    assert await answers(tmp_path / "small", small, agent.frames, asked) == whole
    assert threads
    assert threading.main_thread() not in threads
