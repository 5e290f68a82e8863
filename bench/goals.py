"""What was set out for, and whether this run reached it."""

from __future__ import annotations

import attrs

from bench.latency import BWRAP, COLD, POOLED, PROVEN, REAPED, Latencies
from bench.throughput import Rate

POOLED_MEDIAN, POOLED_P99, COLD_MEDIAN, PER_S = 1.5, 2.0, 4.0, 600
CORES = 2
"""The rate is a goal for a machine with this many; others are shown and not judged."""


@attrs.frozen
class Goal:
    """One sentence, and what came of it; ``met`` is None where it could not be judged."""

    text: str
    found: str
    met: bool | None


def judge(latencies: Latencies, rates: dict[int, list[Rate]], cores: int) -> list[Goal]:
    """Every goal of the spawn path; ``rates`` by how many were in flight."""
    floor, series = latencies.floor, latencies.series
    pooled, cold = series[POOLED, PROVEN], series[COLD, PROVEN]
    goals = [
        _at_most("pooled, median", pooled.median_over(floor), POOLED_MEDIAN),
        _at_most("pooled, p99", pooled.p99_over(floor), POOLED_P99),
        _at_most("cold, median", cold.median_over(floor), COLD_MEDIAN),
    ]
    bwrap = series.get((BWRAP, REAPED))
    text = "cold, median: below bwrap --unshare-all"
    if bwrap is None:
        goals.append(Goal(text, "bwrap is not here", None))
    else:
        ratio = cold.median_over(bwrap)
        goals.append(Goal(text, f"{ratio:.2f} x bwrap", ratio < 1))
    best = max(_median_rate(runs) for runs in rates.values())
    met = best >= PER_S if cores == CORES else None
    text = f"back to back: at least {PER_S} a second on {CORES} cores"
    return [*goals, Goal(text, f"{best:.0f} a second on {cores}", met)]


def _at_most(what: str, ratio: float, most: float) -> Goal:
    return Goal(f"{what}: at most {most} x Popen", f"{ratio:.2f} x Popen", ratio <= most)


def _median_rate(runs: list[Rate]) -> float:
    return sorted(rate.per_s for rate in runs)[len(runs) // 2]
