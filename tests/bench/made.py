"""A report that nothing was measured for."""

from __future__ import annotations

from bench import goals, latency
from bench.figures import Series
from bench.footprint import Footprint
from bench.latency import Latencies
from bench.spawn import Report, Settings
from bench.thinking import Pace
from bench.throughput import Rate

MS = 1_000_000


def series(*runs_ms: float) -> Series:
    """Three runs of the same value unless there are more."""
    runs = runs_ms if len(runs_ms) > 1 else runs_ms * 3
    return Series(tuple((int(run * MS),) for run in runs))


def latencies(pooled: float = 1.4, cold: float = 3.5, bwrap: float | None = 5.0) -> Latencies:
    """In ms; Popen takes one."""
    found = {(latency.POPEN, latency.REAPED): series(1)}
    for name, value in ((latency.POOLED, pooled), (latency.COLD, cold)):
        for more, proof in enumerate((latency.PROVEN, latency.DRAINED, latency.GONE)):
            found[name, proof] = series(value + more)
    if bwrap is not None:
        found[latency.BWRAP, latency.REAPED] = series(bwrap)
    return Latencies(found)


def rates(*per_s: float) -> dict[int, list[Rate]]:
    return {1 << at: [Rate(one, 1.5, 2.0, MS, 3 * MS)] * 3 for at, one in enumerate(per_s)}


def report(cores: int = 2, **more: float | None) -> Report:
    found = latencies(**more)
    return Report(
        Settings(count=100, runs=3, pause_ms=10, pool=2),
        {"kernel": "6.1", "cores": "2 usable"},
        (0.1, 0.9),
        ("user_namespace", "seccomp"),
        ("memory",),
        "0.8.0",
        found,
        rates(1_500, 2_000),
        rates(500, 700),
        [Pace(pause_ms, 0.5, series(2), series(1)) for pause_ms in (0, 5)],
        [Footprint("a template", 1, 1_400, 900)],
        goals.judge(found, rates(500, 700), cores),
    )
