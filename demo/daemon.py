"""The daemon under test: started, killed with SIGKILL, started again on the same state."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from demo.failure import DemoFailed
from demo.processes import Processes, descendants, kill_now
from effectd.client import Client, EffectdError

READY_S = 20


class Daemon:
    """`effectd --dev` with everything it has below one directory."""

    def __init__(
        self, processes: Processes, root: Path, checkout: Path, env: Mapping[str, str]
    ) -> None:
        self._processes = processes
        self._checkout = checkout
        self._env = env
        self._process: subprocess.Popen[str] | None = None
        self.log = root / "effectd.log"
        # A directory of its own: no handler may see the one that holds the control socket.
        self.socket = root / "run" / "effectd.sock"
        self._argv = [
            *(sys.executable, "-m", "supervisor", "--dev"),
            *("--state-dir", str(root / "state")),
            *("--handlers-dir", str(root / "handlers.d")),
            *("--socket", str(self.socket)),
        ]

    def begin(self) -> None:
        """Start the process; `wait_until_ready` comes later."""
        self._process = self._processes.start(
            self._argv, log=self.log, cwd=self._checkout, env=self._env
        )

    def wait_until_ready(self) -> None:
        """Return when it answers. It has replayed its journal and resumed nothing by then."""
        deadline = time.monotonic() + READY_S
        with self.client() as client:
            while not self._answers(client):
                if self._process is None or self._process.poll() is not None:
                    raise DemoFailed("effectd ended instead of becoming ready", self.log)
                if time.monotonic() > deadline:
                    raise DemoFailed(f"effectd is not ready after {READY_S} s", self.log)
                time.sleep(0.02)

    def kill(self) -> list[psutil.Process]:
        """SIGKILL, as the kernel or an operator does it; what had descended from it by then."""
        if self._process is None:
            raise DemoFailed("effectd is not running", self.log)
        below = descendants(self._process.pid)
        kill_now(self._process)
        return below

    def client(self) -> Client:
        """A client as any program on this host has it."""
        return Client(self.socket)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @staticmethod
    def _answers(client: Client) -> bool:
        try:
            return client.request("GET", "/v1/status", timeout=2).status == 200
        except EffectdError:
            return False
