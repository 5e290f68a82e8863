"""The plain worker as the demo drives it: one queue, one worker process, killed and restarted."""

from __future__ import annotations

import json
import subprocess
import sys

import psutil

from demo.failure import DemoFailed
from demo.plain_worker import open_queue, send
from demo.processes import descendants, kill_now, read_line
from demo.stage import Stage
from demo.world import Deed

DONE_S = 180


class PlainWorker:
    """A queue of its own in the demo's directory, and the worker that empties it."""

    def __init__(self, stage: Stage, name: str, timeout_ms: int = 60_000) -> None:
        self._stage = stage
        self._queue = stage.root / f"plain-{name}.db"
        self._log = stage.root / f"plain-{name}.log"
        self._timeout_ms = timeout_ms
        self._process: subprocess.Popen[str] | None = None

    def send(self, deed: Deed, subject: str, *trouble: str, times: int = 1) -> None:
        """Queue a job, as many times as it is sent."""
        queue = open_queue(str(self._queue))
        try:
            for _ in range(times):
                send(queue, deed.handler, json.dumps(deed.input(subject, *trouble)))
        finally:
            queue.close()

    def start(self) -> None:
        stage = self._stage
        self._process = stage.processes.start(
            [
                *(sys.executable, "-m", "demo.plain_worker", str(self._queue)),
                *(str(self._timeout_ms), stage.python, str(stage.plain_tools / "plain_tool.py")),
            ],
            log=self._log,
            cwd=stage.checkout,
            env={**stage.env, **stage.world.environment},
            stdout=subprocess.PIPE,
        )

    def kill(self) -> list[psutil.Process]:
        """SIGKILL to the worker; what had descended from it by then."""
        below = descendants(self._running().pid)
        kill_now(self._running())
        return below

    def next_word(self) -> tuple[str, int]:
        """How the next job ended, as the worker says, and when (nanoseconds since boot)."""
        line = read_line(self._running().stdout, "the plain worker", self._log)
        _, word, at_ns = line.split()
        return word, int(at_ns)

    def wait_until_empty(self) -> None:
        """Return when the worker has run every job and ended."""
        try:
            status = self._running().wait(DONE_S)
        except subprocess.TimeoutExpired:
            raise DemoFailed("the plain worker is not done", self._log) from None
        if status != 0:
            raise DemoFailed(f"the plain worker exited with {status}", self._log)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise DemoFailed("the plain worker was never started")
        return self._process
