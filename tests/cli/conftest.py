"""A real daemon for the end-to-end tests: its own state, its own handlers, ended by its pid."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.__main__ import run

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0

SAY = """#!/bin/sh
say() { printf '%s\\n' "$1" >&3; }
hear() { IFS= read -r heard <&3; }
"""

# Small handlers in sh: they speak the protocol on fd 3 and need nothing but /bin/sh.
SCRIPTS: dict[str, str] = {
    "echo": "exec cat",
    "fail": "echo 'it broke: \x1b[2J badly' >&2; exit 3",
    "hidden": "cat {hidden}",
    "slow": "sleep 30",
    "steps": """
say '{{"type":"progress","fraction":0.4,"message":"half\\u001b[2Jway"}}'
sleep 3
""",
    "stamp": """
say '{{"type":"announce","effect":"charge","request":{{"n":{{"of":"'$(date +%N)'"}}}}}}'; hear
exit 9
""",
    "whole": "exit 0",
    "charge": """
say '{{"type":"announce","effect":"charge","request":{{"amount":100}}}}'; hear
say '{{"type":"confirm","ordinal":0,"outcome":"applied","result":{{"receipt":7}}}}'; hear
""",
    "doubt": """
say '{{"type":"announce","effect":"charge","request":{{"amount":100}}}}'; hear
exit 4
""",
    "half": """
say '{{"type":"announce","effect":"first","request":{{}}}}'; hear
say '{{"type":"confirm","ordinal":0,"outcome":"applied","result":1}}'; hear
exit 5
""",
    "asked": """
say '{{"type":"announce","effect":"charge","request":{{}}}}'; hear
exit 4
""",
    "find": 'cat >/dev/null; echo \'{{"outcome":"applied","result":{{"receipt":8}}}}\'',
}

MANIFESTS: dict[str, str] = {
    "echo": "read_only = true",
    "fail": "read_only = true",
    "hidden": "read_only = true",
    "slow": "read_only = true\ngrace_ms = 100",
    "long": "read_only = true\ngrace_ms = 100",
    "crashed": "read_only = true\ngrace_ms = 100",
    "steps": "read_only = true",
    "stamp": '[[effect]]\nname = "charge"\ncontract = "no_safe_retry"',
    "whole": 'input_schema = "whole.schema.json"',
    "charge": '[[effect]]\nname = "charge"\ncontract = "no_safe_retry"',
    "doubt": (
        '[[effect]]\nname = "charge"\ncontract = "no_safe_retry"\n'
        'how_to_check = "the dashboard, search {effect_id}"'
    ),
    "half": (
        '[[effect]]\nname = "first"\ncontract = "no_safe_retry"\n'
        '[[effect]]\nname = "second"\ncontract = "no_safe_retry"'
    ),
    "asked": (
        '[[effect]]\nname = "charge"\ncontract = "reconciliation"\n'
        'reconcile = { command = ["find"], timeout_ms = 5_000, settle_ms = 0 }'
    ),
}


PROGRAMS = {"long": "slow", "crashed": "slow"}
TIMEOUTS_MS = {"slow": 300, "long": 60_000, "crashed": 2_000}


class Daemon:
    """One effectd below a directory of its own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.state = base / "state"
        self.handlers = base / "handlers.d"
        self.socket = str(self.state / "effectd.sock")
        self.config = base / "effectd.toml"
        self.process: subprocess.Popen[bytes] | None = None

    def write_handlers(self) -> None:
        programs = self.base / "bin"
        programs.mkdir()
        self.handlers.mkdir()
        hidden = self.base / "hidden.txt"
        hidden.write_text("nobody sees me\n")
        for name, body in SCRIPTS.items():
            script = programs / name
            script.write_text(SAY + body.format(hidden=hidden) + "\n")
            script.chmod(0o755)
        # Small segments: they turn over within the tests, and a damaged one is searched quickly.
        self.config.write_text("[journal]\nsegment_bytes = 1_048_576\n")
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        (self.handlers / "whole.schema.json").write_text(json.dumps(schema))
        for name, more in MANIFESTS.items():
            timeout_ms = TIMEOUTS_MS.get(name, 10_000)
            program = programs / PROGRAMS.get(name, name)
            text = more.replace('["find"]', json.dumps([str(programs / "find")]))
            (self.handlers / f"{name}.toml").write_text(
                f'manifest = 1\ndescription = "{name} it"\n'
                f'command = ["{program}"]\ntimeout_ms = {timeout_ms}\n{text}\n'
            )

    def start(self) -> None:
        log = (self.base / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [
                    *[sys.executable, "-m", "supervisor", "--dev", "--config", str(self.config)],
                    *["--state-dir", str(self.state), "--handlers-dir", str(self.handlers)],
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + DEADLINE_S
        while run(["status", "--check", "--socket", self.socket]) == 3:
            assert self.process.poll() is None, (self.base / "log").read_text()
            assert time.monotonic() < deadline, (self.base / "log").read_text()
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    # Not pytest's tmp_path: handlers of a root daemon run as nobody, who cannot look into it.
    base = Path(tempfile.mkdtemp(prefix="effectctl-"))
    base.chmod(0o755)
    made = Daemon(base)
    made.write_handlers()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(base)


class Said:
    """What one command line exited with and printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Ctl = Callable[..., Said]


@pytest.fixture
def ctl(daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ctl:
    """Run effectctl in this process against the daemon."""
    monkeypatch.setenv("EFFECTD_SOCKET", daemon.socket)
    monkeypatch.setitem(os.environ, "COLUMNS", "80")

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call
