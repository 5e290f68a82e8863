"""A scratch daemon for one try: its own state and socket in a directory that is then removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source
from supervisor.cli.talk import CommandError, Daemon, Problem

READY_S = 20.0
POLL_S = 0.05
STOP_S = 40.0


@contextlib.contextmanager
def scratch_daemon(source: Source, handlers_dir: Path) -> Generator[Daemon]:
    """A daemon with these handlers; it is stopped, by its pid, and its state removed."""
    base = Path(tempfile.mkdtemp(prefix="effectctl-try-"))
    socket = base / "effectd.sock"
    try:
        with (base / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "supervisor", *_arguments(source, base, handlers_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the one who waits; the daemon is stopped in order, below.
                start_new_session=True,
            )
        daemon = Daemon(str(socket))
        try:
            _await(daemon, process, base / "log")
            yield daemon
        finally:
            daemon.close()
            _stop(process)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _arguments(source: Source, base: Path, handlers_dir: Path) -> list[str]:
    return [
        *(["--dev"] if source.dev or source.file is None else []),
        *(["--config", str(source.file)] if source.file is not None else []),
        *["--state-dir", str(base / "state")],
        *["--handlers-dir", str(handlers_dir)],
        *["--socket", str(base / "effectd.sock")],
    ]


def _await(daemon: Daemon, process: subprocess.Popen[bytes], log: Path) -> None:
    from effectd.errors import Unreachable

    deadline = time.monotonic() + READY_S
    while True:
        if os.path.exists(str(daemon.socket)):  # noqa: PTH110 - a path as the client takes it
            with contextlib.suppress(Unreachable, Problem):
                daemon.get("status")
                return
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            raise CommandError(
                f"the scratch daemon did not start: {said or 'it said nothing'}",
                "`effectctl doctor` tries what it needs.",
                Exit.FAILED,
            )
        time.sleep(POLL_S)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM drains it; one that does not end in time is killed, and its handlers with it."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
