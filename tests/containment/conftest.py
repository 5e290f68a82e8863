"""Fixtures of the containment tests: programs that try to get out, where handlers can run them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.containment.support import Programs, build, open_directory


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A directory that the handlers' user can reach (pytest's own are closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="effectd-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder(open_folder: Path) -> Path:
    """A directory of one test's own, which the handlers' user may write to."""
    return open_directory(open_folder)


@pytest.fixture(scope="session")
def programs(open_folder: Path) -> Programs:
    return build(open_directory(open_folder, 0o755))


@pytest.fixture
def user_inotify() -> Iterator[None]:
    """The user's inotify instances are this test's alone, in all processes that run tests: one uses
    all of them up."""
    fd = os.open(Path(__file__).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@pytest.fixture
def hanging() -> Iterator[Callable[[Path], None]]:
    """Make a directory one whose server never answers: every look-up in it hangs. Root only."""
    with contextlib.ExitStack() as undo:

        def hang(place: Path) -> None:
            try:
                server = os.open("/dev/fuse", os.O_RDWR)
            except OSError as error:
                pytest.skip(f"needs /dev/fuse to make a file system that hangs: {error}")
            undo.callback(subprocess.run, ["umount", "-l", place], check=True)
            undo.callback(os.close, server)  # whoever hangs in it wakes up
            options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other"
            command = ["mount", "-i", "-t", "fuse", "-o", options, "dead", place]
            subprocess.run(command, check=True, pass_fds=(server,))

        yield hang
