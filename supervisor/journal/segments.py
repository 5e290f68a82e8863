"""Segments being written: spares made beforehand, batches, rotation.

A segment is written full of filler and synced before it has a part to play, so a later
batch is a plain overwrite: it needs no room, changes no size, and costs one disk write.
One thread at a time; every method is synchronous.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from supervisor.journal.codec import (
    FILLER,
    GENESIS,
    Header,
    Previous,
    aligned,
    encode,
    fitted,
    header_payload,
)
from supervisor.journal.file import Os
from supervisor.journal.naming import segment_name

if TYPE_CHECKING:
    from supervisor.journal.front import Hash

_CHUNK = 1 << 20


class Spare(NamedTuple):
    """A file of nothing but filler, durable under its name; `size` in bytes."""

    name: str
    size: int


def write_whole(os_: Os, fd: int, data: bytes, offset: int) -> None:
    """One write. A short count is a failure: going on would hide what stopped it."""
    count = os_.pwrite(fd, data, offset)
    if count != len(data):
        raise OSError(errno.EIO, f"short write: {count} of {len(data)} bytes at {offset}")


def make_spare(os_: Os, directory: int, number: int, size: int) -> Spare:
    """Make one durably, or raise and leave nothing behind.

    The room is taken in one step first, so that a full disk refuses before a byte of it
    is written and not after the last one.
    """
    temporary, name = f"{number:08}.tmp", f"{number:08}.spare"
    fd = os_.open(directory, temporary, create=True)
    try:
        try:
            os_.allocate(fd, size)
            _fill(os_, fd, size)
        finally:
            os_.close(fd)
        os_.rename(directory, temporary, name)
        os_.fsync(directory)
    except OSError:
        with contextlib.suppress(OSError):
            os_.unlink(directory, temporary)
        raise
    return Spare(name, size)


def _fill(os_: Os, fd: int, size: int) -> None:
    for offset in range(0, size, _CHUNK):
        write_whole(os_, fd, FILLER * min(_CHUNK, size - offset), offset)
    os_.fsync(fd)


def keep_spares(os_: Os, directory: int, names: Sequence[str], smallest: int) -> list[Spare]:
    """What is left of earlier spares, made pristine again; leftovers are removed.

    A crash between a header's write and its rename leaves a spare that starts with that
    header. Nothing in it was ever acknowledged. It is overwritten in place, since on a
    full disk there may be no room for another.
    """
    spares: list[Spare] = []
    for name in sorted(names):
        if name.endswith(".tmp"):
            os_.unlink(directory, name)
        elif name.endswith(".spare"):
            spare = _pristine(os_, directory, name, smallest)
            spares += [spare] if spare else []
    return spares


def _pristine(os_: Os, directory: int, name: str, smallest: int) -> Spare | None:
    size, pristine = os_.holds_only(directory, name, FILLER)
    fd = os_.open(directory, name)
    try:
        if size < smallest or os_.links(fd) != 1:
            os_.unlink(directory, name)  # of another size, or also somebody else's file
            return None
        if not pristine:
            _fill(os_, fd, size)
    finally:
        os_.close(fd)
    return Spare(name, size)


class Point(NamedTuple):
    """Where the chain stands: the last position, its line's digest, and where that ends.

    `front` is the SHA-256 of all that the segment holds up to there, in hex, where it is known.
    """

    number: int
    name: str
    end: int
    position: int
    digest: str
    front: str = ""


START = Point(0, "", 0, 0, GENESIS)


class Writer:
    """The active segment. After a raise it must not be used again (except `close`)."""

    def __init__(self, os_: Os, directory: int, point: Point, *, align: int) -> None:
        self._os = os_
        self._directory = directory
        self._align = align
        self._wanted_align = align
        self.point = point
        self._front: Hash | None = None
        self._fd = -1
        self._next = 0
        self._size = 0

    @property
    def rest(self) -> int:
        """Bytes left for batches in the active segment."""
        return self._size - self._next

    @property
    def align(self) -> int:
        """Where batches begin in the active segment; later ones are made as asked for."""
        return self._align

    @property
    def here(self) -> Point:
        """`point` with its front. Of what was written, and not of what the disk gives back: damage
        that came in between is to be found by it."""
        front = "" if self._front is None else self._front.copy().hexdigest()
        return self.point._replace(front=front)

    def go_on(self, header: Header, front: Hash | None = None) -> None:
        """Open the segment that `point` names to append behind its end, aligned as it is. `front`
        has taken in all up to there, if that is proven to be what was written."""
        self._front = front
        self._fd = self._os.open(self._directory, self.point.name)
        self._align = header.align
        self._next = aligned(self.point.end, self._align)
        self._size = header.size

    def commit(self, payloads: Sequence[bytes]) -> int:
        """Append one batch and sync it: durable on return. The bytes written.

        Everything before was synced by the call before; that is what its lines attest,
        and why at most one batch can ever be torn.
        """
        number, name, _, position, digest, _ = self.point
        durable = position
        batch = bytearray()
        self._take_in(FILLER * (self._next - self.point.end))
        for payload in payloads:
            position += 1
            line, digest = fitted(position, durable, digest, payload, self._next + len(batch))
            batch += line
            self._take_in(line)  # one at a time: of more hashlib would let go of the interpreter
        assert len(batch) <= self.rest, "a batch never crosses a segment's end"
        write_whole(self._os, self._fd, bytes(batch), self._next)
        self._os.fdatasync(self._fd)
        self.point = Point(number, name, self._next + len(batch), position, digest)
        self._next = aligned(self.point.end, self._align)
        return len(batch)

    def _take_in(self, content: bytes) -> None:
        if self._front is not None:
            self._front.update(content)

    def rotate(self, spare: Spare, *, discarded: int = 0) -> None:
        """Make `spare` the active segment: durable under its name before its first batch.

        The header names the official end of the segment before, so whatever stands behind
        that end is dead from here on (`discarded` bytes of it were no filler).
        """
        before = self.point
        previous = None
        if before.number:
            previous = Previous(before.name, before.end, before.position, before.digest, discarded)
        header = Header(before.number + 1, spare.size, self._wanted_align, previous)
        line, digest = encode(
            before.position, before.position, before.digest, header_payload(header)
        )
        name = segment_name(header.number, before.position + 1)
        fd = self._os.open(self._directory, spare.name)
        try:
            write_whole(self._os, fd, line, 0)
            self._os.fsync(fd)
            self._refuse_taken(name)
            self._os.rename(self._directory, spare.name, name)
            self._os.fsync(self._directory)
        except BaseException:
            self._os.close(fd)
            raise
        self.close()
        self._fd = fd
        self._front = sha256(line)
        self._align = self._wanted_align
        self.point = Point(header.number, name, len(line), before.position, digest)
        self._next = aligned(len(line), self._align)
        self._size = spare.size

    def _refuse_taken(self, name: str) -> None:
        """A rename would replace it: whoever made it, it is not this writer's to lose."""
        if self._os.exists(self._directory, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    def close(self) -> None:
        if self._fd >= 0:
            self._os.close(self._fd)
            self._fd = -1
