"""``bench journal``: what a durable commit costs, a stalled disk, and reading a long journal."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import attrs
import trio

from bench import commits, facts, peers, reading, stall
from bench.commits import Subject
from bench.figures import Series
from bench.reading import Peak, Reading
from bench.stall import Stall

CALLERS = (1, 8, 64)
BATCHES = (1, 64)
SLICE = 50
"""Commits of a turn: subjects take turns so often that all of them meet the same noise."""
_DENSE, _ALONE = 64, 1


@attrs.frozen
class Settings:
    """How much is measured, and on which file system."""

    commits: int
    runs: int
    records: int
    directory: Path


@attrs.frozen
class Row:
    """One subject: what its waits took, and how many records it made durable in a second."""

    name: str
    batch: int
    series: Series
    per_s: tuple[float, ...]
    """Run by run."""


@attrs.frozen
class Report:
    """Everything that one invocation found."""

    settings: Settings
    machine: dict[str, str]
    loads: tuple[float, float]
    """Of the minute before and of the last minute of measuring."""
    scheduling: str
    rows: list[Row]
    stall: Stall
    readings: list[Reading]
    peaks: list[Peak]


def journal(settings: Settings) -> Report:
    """Measure it all; some minutes, and some GiB of `directory` until it is done."""
    gc.collect()
    gc.freeze()  # as the daemon's own start-up objects are by the time it serves
    with tempfile.TemporaryDirectory(prefix="effectd-bench-", dir=settings.directory) as folder:
        return trio.run(_measured, settings, Path(folder))


async def _measured(settings: Settings, folder: Path) -> Report:
    before = facts.load()
    _say("commits: the disk, the journal and its peers in turn")
    rows = await _commits(folder, settings)
    _say("a disk that hangs")
    stalled = await stall.measure(folder / "stall", settings.runs)
    _say(f"reading {settings.records} records")
    readings = [
        await reading.measure(folder / f"history-{batch}", records, batch, settings.runs)
        for records, batch in ((settings.records, _DENSE), (settings.records // 10, _ALONE))
    ]
    _say("the verifier's memory")
    shorter = folder / "shorter"
    reading.write_history(shorter, settings.records // 10, _DENSE)
    peaks = [
        Peak(settings.records // 10, reading.peak(shorter)),
        Peak(settings.records, reading.peak(folder / f"history-{_DENSE}")),
    ]
    return Report(
        settings,
        _facts(settings.directory),
        (before, facts.load()),
        _scheduling(),
        rows,
        stalled,
        readings,
        peaks,
    )


def _facts(directory: Path) -> dict[str, str]:
    lmdb = peers.lmdb_version()
    return {
        **facts.machine(),
        "file system": facts.file_system(directory),
        "SQLite": sqlite3.sqlite_version,
        "LMDB": lmdb or "not here (./dev bench installs it)",
    }


def _scheduling() -> str:
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        return "as any process"
    return f"real time, priority {os.sched_getparam(0).sched_priority}"


async def _commits(folder: Path, settings: Settings) -> list[Row]:
    async with contextlib.AsyncExitStack() as stack:
        subjects = [stack.enter_context(one) for one in _blocking(folder)]
        subjects += [
            await stack.enter_async_context(commits.under_trio(folder / f"trio-{callers}", callers))
            for callers in CALLERS
        ]
        runs = [await _one_run(subjects, settings.commits) for _ in range(settings.runs)]
    return [
        Row(
            subject.name,
            subject.batch,
            Series(tuple(run[at].durations for run in runs)),
            tuple(run[at].per_s(subject.batch) for run in runs),
        )
        for at, subject in enumerate(subjects)
    ]


def _blocking(folder: Path) -> Iterable[contextlib.AbstractContextManager[Subject]]:
    for batch in BATCHES:
        yield commits.disk(folder / f"disk-{batch}", batch)
        yield commits.one_thread(folder / f"thread-{batch}", batch)
        yield peers.sqlite(folder / f"sqlite-{batch}", batch)
        if peers.lmdb_version() is not None:
            yield peers.lmdb(folder / f"lmdb-{batch}", batch)
    yield peers.sqlite(folder / "sqlite-loop", 1, loop=True)


@attrs.frozen
class _Run:
    durations: tuple[int, ...]
    elapsed_ns: int

    def per_s(self, batch: int) -> float:
        return len(self.durations) * batch / self.elapsed_ns * 1e9


async def _one_run(subjects: list[Subject], count: int) -> list[_Run]:
    durations: list[list[int]] = [[] for _ in subjects]
    elapsed = [0] * len(subjects)
    for first in range(0, count, SLICE):
        for at, subject in enumerate(subjects):
            turn = await subject.turn(min(SLICE, count - first))
            durations[at] += turn.durations
            elapsed[at] += turn.elapsed_ns
    return [_Run(tuple(d), e) for d, e in zip(durations, elapsed, strict=True)]


def _say(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)
