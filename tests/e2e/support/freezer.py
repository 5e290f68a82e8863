"""Processes that no signal ends for a while: frozen, as one in an uninterruptible sleep is.

A frozen process of the version 1 freezer takes SIGKILL only when it is thawed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.e2e.support.processes import wait_until

_ROOTS = (Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup"))
_numbers = itertools.count()


class Freezer:
    """A cgroup of our own; whoever is put into it stands still until `thaw`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def freeze(self, pids: Iterable[int]) -> None:
        """Returns when none of them runs any more."""
        for pid in pids:
            (self._path / "cgroup.procs").write_text(str(pid))
        self._say("FROZEN")

    def thaw(self) -> None:
        self._say("THAWED")

    def _say(self, state: str) -> None:
        file = self._path / "freezer.state"
        file.write_text(state)
        wait_until(lambda: file.read_text().strip() == state, 60, f"the freezer is {state}")

    def close(self) -> None:
        """Thaw what is left and remove the cgroup when it is empty."""
        self.thaw()
        parent = self._path.parent / "cgroup.procs"
        for pid in (self._path / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it died
                parent.write_text(pid)
        wait_until(self._removed, 60, "the freezer is empty")

    def _removed(self) -> bool:
        with contextlib.suppress(OSError):
            self._path.rmdir()
        return not self._path.exists()


@contextlib.contextmanager
def new_freezer() -> Iterator[Freezer]:
    """Skips where no version 1 freezer can be had."""
    root = next((one for one in _ROOTS if (one / "freezer.state").exists()), _ROOTS[0])
    path = root / f"effectd-test-{os.getpid()}-{next(_numbers)}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"only a version 1 freezer holds up SIGKILL, and there is none here: {error}")
    if not (path / "freezer.state").exists():
        path.rmdir()
        pytest.skip("only a version 1 freezer holds up SIGKILL, and there is none here")
    freezer = Freezer(path)
    try:
        yield freezer
    finally:
        freezer.close()
