"""docs/after-a-crash.md, typed line by line after a real SIGKILL."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.__main__ import run
from tests.cli.conftest import DEADLINE_S, ROOT, Daemon

PAGE = ROOT / "docs" / "after-a-crash.md"
HANDLER = """#!/bin/sh
echo '{"type":"announce","effect":"send","request":{"to":"ann"}}' >&3; read -r heard <&3
exec sleep 60
"""
MANIFEST = """manifest = 1
command = ["{program}"]
timeout_ms = 60_000
[[effect]]
name = "send"
contract = "no_safe_retry"
how_to_check = "the outbox, search {{effect_id}}"
"""


@pytest.fixture
def crashed(daemon: Daemon, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A daemon that was killed after leave was given, and is up again; variables for the page."""
    program = daemon.base / "bin" / "send"
    program.write_text(HANDLER)
    program.chmod(0o755)
    (daemon.handlers / "send.toml").write_text(MANIFEST.format(program=program))
    # 75 when it is running by the time of the answer.
    assert run(["dispatch", "-d", "send", "--socket", daemon.socket]) in {0, 75}
    deadline = time.monotonic() + DEADLINE_S
    journal = daemon.state / "journal"
    while not any(b"effect_announced" in one.read_bytes() for one in journal.glob("*.jnl")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    # A program by the name that the page uses, of this tree.
    programs = tmp_path / "programs"
    programs.mkdir()
    tool = programs / "effectctl"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m supervisor.cli "$@"\n')
    tool.chmod(0o755)
    yield {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "EFFECTD_SOCKET": daemon.socket,
        "state": str(daemon.state),
        "copy": str(tmp_path / "copy"),
        "report": str(tmp_path / "report.html"),
    }
    shutil.rmtree(programs)


@pytest.mark.guarantee("J6")
def test_the_page_leads_from_a_crash_to_a_settled_and_proven_journal(
    crashed: dict[str, str], tmp_path: Path
) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    script = "set -eu\n" + "".join(
        f"echo '=== {number}'\n{block}" for number, block in enumerate(blocks)
    )
    done = subprocess.run(
        ["sh", "-c", script],
        env=crashed,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(re.findall(r"^=== (\d+)\n(.*?)(?=^=== |\Z)", done.stdout, re.DOTALL | re.MULTILINE))
    assert "A person must look" in said["0"]
    assert "Where to look: the outbox, search eff_" in said["2"]
    assert "attempt 0 interrupted" in said["2"]
    assert "EffectOutcomeUnknown" in said["2"]
    assert "effect send announced" in said["3"]
    assert "message 4711 is in the outbox" in (tmp_path / "report.html").read_text()
    assert "effectctl operations resume" in said["5"]
    assert "DAMAGED" not in done.stdout
