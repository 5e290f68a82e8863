"""Count what a journal holds: by kind, segment and day. Standard library only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from supervisor.journal.read import Entry
from supervisor.journal.select import records_in

LARGEST = 5


class Large(NamedTuple):
    """One of the largest decisions; `size` in bytes."""

    size: int
    position: int
    kinds: str


class Stats:
    """Counts of what was added; bytes are of payloads, before framing and padding."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.bytes_by_kind: Counter[str] = Counter()
        self.bytes_by_segment: Counter[str] = Counter()
        self.bytes_by_day: Counter[str] = Counter()
        self.bytes_by_operation: Counter[str] = Counter()
        self.frames = 0
        self.largest: list[Large] = []
        self._batches: set[int] = set()

    @property
    def batches(self) -> int:
        """How many syncs wrote the decisions: those of one batch share a watermark."""
        return len(self._batches)

    def add(self, entry: Entry) -> None:
        size = len(entry.payload)
        self.bytes_by_segment[entry.file] += size
        records = records_in(entry)
        if not records:
            return
        self.frames += 1
        self._batches.add(entry.durable)
        for record in records:
            self._record(record)
        kinds = ", ".join(dict.fromkeys(str(record.get("k")) for record in records))
        self.largest = sorted([*self.largest, Large(size, entry.position, kinds)])[-LARGEST:]

    def _record(self, record: Mapping[str, Any]) -> None:
        kind, size = str(record.get("k")), len(json.dumps(record, separators=(",", ":")))
        self.records[kind] += 1
        self.bytes_by_kind[kind] += size
        day = datetime.fromtimestamp(record.get("at", 0) // 1_000_000_000, UTC)
        self.bytes_by_day[f"{day:%Y-%m-%d}"] += size
        about = record.get("operation_id")
        if about is not None:
            self.bytes_by_operation[about] += size
