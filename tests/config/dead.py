"""A file system that never answers: FUSE, with nobody who serves it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_MNT_DETACH = 2


@contextlib.contextmanager
def dead_mount(folder: Path) -> Iterator[Path]:
    """A directory in ``folder`` below which every look-up hangs; those that hang then fail."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = folder / "dead"
    place.mkdir()
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"dead", os.fsencode(place), b"fuse", 0, options):
        os.close(server)
        pytest.skip(f"nothing may be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield place
    finally:
        os.close(server)
        libc.umount2(os.fsencode(place), _MNT_DETACH)
        place.rmdir()
