"""The assembler of filter programs: every block does what it says, wherever it comes to lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import bpf
from tests.sandbox import bpfvm


def ladder(starts: list[tuple[int, bpf.Block]], value: int) -> bpf.Block:
    return next(block for start, block in reversed(starts) if start <= value)


def padded(result: int, size: int) -> bpf.Block:
    """A block of some length, to force jumps of either kind."""
    return (((bpf.AND, 0, 0, 0xFFFF_FFFF),) * size) + bpf.fails(result)


@given(
    st.lists(st.integers(1, 2**32 - 1), unique=True, max_size=40),
    st.lists(st.integers(0, 400), min_size=41, max_size=41),
    st.lists(st.integers(0, 2**32 - 1), max_size=8),
)
def test_a_tree_of_ranges_answers_as_a_walk_along_them_would(
    bounds: list[int], sizes: list[int], values: list[int]
) -> None:
    starts = [
        (bound, padded(number, sizes[number - 1] if len(bounds) < 8 else sizes[number - 1] % 60))
        for number, bound in enumerate([0, *sorted(bounds)], start=1)
    ]
    program = bpf.assemble(bpf.load(bpf.NUMBER_AT, bpf.by_range(starts)))
    code = bpfvm.check(program)
    for value in {*values, *bounds, *(bound - 1 for bound in bounds), 0, 2**32 - 1}:
        action, _ = bpfvm.run(code, 0, value)
        assert bpf.returns(action) == ladder(starts, value)[-1:]


@given(st.integers(0, 600), st.integers(0, 600), st.integers(0, 2**32 - 1), st.data())
def test_a_branch_may_lie_further_than_a_jump_reaches(
    then: int, otherwise: int, value: int, data: st.DataObject
) -> None:
    near = data.draw(st.sampled_from([value, value ^ 1, 0, 2**32 - 1]))
    for branch, holds in (
        (bpf.equal, near == value),
        (bpf.at_least, near >= value),
        (bpf.any_bit, bool(near & value)),
    ):
        block = branch(value, padded(1, then), padded(2, otherwise))
        code = bpfvm.check(bpf.assemble(bpf.load(bpf.NUMBER_AT, block)))
        assert bpfvm.verdict(bpfvm.run(code, 0, near)[0]) == (1 if holds else 2)


def test_a_program_that_the_kernel_would_not_take_is_not_made() -> None:
    assert bpf.assemble(padded(1, 4095))
    with pytest.raises(ValueError, match="4097 instructions"):
        bpf.assemble(padded(1, 4096))
