"""Tombstones against a plain list, and what a block of them refuses."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import tombstones
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.session_state import Tombstone
from supervisor.core.tombstones import Block, Tombstones, block_of, tombstones_of
from tests.core.examples import examples


def tombstone(n: int, message: int) -> Tombstone:
    session, request = SessionId(f"uid:{message % 2}"), f"turn {message}: \N{BELL}"
    return Tombstone(OperationId(f"op_{n}"), session, request, f"{n:064x}", n % 3, n * 10**9)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(tombstones, "BLOCK", 3)


def is_that(found: Tombstones, wanted: list[Tombstone], ever: int) -> None:
    assert [*found] == wanted
    assert [*reversed(found)] == wanted[::-1]
    assert len(found) == len(wanted)
    assert len([*found.behind_blocks()]) < tombstones.BLOCK
    for n in range(ever):
        one = OperationId(f"op_{n}")
        assert found.get(one) == next((t for t in wanted if t.operation_id == one), None)
    for n in range(8):
        message = tombstone(0, n).message
        assert found.of(message) == next((t for t in wanted if t.message == message), None)


@pytest.mark.guarantee("R10", "J9")
@examples(100, 5_000)
@given(st.lists(st.one_of(st.none(), st.integers(0, 7)), max_size=60))
def test_they_are_a_line_however_they_are_kept(steps):
    """A number comes with the message of that number, None takes the oldest away."""
    found, wanted, ever = Tombstones(), list[Tombstone](), 0
    for step in steps:
        if step is None and wanted:
            found, wanted = found.without_oldest(), wanted[1:]
        elif step is not None and found.of(tombstone(0, step).message) is None:
            found, wanted = (
                found.with_one(tombstone(ever, step)),
                [*wanted, tombstone(ever, step)],
            )
            ever += 1
        is_that(found, wanted, ever)
        blocks = tuple(Block(one.operations, one.messages, one.rest) for one in found.blocks)
        recent = list(found.behind_blocks())
        assert tombstones_of(found.first, found.gone, blocks, recent) == found


def test_what_they_cannot_have_become_is_refused():
    block = block_of(tombstone(n, n) for n in range(3))
    later = tombstone(3, 3)
    assert len(tombstones_of(7, 2, (block,), [later])) == 2
    doubled = attrs.evolve(block, messages=(block.messages[0],) * 3)
    short = block_of(tombstone(n, n) for n in range(2))
    for gone, blocks, recent, says in (
        (3, (block,), (), "more are gone"),
        (-1, (block,), (), "more are gone"),
        (1, (), (later,), "more are gone"),
        (0, (doubled,), (), "twice"),
        (0, (short,), (), "has not 3"),
        (0, (block,), (later, tombstone(3, 9)), "twice"),
        (0, (block,), (later, tombstone(9, 3)), "twice"),
        (0, (), (later, later), "twice"),
    ):
        with pytest.raises(ValueError, match=says):
            tombstones_of(0, gone, blocks, recent)
