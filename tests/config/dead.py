"""File systems that never answer, or from some moment on: FUSE, with nobody who serves it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

SERVES = Path(__file__).with_name("serves.py")

_MNT_DETACH = 2


@contextlib.contextmanager
def dead_mount(folder: Path) -> Iterator[Path]:
    """A directory in ``folder`` below which every look-up hangs; those that hang then fail."""
    with _mounted(folder / "dead") as (place, _):
        yield place


@attrs.frozen
class Served:
    """A mounted directory of programs, and the process that serves it."""

    place: Path
    server: subprocess.Popen[str]

    def hang(self) -> None:
        self.server.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.server.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def served_mount(folder: Path, files: dict[str, str]) -> Iterator[Served]:
    """A directory in ``folder`` with these programs, which answers until it is told to `hang`."""
    with _mounted(folder / "served") as (place, device):
        server = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SERVES), str(device)],
            stdin=subprocess.PIPE,
            pass_fds=[device],
            text=True,
        )
        assert server.stdin is not None
        server.stdin.write(json.dumps(files))
        server.stdin.close()
        try:
            yield Served(place, server)
        finally:
            server.kill()
            server.wait()


@contextlib.contextmanager
def _mounted(place: Path) -> Iterator[tuple[Path, int]]:
    libc = ctypes.CDLL(None, use_errno=True)
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
        yield place, server
    finally:
        os.close(server)
        libc.umount2(os.fsencode(place), _MNT_DETACH)
        place.rmdir()
