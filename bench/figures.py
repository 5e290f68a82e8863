"""Durations and what is said of them: quantiles of one run, medians over runs, ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import attrs

NS_PER_MS, NS_PER_US = 1_000_000, 1_000


def quantile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least ``share`` of all do not exceed; ValueError for none."""
    if not values:
        raise ValueError("there is no quantile of nothing")
    rank = math.ceil(len(values) * share)
    return sorted(values)[max(rank, 1) - 1]


@attrs.frozen
class Series:
    """One thing measured over several runs: its durations in ns, run by run."""

    runs: tuple[tuple[int, ...], ...]

    @property
    def medians_ns(self) -> list[int]:
        return [quantile(run, 0.5) for run in self.runs]

    @property
    def median_ns(self) -> float:
        """The median run's median."""
        return statistics.median(self.medians_ns)

    @property
    def p99_ns(self) -> float:
        """The median run's 99th percentile."""
        return statistics.median(quantile(run, 0.99) for run in self.runs)

    def median_over(self, floor: Series) -> float:
        """How many times the floor's median: the median over the runs of each run's ratio.

        Run by run, because what slows one run down slows down its floor too.
        """
        return _over(self.runs, floor.runs, 0.5)

    def p99_over(self, floor: Series) -> float:
        """How many times the floor's 99th percentile, likewise."""
        return _over(self.runs, floor.runs, 0.99)


def _over(
    runs: tuple[tuple[int, ...], ...], floors: tuple[tuple[int, ...], ...], share: float
) -> float:
    pairs = zip(runs, floors, strict=True)
    return statistics.median(quantile(run, share) / quantile(floor, share) for run, floor in pairs)


def ms(ns: float) -> str:
    """As a table shows it: three digits that mean something."""
    value = ns / NS_PER_MS
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def us(ns: float) -> str:
    """Likewise; none of what is shown so is below a microsecond."""
    return f"{ns / NS_PER_US:.0f}"
