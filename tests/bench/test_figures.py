"""What is said of durations: quantiles that were measured, ratios that are taken run by run."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Series, ms, quantile

durations = st.lists(st.integers(1, 10**9), min_size=1, max_size=300)


@pytest.mark.parametrize(
    ("count", "share", "rank"),
    [(1, 0.5, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.99, 99), (101, 0.99, 100), (300, 0.99, 297)],
)
def test_a_quantile_is_the_value_of_its_rank(count: int, share: float, rank: int) -> None:
    assert quantile(list(range(count, 0, -1)), share) == rank


@given(durations, st.floats(0.01, 1.0))
def test_a_quantile_was_measured_and_that_share_does_not_exceed_it(
    values: list[int], share: float
) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def test_there_is_no_quantile_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        quantile([], 0.5)


def test_ratios_are_taken_run_by_run() -> None:
    # The second run was slow for both: the ratio of all medians would say 1.1.
    floor = Series(((100,), (1_000,), (100,)))
    ours = Series(((150,), (1_100,), (150,)))
    assert ours.median_over(floor) == 1.5
    assert ours.p99_over(floor) == 1.5
    assert statistics.median(ours.medians_ns) == ours.median_ns == 150


@given(st.lists(durations, min_size=1, max_size=5))
def test_a_series_is_once_itself(runs: list[list[int]]) -> None:
    series = Series(tuple(map(tuple, runs)))
    assert series.median_over(series) == series.p99_over(series) == 1


def test_runs_that_do_not_belong_together_are_not_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        Series(((1,), (1,))).median_over(Series(((1,),)))


@pytest.mark.parametrize(
    ("ns", "text"), [(123_456, "0.12"), (9_994_000, "9.99"), (12_345_678, "12.3")]
)
def test_milliseconds_have_three_digits(ns: int, text: str) -> None:
    assert ms(ns) == text
