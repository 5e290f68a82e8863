"""A disk that can be made to wait, and to forget what it was not made to keep."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.e2e.support.daemon import Daemon
from tests.e2e.support.processes import wait_until

SOURCE = Path(__file__).with_name("disk.c")


class Disk:
    """The disk of a daemon that was not started yet."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._hold = daemon.base / "hold"
        self._reached = daemon.base / "hold.reached"
        self._kept = daemon.base / "kept"
        library = daemon.base / "disk.so"
        subprocess.run(
            ["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True
        )
        daemon.environment |= {"LD_PRELOAD": str(library), "DISK_HOLD": str(self._hold)}

    def hold(self) -> None:
        """From now on nothing is made durable, and what is there now is what it keeps."""
        self._reached.unlink(missing_ok=True)
        wait_until(self._copied, what="a copy of the journal")
        self._hold.touch()

    def _copied(self) -> bool:
        try:
            shutil.copytree(self._daemon.state / "journal", self._kept)
        except shutil.Error:  # a spare segment got its name meanwhile
            shutil.rmtree(self._kept)
            return False
        return True

    def reached(self) -> None:
        """Wait until somebody waits for the disk."""
        wait_until(self._reached.exists, what="a sync")

    def release(self) -> None:
        self._hold.unlink(missing_ok=True)
        shutil.rmtree(self._kept, ignore_errors=True)

    def cut_power(self) -> None:
        """After the daemon's death: the disk has what it had when it was held."""
        journal = self._daemon.state / "journal"
        shutil.rmtree(journal)
        shutil.copytree(self._kept, journal)
        self.release()
