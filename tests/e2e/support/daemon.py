"""A real effectd: its own directories, its own world, killed and started again by its pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.e2e.support.api import Api, NoAnswer
from tests.e2e.support.manifests import manifests
from tests.e2e.support.processes import (
    alive,
    children,
    descendants,
    is_alive,
    kill,
    tagged,
    wait_until,
)
from tests.e2e.support.world import World

HANDLERS = Path(__file__).parents[1] / "handlers"
START_S = 60.0
# The promise is that nothing outlives a daemon by a second; tests/sandbox/test_host_death.py times
# it, the best of many. Here a daemon dies once, on a machine that others share, and whoever is
# not killed with it is alive for ever: this much later it is not the machine any more.
GONE_S = 15.0
PROMISED_S = 1.0


def interpreter() -> str:
    """A Python that the handlers' user may run: not one below somebody's closed home."""
    usual = Path("/usr/bin/python3")
    return str(usual if usual.exists() else Path(sys.executable).resolve())


class Daemon:
    """One state directory and the daemon on it.

    `api` asks it, `world` is what its handlers change, `log` what it said. It is not started
    until `start`, with `environment` beside ours and `options` behind our own; `around`
    makes another command of its own. A `config` is the text of a configuration file, read
    instead of --dev.
    """

    def __init__(self, base: Path, config: str | None = None) -> None:
        self.base = base
        self.state = base / "state"
        self.handlers = base / "handlers.d"
        self.programs = base / "programs"
        self.world = World()
        self.api = Api(str(self.state / "effectd.sock"))
        self.process: subprocess.Popen[bytes] | None = None
        # The launcher and the inits say nothing of this daemon in their command lines.
        self._family: set[tuple[int, str]] = set()
        self.environment: dict[str, str] = {}
        self.options: list[str] = []
        self.around: Callable[[list[str]], list[str]] = lambda command: command
        self._config = config
        self.handlers.mkdir()
        self.programs.mkdir()
        for source in HANDLERS.glob("*.py"):
            self.add_program(source.stem, source.read_text())
        for name, text in manifests(self.programs, self.world.port).items():
            self.add_handler(name, text)

    def add_program(self, name: str, text: str) -> Path:
        """A Python program for handlers, run by an interpreter that they may run."""
        program = self.programs / name
        program.write_text(f"#!{interpreter()} -IS\n{text}")
        program.chmod(0o755)
        return program

    def add_handler(self, name: str, manifest: str) -> None:
        """A manifest; a daemon that runs already (--dev) sees it at the next dispatch."""
        (self.handlers / f"{name}.toml").write_text(manifest)

    # --- life -------------------------------------------------------------------------

    def start(self, within_s: float = START_S) -> Daemon:
        """Start it and wait until it answers."""
        assert not self.running, "it runs already"
        with (self.base / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        wait_until(self._answers, within_s, "the daemon answers")
        return self

    def start_another(self) -> subprocess.CompletedProcess[str]:
        """Start one more on the same state, and see what comes of that one."""
        return subprocess.run(
            self._command(), check=False, capture_output=True, text=True, timeout=START_S
        )

    def _command(self) -> list[str]:
        return self.around(self._plain_command())

    def _plain_command(self) -> list[str]:
        command = [sys.executable, "-I", "-m", "supervisor"]
        where = ["--state-dir", str(self.state), "--handlers-dir", str(self.handlers)]
        where += self.options
        if self._config is None:
            return [*command, "--dev", *where]
        file = self.base / "effectd.toml"
        file.write_text(self._config)
        return [*command, "--config", str(file), *where, "--socket", self.api.socket_path]

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log}"
        with contextlib.suppress(NoAnswer):
            return self.api.ask("GET", "status").status == 200
        return False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def launcher(self) -> int:
        """The launcher's pid: the daemon's only live child."""
        self.remember()
        (pid,) = (child for child in children(self.pid) if alive(child))
        return pid

    @property
    def log(self) -> str:
        path = self.base / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def remember(self) -> None:
        """Whoever is below the daemon now belongs to it, for `gone` and `close`."""
        self._family.update(descendants(self.pid))

    def kill9(self) -> None:
        """SIGKILL the daemon alone, and see it dead. What it leaves behind is the test's claim."""
        assert self.process is not None
        self.remember()
        self.process.kill()
        self.process.wait()

    def stop(self, within_s: float = START_S) -> int:
        """Ask it to stop, as a service manager does; its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def restart(self) -> Daemon:
        """Kill it when it runs, and start it again on the same state."""
        if self.running:
            self.kill9()
        return self.start()

    # --- what is alive ----------------------------------------------------------------

    def handler_processes(self) -> list[int]:
        """Live processes that run a program of the handlers."""
        return tagged(str(self.programs))

    def everything_alive(self) -> list[int]:
        """Live processes of any kind that this daemon made, itself included."""
        self._family = {(pid, born) for pid, born in self._family if is_alive(pid, born)}
        return sorted({*tagged(str(self.base)), *(pid for pid, _ in self._family)})

    def gone(self, within_s: float = START_S) -> float:
        """Wait until nothing of a dead daemon is alive; the seconds it took."""
        return wait_until(lambda: not self.everything_alive(), within_s, "a survivor")

    def close(self) -> None:
        """End everything that is left, by pid, and remove the directory."""
        if self.running:
            self.kill9()
        self.world.close()
        deadline = time.monotonic() + START_S
        while left := self.everything_alive():
            for pid in left:
                kill(pid)
            assert time.monotonic() < deadline, f"cannot be killed: {left}"
            time.sleep(0.01)
        shutil.rmtree(self.base)


@contextlib.contextmanager
def new_daemon(config: str | None = None) -> Iterator[Daemon]:
    """A daemon, not started yet, in a directory that every user may look into."""
    # Not pytest's tmp_path: handlers of a root daemon run as nobody, who cannot look into it.
    base = Path(tempfile.mkdtemp(prefix="effectd-e2e-"))
    os.chmod(base, 0o755)
    daemon = Daemon(base, config)
    try:
        yield daemon
    finally:
        daemon.close()
