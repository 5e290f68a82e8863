"""A scratch file: room for what hardly anybody looks at, so that it takes no memory.

It has no name, so nothing of it outlives the daemon, and nothing in it has to: all of it is in the
journal too. Where the filesystem has no files without a name, or no room, things stay in memory.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from supervisor.core.contents import Held


class Scratch:
    """`put` is for one thread at a time; what was put there is read by any."""

    def __init__(self, directory: Path) -> None:
        """Raises nothing: without a file, nothing is put anywhere."""
        self._fd = _unnamed(directory)
        self._end = 0
        # Ranges that nobody has any more: in order, and those that came back meanwhile.
        self._free: list[tuple[int, int]] = []
        self._returned: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of the file."""
        return self._end

    def put(self, content: bytes) -> Held:
        """What gives these bytes from the file; the bytes themselves where they cannot be there."""
        if self._fd < 0 or not content:
            return content
        with self._lock:
            self._collect()
            begin = self._room(len(content))
            try:
                _write(self._fd, content, begin)
            except OSError:
                self._returned.append((begin, begin + len(content)))
                self._collect()
                return content
        return _InFile(self, begin, len(content))

    def give_back(self, begin: int, end: int) -> None:
        """A range is free from here on."""
        self._returned.append((begin, end))

    def read(self, begin: int, size: int) -> bytes:
        """Raises OSError."""
        content = os.pread(self._fd, size, begin)
        if len(content) != size:
            raise OSError(errno.EIO, "a scratch file in state_dir lost what was written to it")
        return content

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def _collect(self) -> None:
        """Join what is free; the file ends behind the last range that somebody has."""
        while self._returned:
            self._free.append(self._returned.pop())
        joined: list[tuple[int, int]] = []
        for begin, end in sorted(self._free):
            if joined and joined[-1][1] == begin:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((begin, end))
        if joined and joined[-1][1] == self._end:
            self._end, _ = joined.pop()
            os.ftruncate(self._fd, self._end)
        self._free = joined

    def _room(self, size: int) -> int:
        """Where so many bytes have room: where it is tightest, or at the end."""
        fitting = [(end - begin, begin) for begin, end in self._free if end - begin >= size]
        if not fitting:
            begin = self._end
            self._end += size
            return begin
        room, begin = min(fitting)
        self._free.remove((begin, begin + room))
        if room > size:
            self._free.append((begin + size, begin + room))
        return begin


class _InFile:
    """Bytes that are in the file, until nobody has this any more."""

    __slots__ = ("_begin", "_scratch", "_size")

    def __init__(self, scratch: Scratch, begin: int, size: int) -> None:
        self._scratch = scratch
        self._begin = begin
        self._size = size

    def __getitem__(self, part: slice) -> bytes:
        first, past, _ = part.indices(self._size)
        return self._scratch.read(self._begin + first, past - first)

    def __del__(self) -> None:
        self._scratch.give_back(self._begin, self._begin + self._size)


def _unnamed(directory: Path) -> int:
    """A new file; -1 where there can be none."""
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1


def _write(fd: int, content: bytes, begin: int) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(fd, left, begin)
        left, begin = left[written:], begin + written
