"""Large results beside the journal, one file each: `blobs/DIGEST`, the SHA-256 of what is in it.

A file has its name when its content is on disk, and a record names it when its name is too. So
a blob that a record names is there whole, or something outside took it or changed it. Files
with other names are left of writers that ended: they mean nothing.

Everything here blocks, raises OSError and retries nothing. Standard library only.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path

from supervisor.journal import durably

DIRECTORY = "blobs"
_NAME = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = ".tmp"
_number = itertools.count()


class Loss(enum.Enum):
    """Why the value of a blob is not to be had any more."""

    MISSING = "missing"
    DAMAGED = "damaged"


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(directory: Path, digest: str, content: bytes) -> None:
    """On return `content` is on disk under its digest. Whatever is there and is not it, is
    replaced."""
    durably.make_directory(directory, parents=False)
    if read(directory, digest, len(content)) == content:
        # Somebody may have ended between giving it its name and making that durable.
        durably.sync(directory)
        return
    temporary = directory / f"{digest}.{os.getpid()}-{next(_number)}{_TEMPORARY}"
    try:
        _write(temporary, content)
        temporary.rename(directory / digest)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    durably.sync(directory)


def _write(file: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(file, flags, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def read(directory: Path, digest: str, size: int) -> bytes | Loss:
    """The `size` bytes that have this digest, or why they are not there.

    OSError when nobody can tell: what cannot be read now may be whole.
    """
    try:
        with (directory / digest).open("rb") as file:
            content = file.read(size + 1)
    except FileNotFoundError:
        return Loss.MISSING
    whole = len(content) == size and digest_of(content) == digest
    return content if whole else Loss.DAMAGED


def stored(directory: Path) -> list[str]:
    """The digests that have a file, whatever is in it; none when there is no directory."""
    try:
        return [one.name for one in directory.iterdir() if _NAME.fullmatch(one.name)]
    except FileNotFoundError:
        return []


def remove(directory: Path, digests: Iterable[str]) -> int:
    """How many of the files are gone; what cannot be removed is left for another time."""
    gone = 0
    for digest in digests:
        with contextlib.suppress(OSError):
            (directory / digest).unlink()
            gone += 1
    return gone


def clear(directory: Path) -> None:
    """Remove what writers left half written. Only while nobody writes."""
    with contextlib.suppress(OSError):
        for one in directory.glob(f"*{_TEMPORARY}"):
            with contextlib.suppress(OSError):
                one.unlink()
