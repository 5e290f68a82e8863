"""Tombstones against a plain list, and what they cannot have become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import block, tombstones
from supervisor.core.block import block_in, block_line
from supervisor.core.columns import print_of
from supervisor.core.ids import OperationId
from supervisor.core.session_state import Tombstone
from supervisor.core.tombstones import Tombstones, tombstones_of
from tests.core.buried import older_line, small_blocks, tombstone
from tests.core.examples import examples

ROWS, TEXTS = 2, 3
EXPIRE, RENEW = "expire", "renew"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    small_blocks(monkeypatch, ROWS, TEXTS)


def is_that(found: Tombstones, wanted: list[Tombstone], ever: int) -> None:
    assert [*found] == wanted
    assert [*reversed(found)] == wanted[::-1]
    assert len(found) == len(wanted)
    assert len([*found.behind_blocks()]) < ROWS
    assert sum(len(one) < ROWS * TEXTS for one in found.blocks) < TEXTS
    for n in range(ever):
        one = OperationId(f"op_{n}")
        assert found.get(one) == next((t for t in wanted if t.operation_id == one), None)
    for n in range(8):
        message = tombstone(0, n).message
        assert found.of(message) == next((t for t in wanted if t.message == message), None)


def read_back(found: Tombstones) -> Tombstones:
    blocks = tuple(block_in(block_line(one)) for one in found.blocks)
    return tombstones_of(found.first, found.gone, blocks, found.behind_blocks())


STEPS = st.lists(st.one_of(st.just(EXPIRE), st.just(RENEW), st.integers(0, 7)), max_size=60)


def are_a_line(steps: list[str | int]) -> None:
    """A number comes with the message of that number; the oldest goes, or comes again."""
    found, wanted, ever = Tombstones(), list[Tombstone](), 0
    again = found
    for step in steps:
        if isinstance(step, str) and wanted:
            renewed = wanted[:1] if step == RENEW else []
            found, again, wanted = (
                found.without_oldest(),
                again.without_oldest(),
                [*wanted[1:], *renewed],
            )
        elif isinstance(step, int) and found.of(tombstone(0, step).message) is None:
            renewed = [tombstone(ever, step)]
            wanted, ever = [*wanted, *renewed], ever + 1
        else:
            renewed = []
        for one in renewed:
            found, again = found.with_one(one), again.with_one(one)
        is_that(found, wanted, ever)
        assert again == found
        again = read_back(again)
        assert again == found


@pytest.mark.guarantee("R10", "J9")
@examples(100, 5_000)
@given(STEPS)
def test_they_are_a_line_however_they_are_kept(steps):
    are_a_line(steps)


def few_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many texts have each."""
    for module in (block, tombstones):
        monkeypatch.setattr(module, "print_of", lambda text: print_of(text) % 2)


@pytest.mark.guarantee("R10")
def test_they_are_when_texts_have_prints_in_common(monkeypatch):
    few_prints(monkeypatch)

    @examples(30, 1_000)
    @given(STEPS)
    def are_told_apart(steps):
        are_a_line(steps)

    are_told_apart()


@pytest.mark.guarantee("R10")
def test_a_message_that_is_new_is_none_of_those_with_its_print(monkeypatch):
    few_prints(monkeypatch)
    are_a_line([*range(6)])


@pytest.mark.guarantee("R10")
def test_of_a_message_that_came_again_the_last_counts():
    """In a block of its own, and when the two are in one."""
    are_a_line([0, 1, 2, 3, EXPIRE, 0, 4])
    are_a_line([0, 1, 2, 3, EXPIRE, 0, 4, *[EXPIRE] * 6])
    are_a_line([0, 1, 2, 3, RENEW, 4])


def test_a_message_that_is_new_unpacks_nothing():
    found = Tombstones()
    for n in range(100):
        found = found.with_one(tombstone(n, n))
    before = block._tombstones_in.cache_info()
    for n in range(100, 1_100):
        assert found.of(tombstone(n, n).message) is None
        assert found.get(OperationId(f"op_{n}")) is None
    assert block._tombstones_in.cache_info() == before
    assert found.of(tombstone(7, 7).message) == tombstone(7, 7)
    assert block._tombstones_in.cache_info() != before


def test_those_of_an_older_snapshot_are_the_same():
    """Its blocks were full ones, and what was behind them may fill young ones."""
    wanted = [tombstone(n, n) for n in range(15)]
    full = [block_in(older_line(wanted[first : first + 6])) for first in (0, 6)]
    found = Tombstones()
    for one in wanted:
        found = found.with_one(one)
    again = tombstones_of(5, 2, tuple(full), wanted[12:])
    assert again.blocks == found.blocks
    is_that(again, wanted[2:], 15)


def test_what_they_cannot_have_become_is_refused():
    found = Tombstones()
    for n in range(11):
        found = found.with_one(tombstone(n, n))
    full, young, *_ = found.blocks
    assert [*map(len, found.blocks)] == [6, 2, 2]
    later = tombstone(11, 11)
    assert len(tombstones_of(7, 5, (full, young), [later])) == 4
    for gone, blocks, recent, says in (
        (6, (full,), (), "more are gone"),
        (2, (young, young), (), "more are gone"),
        (-1, (full,), (), "more are gone"),
        (1, (), (later,), "more are gone"),
        (0, (young, full), (), "neither 6 nor 2"),
        (0, (young, young, young), (), "neither 6 nor 2"),
        (0, (full,), (later, tombstone(11, 9)), "twice"),
        (0, (full,), (later, tombstone(9, 11)), "twice"),
        (0, (), (later, later, later), "twice"),
    ):
        with pytest.raises(ValueError, match=says):
            tombstones_of(0, gone, blocks, recent)
