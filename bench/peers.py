"""What else keeps records durably: the same records, in the same turns, on the same disk.

Both keep what the journal with its core keeps: an order, and a key under which nothing is
recorded twice. Both run inline on the measuring thread, where they are fastest; SQLite
once more as a program with an event loop has to use it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sqlite3
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import attrs
import trio

from bench.commits import Records, Turn, timed

LMDB_BYTES = 8 << 30
"""What it may grow to; the file is sparse."""
_INSERT = "INSERT INTO journal (key, payload) VALUES (?, ?)"

Commit = Callable[[list[tuple[str, bytes]]], object]


@attrs.define
class Peer:
    """A store that is handed a batch and returns when it is durable."""

    name: str
    batch: int
    commit: Commit
    records: Records = attrs.field(factory=Records)

    async def turn(self, commits: int) -> Turn:
        batches = self.records.take(commits, self.batch)
        return timed([functools.partial(self.commit, batch) for batch in batches])


@attrs.define
class FromALoop:
    """A store that would block an event loop, and so is called in a thread, once a commit."""

    name: str
    batch: int
    commit: Commit
    records: Records = attrs.field(factory=Records)

    async def turn(self, commits: int) -> Turn:
        batches = self.records.take(commits, self.batch)
        durations: list[int] = []
        for batch in batches:
            begin = time.perf_counter_ns()
            await trio.to_thread.run_sync(self.commit, batch)
            durations.append(time.perf_counter_ns() - begin)
        return Turn(durations, sum(durations))


@contextlib.contextmanager
def sqlite(file: Path, batch: int, *, loop: bool = False) -> Generator[Peer | FromALoop]:
    """WAL with synchronous=FULL: a commit is on disk when it returns."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    with contextlib.closing(connection):
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute(
            "CREATE TABLE journal"
            " (position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, payload BLOB NOT NULL)"
        )

        def commit(records: list[tuple[str, bytes]]) -> None:
            connection.execute("BEGIN")
            connection.executemany(_INSERT, records)
            connection.execute("COMMIT")

        def commit_one(records: list[tuple[str, bytes]]) -> None:
            connection.execute(_INSERT, records[0])

        name = "SQLite, WAL, FULL"
        kind = FromALoop if loop else Peer
        yield kind(
            f"{name}, to_thread" if loop else name, batch, commit if batch > 1 else commit_one
        )


def lmdb_version() -> str | None:
    """None when it is not installed."""
    if importlib.util.find_spec("lmdb") is None:
        return None
    return ".".join(map(str, importlib.import_module("lmdb").version()))


@contextlib.contextmanager
def lmdb(directory: Path, batch: int) -> Generator[Peer]:
    """Synced at each commit, as it is by itself: by position, and keys to positions."""
    library: Any = importlib.import_module("lmdb")  # it is there for this comparison only
    with library.open(str(directory), map_size=LMDB_BYTES, max_dbs=2) as environment:
        journal, keys = environment.open_db(b"journal"), environment.open_db(b"keys")
        position = 0

        def commit(records: list[tuple[str, bytes]]) -> None:
            nonlocal position
            with environment.begin(write=True) as transaction:
                for key, payload in records:
                    position += 1
                    at = position.to_bytes(8, "big")
                    if not transaction.put(key.encode(), at, db=keys, overwrite=False):
                        raise RuntimeError(f"LMDB has {key} already")
                    transaction.put(at, payload, db=journal, append=True)

        yield Peer("LMDB", batch, commit)
