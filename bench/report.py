"""Results as a page of Markdown: what was measured, in what, against what."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median

from bench.facts import BUSY_LOAD
from bench.figures import Series, ms
from bench.floors import BWRAP_LACKS
from bench.goals import Goal
from bench.spawn import Report
from bench.thinking import Pace
from bench.throughput import Rate


def page(report: Report, plot: str) -> str:
    """The whole page; ``plot`` is the name of the picture beside it."""
    parts = [
        "# What a contained run costs",
        _intro(report),
        _conditions(report),
        "## Goals",
        goals(report.goals),
        "## One run at a time",
        f"![medians and 99th percentiles, in multiples of Popen]({plot})",
        latencies(report),
        "## Back to back",
        _rates(report),
        "## The pool, by the pause between two requests",
        _paces(report.paces),
        "## Memory",
        _footprints(report),
    ]
    return "\n\n".join(parts) + "\n"


def goals(found: list[Goal]) -> str:
    said = {True: "met", False: "**missed**", None: "not judged"}
    return table(("goal", "found", ""), [(goal.text, goal.found, said[goal.met]) for goal in found])


def latencies(report: Report) -> str:
    """One row for each thing that was waited for."""
    floor = report.latencies.floor
    rows = [
        (name, proof, *_durations(series, floor))
        for (name, proof), series in report.latencies.series.items()
    ]
    return table(("what ran", "until", "median ms", "p99 ms", "x Popen", "p99 x Popen's"), rows)


def _durations(series: Series, floor: Series) -> tuple[str, str, str, str]:
    medians = " ".join(ms(one) for one in series.medians_ns)
    ratio, ratio_p99 = series.median_over(floor), series.p99_over(floor)
    return medians, ms(series.p99_ns), f"{ratio:.2f}", f"{ratio_p99:.2f}"


def _intro(report: Report) -> str:
    settings = report.settings
    return f"""\
Written by `./dev bench spawn` on {time.strftime("%Y-%m-%d", time.gmtime())}. Each row is a run of
/bin/true, from the request to what the second column says. All rows were measured in turn,
{settings.count} rounds in each of {settings.runs} runs, each after {settings.pause_ms} ms of rest.
A ratio is taken run by run, of medians or of 99th percentiles; the median over the runs is shown.
effectd is measured where its daemon stands: through its launcher, under trio, all three outputs
read. Journal and HTTP are not in these figures."""


def _conditions(report: Report) -> str:
    before, after = report.loads
    rows = list(report.machine.items())
    busy = "" if max(before, after) < BUSY_LOAD else ": something else was measured along"
    rows += [
        ("load average before, at the end", f"{before:.2f}, {after:.2f}{busy}"),
        ("layers in force", ", ".join(report.layers)),
        ("layers that this host cannot give", ", ".join(report.not_here) or "none"),
        ("ready sandboxes kept", str(report.settings.pool)),
        ("bwrap", f"{report.bubblewrap} ({BWRAP_LACKS})" if report.bubblewrap else "not here"),
    ]
    return table(("", ""), rows)


def _rates(report: Report) -> str:
    rows: list[tuple[str, ...]] = []
    for at_once, ours in report.rates.items():
        for name, runs in (("Popen", report.popen_rates[at_once]), ("effectd", ours)):
            rows.append((name, str(at_once), *_rate(runs)))
    head = ("what", "in flight", "a second", "ms of CPU", "ms of CPU, whole machine", "median ms")
    return table((*head, "p99 ms"), rows)


def _rate(runs: list[Rate]) -> tuple[str, ...]:
    def of(read: Callable[[Rate], float]) -> float:
        return median(read(run) for run in runs)

    return (
        f"{of(lambda run: run.per_s):.0f}",
        f"{of(lambda run: run.cpu_ms):.2f}",
        f"{of(lambda run: run.machine_cpu_ms):.2f}",
        ms(of(lambda run: run.median_ns)),
        ms(of(lambda run: run.p99_ns)),
    )


def _paces(paces: list[Pace]) -> str:
    rows = [
        (
            f"{pace.pause_ms} ms",
            f"{pace.hit_rate:.2f}",
            ms(pace.proven.median_ns),
            ms(pace.proven.p99_ns),
            f"{pace.proven.median_over(pace.popen):.2f}",
        )
        for pace in paces
    ]
    return table(("pause", "found ready", "median ms", "p99 ms", "x Popen at that pace"), rows)


def _footprints(report: Report) -> str:
    if not report.footprints:
        return "Only root can look into sandboxes: run this as root for their memory."
    rows = [(one.kind, f"{one.pss:.0f}", f"{one.private_dirty:.0f}") for one in report.footprints]
    return table(("what", "PSS, KiB", "private dirty, KiB"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
