"""``bench journal``: that it measures what it says, and judges by the bounds that it names."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import attrs
import pytest
import trio

from bench import __main__ as bench
from bench import commits, journal, journal_goals, journal_page, peers, reading, stall
from bench.figures import Series
from bench.journal import Report, Row
from bench.reading import LEAST, OPEN, VERIFY, Peak, Reading
from bench.stall import Stall
from supervisor.journal.verify import verify

MS, US = 1_000_000, 1_000


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (commits, reading, stall):
        monkeypatch.setattr(module, "SEGMENT_BYTES", 256 << 10)


def test_it_measures_and_writes_everything(tmp_path: Path) -> None:
    (tmp_path / bench.PAGE).write_text("# Another page\n\nstays\n")
    sizes = ["--count", "3", "--runs", "1", "--records", "700"]
    places = ["--output", str(tmp_path), "--directory", str(tmp_path)]
    assert bench.main(["journal", *sizes, *places]) in (0, 1)  # goals are another matter
    page = (tmp_path / bench.PAGE).read_text()
    assert page.startswith("# Another page\n\nstays\n\n# What the journal costs\n")
    for row in ("| pwrite, fdatasync | 64 |", "| SQLite, WAL, FULL | 1 |", "| verify | 700 | 64 |"):
        assert row in page
    assert re.search(r"\| journal, trio, 64 callers \| 1 \| \d+ \| \d+ \| [\d.]+ \| \d+ \|", page)
    assert [path.name for path in tmp_path.iterdir()] == [bench.PAGE]


@pytest.mark.parametrize("wrong", [["--directory", "/dev/null"], ["--records", "0"]])
def test_wrong_arguments_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["journal", *wrong])
    assert ended.value.code == 2


async def test_every_subject_makes_all_its_records_durable_once(tmp_path: Path) -> None:
    with commits.one_thread(tmp_path / "thread", 5) as thread:
        assert len((await thread.turn(3)).durations) == 3
        assert len((await thread.turn(1)).durations) == 1
    assert verify(tmp_path / "thread").frames == 20
    async with commits.under_trio(tmp_path / "trio", 4) as tasks:
        assert len((await tasks.turn(3)).durations) == 12
    assert verify(tmp_path / "trio").frames == 12
    with peers.sqlite(tmp_path / "db", 5) as store:
        await store.turn(3)
    with peers.sqlite(tmp_path / "db1", 1, loop=True) as store:
        await store.turn(3)
    for name, count in (("db", 15), ("db1", 3)):
        found = sqlite3.connect(tmp_path / name)
        assert found.execute("SELECT count(DISTINCT key) FROM journal").fetchone() == (count,)
        found.close()


@pytest.mark.skipif(peers.lmdb_version() is None, reason="LMDB is there for measuring only")
async def test_lmdb_keeps_no_key_twice(tmp_path: Path) -> None:
    with peers.lmdb(tmp_path / "l", 2) as store:
        await store.turn(2)
        with pytest.raises(RuntimeError, match="already"):
            store.commit([(commits.key(1), commits.payload(1))])


async def test_a_history_is_read_whole_by_every_reader(tmp_path: Path) -> None:
    found = await reading.measure(tmp_path / "h", 300, 7, 2)
    assert set(found.series) == {LEAST, VERIFY, OPEN}
    assert all(len(series.runs) == 2 for series in found.series.values())
    assert reading.peak(tmp_path / "h") > 1000
    with pytest.raises(RuntimeError, match="found 300 records of 301"):
        await reading.measure_again(tmp_path / "h", 301, 7, 1)


async def test_a_disk_that_hangs_is_waited_for_and_the_loop_is_not_held(tmp_path: Path) -> None:
    disk = stall.HangingDisk()
    disk.armed.set()
    fd = disk.open_directory(tmp_path, create=False)
    file = disk.open(fd, "f", create=True)
    begin = trio.current_time()
    disk.fdatasync(file)
    disk.fdatasync(file)
    spent = trio.current_time() - begin
    disk.close(file)
    disk.close(fd)
    assert spent >= stall.HANG_MS / 1000
    assert not disk.armed.is_set()


def row(name: str, batch: int, median_us: float, per_s: float = 1.0) -> Row:
    return Row(name, batch, Series(((int(median_us * US),),) * 3), (per_s,) * 3)


def report(**changed: float) -> Report:
    """One where every goal is met exactly, but for what is changed."""
    of = {
        "thread": 117.6, "one": 180.0, "many_us": 1000.0, "per_s": 100_000.0,
        "sqlite": 211.7, "sqlite_64": 250.0, "open_ms": 1000 / 0.6,
        "verify_ms": 2000.0, "kib": 11_000.0, "late_ms": 2.0,
    } | changed  # fmt: skip
    rows = [
        row("pwrite, fdatasync", 1, 100),
        row("journal, one thread", 1, of["thread"]),
        row("SQLite, WAL, FULL", 1, of["sqlite"]),
        row("pwrite, fdatasync", 64, 100),
        row("journal, one thread", 64, 100),
        row("SQLite, WAL, FULL", 64, of["sqlite_64"]),
        row("journal, trio, 1 caller", 1, of["one"]),
        row("journal, trio, 64 callers", 1, of["many_us"], of["per_s"]),
    ]
    times = {LEAST: 1000.0, VERIFY: of["verify_ms"], OPEN: of["open_ms"]}
    series = {name: Series(((int(value * MS),),) * 3) for name, value in times.items()}
    return Report(
        journal.Settings(100, 3, 1_000_000, Path("/somewhere")),
        {"kernel": "6.1"},
        (0.1, 0.2),
        "as any process",
        rows,
        Stall((int(of["late_ms"] * MS),) * 3, (MS,) * 3),
        [Reading(1_000_000, 64, series)],
        [Peak(100_000, 10_000), Peak(1_000_000, int(of["kib"]))],
    )


GOALS = (
    ("thread", 118.0), ("one", 181.0), ("per_s", 99_999.0), ("many_us", 1001.0), ("sqlite", 211.0),
    ("sqlite_64", 249.0), ("open_ms", 1667.0), ("verify_ms", 2001.0), ("kib", 11_001.0),
    ("late_ms", 2.001),
)  # fmt: skip


def test_goals_are_met_up_to_their_bound() -> None:
    assert [goal.met for goal in journal_goals.judge(report())] == [True] * len(GOALS)


@pytest.mark.parametrize(("at", "changed"), list(enumerate(GOALS)))
def test_each_goal_is_missed_beyond_its_bound_alone(at: int, changed: tuple[str, float]) -> None:
    found = [goal.met for goal in journal_goals.judge(report(**dict([changed])))]
    assert found[at] is False
    assert found.count(False) == 1 + (changed[0] == "thread")  # it is compared twice


def test_the_page_has_whole_tables_and_names_a_busy_machine() -> None:
    page = journal_page.page(report())
    for table in (block for block in page.split("\n\n") if block.startswith("|")):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
    assert "something else" not in page
    assert "something else" in journal_page.page(attrs.evolve(report(), loads=(9, 9)))
    assert "/somewhere" not in page
