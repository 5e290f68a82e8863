"""What a start reads first, read by a thread while the daemon is being loaded.

The journal is locked before, and what a killed writer left unsynced is synced, as whoever opens
one does. Nothing else is changed and nothing is judged: who asks for a file first gets the bytes
that stood on the disk since, or reads what is not here himself. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from supervisor.journal import lock, snapshot
from supervisor.journal.codec import FILLER, TooNew
from supervisor.journal.errors import JournalError
from supervisor.journal.file import Os
from supervisor.journal.naming import segments_among
from supervisor.journal.opening import settle
from supervisor.journal.snapshot import BadSnapshot, Snapshot, snapshots_among

if TYPE_CHECKING:
    from typing_extensions import override
else:  # typing.override is 3.12's

    def override(method: object) -> object:
        return method


_Key = TypeVar("_Key")
_Known = TypeVar("_Known")
# Files of a segment's size: what a start reads of a journal that has its snapshots, and a bound
# to memory for one that has none.
MOST = 6


class Ahead(Os):
    """The real system, which has one directory open and locked, and knows the first answers about
    some of its files."""

    def __init__(self, directory: Path, fd: int) -> None:
        """Use `begin`."""
        self._directory = directory
        self._fd = fd
        self._disk: dict[str, bytes] = {}
        self._only: dict[tuple[str, bytes], tuple[int, bool]] = {}
        self._cached: dict[str, tuple[bytes, bool]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._thread = threading.Thread(target=self._read, name="journal-ahead", daemon=True)

    @classmethod
    def begin(cls, directory: Path, *, lock_wait_ms: int = 0) -> Ahead | None:
        """Lock it and begin to read; None where no directory can be opened.

        It is for `Journal.open`, which finds it locked. Raises JournalLocked.
        """
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        ahead = cls(directory, fd)
        try:
            lock.take(ahead, fd, directory, wait_ms=lock_wait_ms)
        except BaseException:
            os.close(fd)
            raise
        ahead._thread.start()
        return ahead

    @override
    def open_directory(self, path: Path, *, create: bool) -> int:
        fd = super().open_directory(path, create=create)
        if path != self._directory:
            return fd
        os.close(fd)
        return self._fd

    @override
    def read_disk(self, directory: int, name: str) -> bytes:
        known = self._first(self._disk, directory, name)
        return super().read_disk(directory, name) if known is None else known

    @override
    def holds_only(self, directory: int, name: str, byte: bytes) -> tuple[int, bool]:
        known = self._first(self._only, directory, (name, byte))
        return super().holds_only(directory, name, byte) if known is None else known

    @override
    def is_cached(self, directory: int, name: str, content: bytes) -> bool:
        asked, answer = self._first(self._cached, directory, name) or (None, False)
        return answer if asked is content else super().is_cached(directory, name, content)

    def parse(self, name: str, content: bytes) -> Snapshot:
        """As `snapshot.parse`, of what was read from that file first."""
        known = self._snapshots.pop(name, None)
        return snapshot.parse(name, content) if known is None else known

    def _first(self, known: dict[_Key, _Known], directory: int, key: _Key) -> _Known | None:
        self._thread.join()
        return known.pop(key, None) if directory == self._fd else None

    # The thread.

    def _read(self) -> None:
        # Whoever asks meets it again, and says what it means.
        with contextlib.suppress(OSError, JournalError, BadSnapshot, TooNew):
            names = self.listdir(self._fd)
            segments = segments_among(names, self._begin(names))
            spares = [name for name in names if name.endswith(".spare")]
            if not segments or len(segments) + len(spares) > MOST:
                return
            settle(self, self._fd, segments)
            for name in (one.name for one in segments):
                self._disk[name] = super().read_disk(self._fd, name)
            for name in spares:
                self._only[name, FILLER] = super().holds_only(self._fd, name, FILLER)
            newest = segments[-1].name
            content = self._disk[newest]
            self._cached[newest] = content, super().is_cached(self._fd, newest, content)

    def _begin(self, names: list[str]) -> int:
        """The number of the segment that the newest snapshot names; 1 without any."""
        for name in snapshots_among(names)[:1]:
            self._disk[name] = super().read_disk(self._fd, name)
            self._snapshots[name] = found = snapshot.parse(name, self._disk[name])
            return found.point.number
        return 1
