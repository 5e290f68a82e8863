"""Digests of files and handlers, recomputed cheaply and never stale.

A hash is remembered by the file's stamp (device, inode, size, mtime, ctime). ctime moves
with every change and nobody can set it, but its clock ticks in milliseconds: a file that
changed just before it was hashed could change once more within the same tick. Such a
hash is not remembered (git's "racily clean" rule).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import rfc8785

from config.load.files import explained, open_regular
from config.problems import WrongValueError

Stamp = tuple[int, int, int, int, int]

# Coarser than any file system's timestamps that carry sub-second digits, and than FAT's 2 s.
SETTLED_NS: Final = 3_000_000_000
TRIES: Final = 3


def stamp_of(status: os.stat_result) -> Stamp:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@attrs.define(eq=False, repr=False)
class Hashes:
    """A memory of file hashes. Forgetting it costs time and nothing else."""

    _known: dict[Path, tuple[Stamp, str]] = attrs.field(factory=dict[Path, tuple[Stamp, str]])

    def of(self, path: Path) -> str:
        """The SHA-256 (hex) of a regular file's content; `WrongValueError` if unreadable."""
        try:
            stamp = stamp_of(path.stat())
        except OSError as error:
            raise explained(error, path) from None
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        stamp, digest = _hashed(path)
        if 0 <= time.time_ns() - stamp[4] < SETTLED_NS or stamp[4] > time.time_ns():
            self._known.pop(path, None)
        else:
            self._known[path] = (stamp, digest)
        return digest


def _hashed(path: Path) -> tuple[Stamp, str]:
    """The digest of a content that stood still while it was read."""
    for _ in range(TRIES):
        with os.fdopen(open_regular(path), "rb") as file:
            before = stamp_of(os.fstat(file.fileno()))
            try:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise explained(error, path) from None
            if stamp_of(os.fstat(file.fileno())) == before:
                return before, digest
    raise WrongValueError(
        f"{path} changes while it is read", "finish writing it, best by renaming a finished file"
    )


def artifacts_of(sources: Iterable[Path], hashes: Hashes) -> dict[str, str]:
    """SHA-256 by path behind all links, so that a flipped link shows even where the
    contents are alike: what stands beside the file differs."""
    found: dict[str, str] = {}
    for source in sources:
        real = Path(os.path.realpath(source))
        found[_name(real)] = hashes.of(real)
    return found


def _name(path: Path) -> str:
    """A path as JSON can carry it: bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


# Changing these changes nothing that a call which began with the old ones relies on.
NOT_WHAT_IT_IS: Final = frozenset({"access", "description", "test"})


def handler_digest(
    name: str, document: Mapping[str, Any], artifacts: Mapping[str, str | None]
) -> str:
    """The SHA-256 (hex) of what a handler is: its manifest as parsed, before any default of
    this version, and its files. Who may run it and how it is described is not what it is."""
    what: dict[str, Any] = {
        "handler": name,
        "manifest": {key: value for key, value in document.items() if key not in NOT_WHAT_IT_IS},
        "artifacts": dict(artifacts),
    }
    return hashlib.sha256(rfc8785.dumps(what)).hexdigest()
