"""Follow a journal while its writer lives: each line once, when it is proven durable.

After the first walk over everything only the newest segment is read again, and only when it
has changed. Standard library only; takes no lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from supervisor.journal.chain import Tip, Walker
from supervisor.journal.codec import GENESIS, Line, Previous, parse_header
from supervisor.journal.naming import segments_among
from supervisor.journal.read import Entry, Reader, entries, entry_of

PAUSE_S = 0.2
_BEGINNING = Previous("", 0, 0, GENESIS, 0)


class Follower:
    """One reader's place in a journal."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._last = ("", -1)
        self._before = _BEGINNING
        self._newest = ""
        self._seen: tuple[object, ...] = ()

    def first(self) -> Iterator[Entry]:
        """Every line that is proven durable. Raises as `entries` does."""
        self._seen = self._stamp()
        for entry in entries(self._directory, lambda _done, _total: None):
            if entry.attested:
                self._note(entry)
                yield entry

    def more(self) -> list[Entry]:
        """What became durable since; raises JournalCorrupt, JournalTooNew, JournalIOError."""
        stamp = self._stamp()
        if stamp == self._seen:
            return []
        self._seen = stamp
        reader = Reader(self._directory, lambda _done, _total: None)
        segments = [s for s in segments_among(reader.names) if s.name >= self._newest]
        found: list[tuple[str, int, Line]] = []
        tip = Tip(self._before.position, self._before.digest, self._before.position)
        walker = Walker(
            segments,
            reader.load,
            lambda file, offset, line: found.append((file, offset, line)),
            reader.again,
            tip=tip,
            before=self._before.name or None,
        )
        walker.run()
        fresh = [entry_of(*one, tip.durable) for one in found if one[:2] > self._last]
        proven = [entry for entry in fresh if entry.attested]
        for entry in proven:
            self._note(entry)
        return proven

    def added(self) -> Iterator[Entry]:
        """What is added behind `first`, for ever."""
        while True:
            yield from self.more()
            time.sleep(PAUSE_S)

    def _note(self, entry: Entry) -> None:
        self._last = (entry.file, entry.offset)
        if entry.offset == 0:
            self._newest = entry.file
            header = parse_header(entry.payload)
            self._before = (header and header.previous) or _BEGINNING

    def _stamp(self) -> tuple[object, ...]:
        """What changes whenever the journal does: its newest file's name and times."""
        try:
            newest = max(one.name for one in self._directory.glob("*.jnl"))
            status = (self._directory / newest).stat()
        except (OSError, ValueError):
            return ()  # reading it will say what is wrong
        return newest, status.st_size, status.st_mtime_ns
