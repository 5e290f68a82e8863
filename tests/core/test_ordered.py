"""The ordered set against the language's own, wherever its blocks end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.ordered import END, Ordered, ordered
from tests.core.examples import examples

EDGES = [n + d for n in (0, 1 << 10, 1 << 20, 1 << 30, END) for d in (-1, 0, 1)]
NUMBERS = st.one_of(
    st.sampled_from([n for n in EDGES if 0 <= n < END]), st.integers(0, 40), st.integers(0, END - 1)
)


@examples(100, 5_000)
@given(st.lists(NUMBERS), st.lists(NUMBERS))
def test_it_is_a_set_in_order_however_it_was_made(come, go):
    made, known = Ordered(), set()
    for number in come:
        made, known = made.joined(number), known | {number}
    for number in go:
        made, known = made.left(number), known - {number}
    assert (list(made), list(reversed(made))) == (sorted(known), sorted(known, reverse=True))
    assert len(made) == len(known)
    assert made == ordered(known) == ordered([*known, *known])
    for number in {*come, *go, *EDGES} - {-1, END, END + 1}:
        assert (number in made) is (number in known)
        assert made.at_most(number) == max((n for n in known if n <= number), default=None)
        assert made.at_least(number) == min((n for n in known if n >= number), default=None)
    assert made.at_most(-1) is None
