"""What the journal set out for, and whether this run reached it."""

from __future__ import annotations

from statistics import median

from bench.figures import ms
from bench.goals import Goal
from bench.journal import Report, Row
from bench.reading import LEAST, OPEN, VERIFY

ONE_THREAD, ONE_CALLER, MANY_PER_S, MANY_P99 = 0.85, 1.8, 100_000, 10
SQLITE = {1: 1.8, 64: 2.5}
OPEN_PER_S, STALL_MS, VERIFY_OVER_LEAST, MEMORY_GROWTH = 600_000, 2, 2, 1.1


def judge(report: Report) -> list[Goal]:
    """Every goal of the journal that one run can show."""
    return [*_commits(report), *_reading(report)]


def _commits(report: Report) -> list[Goal]:
    rows = {(row.name, row.batch): row for row in report.rows}
    disk, thread = rows["pwrite, fdatasync", 1], rows["journal, one thread", 1]
    one, many = rows["journal, trio, 1 caller", 1], rows["journal, trio, 64 callers", 1]
    share = disk.series.median_over(thread.series)
    wait = one.series.median_over(disk.series)
    rate = median(many.per_s)
    tail = many.series.p99_ns / disk.series.median_ns
    goals = [
        Goal(
            f"one thread, a record a commit: at least {ONE_THREAD} of the disk's own rate",
            f"{share:.2f}",
            share >= ONE_THREAD,
        ),
        Goal(
            f"one caller on the loop: waits at most {ONE_CALLER} x as long as for the disk alone",
            f"{wait:.2f} x",
            wait <= ONE_CALLER,
        ),
        Goal(
            f"64 callers: at least {MANY_PER_S} records a second",
            f"{rate:.0f} a second",
            rate >= MANY_PER_S,
        ),
        Goal(
            f"64 callers, p99: at most {MANY_P99} x the disk's median",
            f"{tail:.1f} x",
            tail <= MANY_P99,
        ),
    ]
    return goals + [_sqlite(rows, batch, least) for batch, least in SQLITE.items()]


def _sqlite(rows: dict[tuple[str, int], Row], batch: int, least: float) -> Goal:
    theirs = rows["SQLite, WAL, FULL", batch].series
    ratio = theirs.median_over(rows["journal, one thread", batch].series)
    text = f"one thread, {batch} in a commit: at least {least} x SQLite's rate"
    return Goal(text, f"{ratio:.2f} x", ratio >= least)


def _reading(report: Report) -> list[Goal]:
    dense = report.readings[0]
    per_s = dense.per_s(OPEN)
    over = dense.series[VERIFY].median_over(dense.series[LEAST])
    late = median(report.stall.hanging)
    peaks = [one.kib for one in report.peaks]
    growth = peaks[-1] / peaks[0]
    return [
        Goal(
            f"opened and proven: at least {OPEN_PER_S} records a second",
            f"{per_s:.0f} a second",
            per_s >= OPEN_PER_S,
        ),
        Goal(
            f"verify: at most {VERIFY_OVER_LEAST} x {LEAST}",
            f"{over:.2f} x",
            over <= VERIFY_OVER_LEAST,
        ),
        Goal(
            "verify: as much memory for ten times the records",
            f"{growth:.2f} x",
            growth <= MEMORY_GROWTH,
        ),
        Goal(
            f"the disk hangs 500 ms: no tick of the loop later than {STALL_MS} ms",
            f"{ms(late)} ms (with no journal at work: {ms(median(report.stall.idle))} ms)",
            late <= STALL_MS * 1_000_000,
        ),
    ]
