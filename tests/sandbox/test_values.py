"""The parts without I/O: bounded output and packed lists."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import wire
from sandbox.output import BoundedOutput


@settings(database=None)  # the checkout may belong to somebody else
@given(st.lists(st.binary(max_size=40)), st.integers(0, 30), st.integers(0, 30))
def test_output_keeps_head_and_tail_and_counts_the_rest(
    chunks: list[bytes], head: int, tail: int
) -> None:
    kept = BoundedOutput(head, tail)
    for chunk in chunks:
        kept.add(chunk)
    whole = b"".join(chunks)
    rest = whole[head:]
    assert kept.head == whole[:head]
    assert kept.tail == (rest[-tail:] if tail else b"")
    assert kept.omitted == len(whole) - len(kept.head) - len(kept.tail)
    assert kept.total == len(whole)


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize("size", [1, 2, 30, 5_000])
def test_output_holds_no_more_than_its_bounds_and_one_read_in_whatever_pieces(size: int) -> None:
    tracemalloc.start()
    try:
        kept = BoundedOutput(100, 2_000)
        piece = b"x" * size
        for _ in range(max(50, 40_000 // size)):
            kept.add(piece)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A list of its reads would hold fifty bytes for each of one byte. A bytearray has spare room.
    assert held <= most < 2 * (100 + 2 * 2_000 + size) + 2_000


@settings(database=None)  # the checkout may belong to somebody else
@given(st.lists(st.binary(max_size=20)))
def test_a_list_comes_back_as_it_was_packed(items: list[bytes]) -> None:
    assert wire.unpack_list(wire.pack_list(items)) == items


@settings(database=None)  # the checkout may belong to somebody else
@given(st.lists(st.binary(max_size=5), max_size=5), st.integers(0, 60))
def test_a_cut_off_list_is_refused(items: list[bytes], at: int) -> None:
    data = wire.pack_list(items)
    if at < len(data):
        with pytest.raises(ValueError, match="list"):
            wire.unpack_list(data[:at])


@settings(database=None)  # the checkout may belong to somebody else
@given(st.binary(max_size=64))
def test_any_bytes_are_a_list_or_refused(data: bytes) -> None:
    try:
        items = wire.unpack_list(data)
    except ValueError:
        return
    assert wire.pack_list(items) == data
