"""A provider's books: one SQLite file, written before the caller is answered."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence


class Books:
    """A connection that threads share. Every change is committed when `write` returns."""

    def __init__(self, path: str, *tables: str) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        for table in tables:
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def write(self, statement: str, values: Sequence[object]) -> int:
        """Returns how many rows changed: 0 where `INSERT OR IGNORE` found the row there."""
        with self._lock:
            return self._db.execute(statement, values).rowcount

    def read(self, statement: str, values: Sequence[object]) -> list[dict[str, object]]:
        with self._lock:
            return [dict(row) for row in self._db.execute(statement, values)]
