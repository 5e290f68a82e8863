"""Choose records of a journal by what they are about. Standard library only, and no I/O.

A record is chosen as JSON, so that one of a kind this version does not know is found too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from supervisor.journal.read import Entry

# The members in which a record names what it is about.
OPERATION, CALL, EFFECT = ("operation_id",), ("call_id", "retry_of"), ("effect_id",)


class Selection(NamedTuple):
    """What is wanted; a member that is not set leaves everything in.

    `first` and `last` are positions, both included; `since` and `until` wall times in
    nanoseconds, `until` excluded; `about` maps members to the one id that they may have.
    """

    first: int = 0
    last: int | None = None
    since: int | None = None
    until: int | None = None
    kinds: frozenset[str] = frozenset()
    about: tuple[tuple[tuple[str, ...], str], ...] = ()

    @property
    def by_record(self) -> bool:
        """Whether it asks for something that a segment's header or a mark has not."""
        timed = self.since is not None or self.until is not None
        return timed or bool(self.kinds or self.about)

    def ended(self, entry: Entry) -> bool:
        """Whether nothing that follows can be wanted."""
        return self.last is not None and entry.position > self.last

    def takes(self, entry: Entry) -> list[Mapping[str, Any]] | None:
        """The records of a line that are wanted; [] for a header or mark that is; else None."""
        if entry.position < self.first or self.ended(entry):
            return None
        if not entry.payload.startswith(b"["):
            return None if self.by_record else []
        return [one for one in records_in(entry) if self._wants(one)] or None

    def _wants(self, record: Mapping[str, Any]) -> bool:
        at = record.get("at", 0)
        return (
            (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and (not self.kinds or record.get("k") in self.kinds)
            and all(wanted in map(record.get, names) for names, wanted in self.about)
        )


def records_in(entry: Entry) -> list[Mapping[str, Any]]:
    """The records of a frame as they are on disk; none for a header or a mark."""
    if not entry.payload.startswith(b"["):
        return []
    return cast("list[Mapping[str, Any]]", json.loads(entry.payload))
