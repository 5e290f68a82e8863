"""Small files that are whole or not there: written, synced, then given their name.

For what stands beside the journal (witness, anchors, backups); the journal itself is
written through `file.Os`. Every function raises OSError and retries nothing. Standard
library only.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PRIVATE = 0o600


def sync(path: Path) -> None:
    """A file's bytes, or a directory's names."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path, *, parents: bool = True) -> None:
    """There on return, private when it is new, with its parents if wanted, and durable by name.

    One that is there already may have been made by somebody who ended before its name was
    durable; only what is above may be another's, whose directory this one may not open.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode=0o700, parents=parents, exist_ok=True)
    for one in missing:
        sync(one.parent)
    if not missing:
        with contextlib.suppress(PermissionError):
            sync(path.parent)


def replace(file: Path, content: bytes) -> None:
    """After a crash the file has its old content or this one, and nothing in between."""
    temporary = file.with_name(f"{file.name}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _PRIVATE)
    with os.fdopen(fd, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(fd)
    temporary.rename(file)
    sync(file.parent)


def append_line(file: Path, line: str) -> None:
    """One line more, on disk on return. It never shares a line with a torn one before."""
    new = not file.exists()
    fd = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, _PRIVATE)
    try:
        end = os.fstat(fd).st_size
        torn = end > 0 and os.pread(fd, 1, end - 1) != b"\n"
        data = (("\n" if torn else "") + line + "\n").encode()
        if os.write(fd, data) != len(data):
            raise OSError(f"short write to {file}")
        os.fsync(fd)
    finally:
        os.close(fd)
    if new:
        sync(file.parent)
