"""The system calls the journal makes, in one place.

A test puts a crash, an error or a short count at each of them by passing another `Os`.
Everything is relative to the descriptor of the journal's directory, so the journal stays
the one that was locked, whatever is renamed above it. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import mmap
import os
from collections.abc import Generator
from pathlib import Path

from supervisor.journal import durably

# Small enough to stay in the processor's cache, large enough for the disk.
_CHUNK = 1 << 20


class Os:
    """The real system. Every method raises OSError and retries nothing (but EINTR)."""

    def open_directory(self, path: Path, *, create: bool) -> int:
        """With `create` made private when it is not there yet, and durable in its parent."""
        if create:
            durably.make_directory(path, parents=False)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def lock(self, fd: int) -> None:
        """Raises BlockingIOError when another open file description holds it."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self, fd: int) -> None:
        """For every copy of the descriptor, whoever has one."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def listdir(self, directory: int) -> list[str]:
        """All names in it, whoever else lists it: how far a listing came stands in what was
        opened, and a duplicate of a descriptor has that in common with it. So this opens it
        anew."""
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
        try:
            with os.scandir(fd) as entries:
                return [entry.name for entry in entries]
        finally:
            os.close(fd)

    def open(self, directory: int, name: str, *, create: bool = False) -> int:
        """For reading and writing; `create` insists that the name is new."""
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=directory)

    def close(self, fd: int) -> None:
        os.close(fd)

    def links(self, fd: int) -> int:
        return os.fstat(fd).st_nlink

    def exists(self, directory: int, name: str) -> bool:
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def allocate(self, fd: int, size: int) -> None:
        """Take the room at once, or raise before anything is written."""
        os.posix_fallocate(fd, 0, size)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def rename(self, directory: int, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)

    def link(self, directory: int, name: str, place: int) -> None:
        """The same file under the same name in another directory."""
        os.link(name, name, src_dir_fd=directory, dst_dir_fd=place, follow_symlinks=False)

    def subdirectory(self, directory: int, name: str) -> int:
        """Open it; made private and durable when it is not there yet."""
        if not self.exists(directory, name):
            os.mkdir(name, 0o700, dir_fd=directory)
            os.fsync(directory)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)

    def unlink(self, directory: int, name: str) -> None:
        os.unlink(name, dir_fd=directory)

    def read_disk(self, directory: int, name: str) -> bytes:
        """What the disk holds: after a failed sync the page cache shows data it does not.

        O_DIRECT where the file system has it (tmpfs may not, and has no disk); else the
        clean pages are dropped first.
        """
        content = io.BytesIO()
        with self._on_disk(directory, name) as fd, contextlib.closing(_pieces(fd)) as pieces:
            for piece in pieces:
                content.write(piece)
        return content.getvalue()  # what a BytesIO holds is the bytes that it gives

    @contextlib.contextmanager
    def _on_disk(self, directory: int, name: str) -> Generator[int, None, None]:
        """Opened such that a read shows what the disk holds."""
        flags = os.O_RDONLY | os.O_NOFOLLOW
        try:
            fd = os.open(name, flags | os.O_DIRECT, dir_fd=directory)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            fd = os.open(name, flags, dir_fd=directory)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            yield fd
        finally:
            os.close(fd)

    def holds_only(self, directory: int, name: str, byte: bytes) -> tuple[int, bool]:
        """How many bytes the disk holds of it, and whether each of them is this one. As
        `read_disk`, of which nothing is kept."""
        size, only, same = 0, True, byte * _CHUNK
        with self._on_disk(directory, name) as fd, contextlib.closing(_pieces(fd)) as pieces:
            for piece in pieces:
                size += len(piece)
                only = only and same.startswith(piece)
        return size, only

    def is_cached(self, directory: int, name: str, content: bytes) -> bool:
        """Whether this is what a read through the page cache gives, with its clean pages dropped
        first."""
        offset = 0
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            with contextlib.closing(_pieces(fd)) as pieces:
                for piece in pieces:
                    if not content.startswith(piece, offset):
                        return False
                    offset += len(piece)
        finally:
            os.close(fd)
        return offset == len(content)

    def read_cached(self, directory: int, name: str, *, most: int = -1) -> bytes:
        """What a read through the page cache gives, of all or of the first `most` bytes."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
        try:
            with open(fd, "rb", buffering=0, closefd=False) as file:
                return file.read(most)
        finally:
            os.close(fd)


def _pieces(fd: int) -> Generator[memoryview, None, None]:
    """The whole file, each piece until the next one is asked for. O_DIRECT wants memory, offsets
    and lengths aligned; anonymous memory maps are."""
    offset = 0
    with mmap.mmap(-1, _CHUNK) as buffer, memoryview(buffer) as view:
        while True:
            count = os.preadv(fd, [buffer], offset)
            with view[:count] as piece:
                yield piece
            if count < _CHUNK:
                return
            offset += count


REAL = Os()
