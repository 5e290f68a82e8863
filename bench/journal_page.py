"""What the journal costs, as a page of Markdown."""

from __future__ import annotations

import time
from statistics import median

from bench import journal_goals
from bench.commits import PAYLOAD_BYTES
from bench.facts import BUSY_LOAD
from bench.figures import ms, us
from bench.journal import SLICE, Report, Row
from bench.reading import LEAST, OPEN, VERIFY, Reading
from bench.report import goals, table

TITLE = "# What the journal costs"


def page(report: Report) -> str:
    parts = [
        TITLE,
        _intro(report),
        _conditions(report),
        "## The journal's goals",
        goals(journal_goals.judge(report)),
        "## A durable commit",
        commits(report),
        "## Reading it back",
        readings(report),
        _peaks(report),
    ]
    return "\n\n".join(parts) + "\n"


def _intro(report: Report) -> str:
    settings = report.settings
    return f"""\
Written by `./dev bench journal` on {time.strftime("%Y-%m-%d", time.gmtime())}. A record is
{PAYLOAD_BYTES} bytes of JSON, made before the clock starts; a commit is on disk when it returns.
All rows took turns of {SLICE} commits, {settings.commits} commits in each of {settings.runs} runs
(a row with callers: as many of each caller). A ratio is taken run by run, of medians; the
median over the runs is shown. Peers keep an order and a unique key, and run inline on the
measuring thread, but for the row that says `to_thread`."""


def _conditions(report: Report) -> str:
    before, after = report.loads
    busy = "" if max(before, after) < BUSY_LOAD else ": something else was measured along"
    rows = list(report.machine.items())
    rows += [
        ("scheduled", report.scheduling),
        ("load average before, at the end", f"{before:.2f}, {after:.2f}{busy}"),
    ]
    return table(("", ""), rows)


def commits(report: Report) -> str:
    """One row for each subject; the disk with as many records in a commit is its floor."""
    floors = {row.batch: row for row in report.rows if row.name == report.rows[0].name}
    rows = [_commit(row, floors[row.batch]) for row in report.rows]
    head = ("what", "records a commit", "median us", "p99 us", "x the disk", "records a second")
    return table(head, rows)


def _commit(row: Row, floor: Row) -> tuple[str, ...]:
    return (
        row.name,
        str(row.batch),
        " ".join(us(one) for one in row.series.medians_ns),
        us(row.series.p99_ns),
        f"{row.series.median_over(floor.series):.2f}",
        f"{median(row.per_s):.0f}",
    )


def readings(report: Report) -> str:
    """One row for each reader of each history."""
    rows = [row for reading in report.readings for row in _reading(reading)]
    return table(("what", "records", "in a batch", "ms", f"x {LEAST}", "records a second"), rows)


def _reading(reading: Reading) -> list[tuple[str, ...]]:
    floor = reading.series[LEAST]
    return [
        (
            name,
            str(reading.records),
            str(reading.batch),
            ms(reading.series[name].median_ns),
            f"{reading.series[name].median_over(floor):.2f}",
            f"{reading.per_s(name):.0f}",
        )
        for name in (LEAST, VERIFY, OPEN)
    ]


def _peaks(report: Report) -> str:
    rows = [(str(one.records), f"{one.kib / 1024:.0f}") for one in report.peaks]
    return table(("records that were verified", "most memory, MiB"), rows)
