"""The demo as a user runs it, against the real daemon."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from demo.stage import CHECKOUT

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory for temporary files which the handlers' user reaches, too."""
    root = Path(tempfile.mkdtemp(prefix="effectd-demo-test-", dir="/tmp")).resolve()
    root.chmod(0o755)
    try:
        yield root
    finally:
        for process in running_below(root):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(root)


def running_below(root: Path) -> list[psutil.Process]:
    """Every process that was started with a path below this directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(f"{root}/" in word for word in process.cmdline()):
                found.append(process)
    return found


def start_demo(temporary: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(temporary), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.guarantee("E1", "E4", "R1", "R8", "S2", "S3")
def test_effectd_repeats_loses_and_leaves_nothing_where_a_plain_worker_does(
    temporary: Path,
) -> None:
    summary = temporary / "summary.json"
    demo = start_demo(temporary, "--json", str(summary), LC_ALL="C")
    text, _ = demo.communicate()
    assert demo.returncode == 0, text
    figures = json.loads(summary.read_text())
    totals, blocks = figures["totals"], figures["blocks"]
    assert totals["effectd"] == {
        "duplicates": 0, "lost": 0, "survivors": 0, "unknown": 3, "unsettled": 0,
    }  # fmt: skip
    assert totals["plain"]["duplicates"] == 2 + 1 + 50
    assert totals["plain"]["survivors"] == 8 + 1
    assert_each_contract_is_treated_as_it_says(blocks["unrecorded"]["contracts"])
    assert blocks["unstarted"]["said"] == "interrupted"
    assert blocks["unstarted"]["steps"] == ["resume"]
    assert blocks["unanswered"] == {
        "plain_count": 51, "effectd_count": 1, "operations": 1, "processes": 1, "results": 1,
        "took_ms": blocks["unanswered"]["took_ms"],
    }  # fmt: skip
    assert blocks["overdue"]["effectd"]["word"] == "timed_out"
    assert blocks["overdue"]["effectd"]["reads_after"] == 0
    assert blocks["overdue"]["plain"]["reads_after"] > 0
    assert_it_fits_one_screen(text)
    assert [path.name for path in temporary.iterdir()] == ["summary.json"]
    assert not running_below(temporary)


def assert_each_contract_is_treated_as_it_says(contracts: dict[str, Any]) -> None:
    seen = {
        contract: (row["recovered"]["said"], row["recovered"]["verdict"], row["effectd_count"])
        for contract, row in contracts.items()
    }
    assert seen == {
        "none": ("interrupted", "repeat", 2),
        "idempotency_key": ("unknown", "retry", 1),
        "reconciliation": ("unknown", "ReconciliationRequired", 1),
        "no_safe_retry": ("unknown", "EffectOutcomeUnknown", 1),
    }
    assert {row["recovered"]["state"] for row in contracts.values()} == {"succeeded"}


def assert_it_fits_one_screen(text: str) -> None:
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(len(line) for line in lines) <= 80
    assert text.isascii()
    assert "\x1b" not in text
    assert "0 duplicates, 0 lost, 0 survivors, 3 unknown (all settled)" in lines[-1]


def test_ctrl_c_ends_everything_and_takes_the_directory_away(temporary: Path) -> None:
    demo = start_demo(temporary)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("A "):
            break
    assert len(running_below(temporary)) >= 4  # three providers and the daemon
    demo.send_signal(signal.SIGINT)
    text, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, text
    assert "Traceback" not in text
    assert not running_below(temporary)
    assert not [*temporary.iterdir()]


LOST = """
import os, signal, sys
from types import SimpleNamespace
import demo.__main__ as demo
from demo.screen import Screen

class Block:
    HEADLINE = WHY = ""

    def measure(self, stage, screen):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)

demo._listen()
os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))
try:
    demo._block(SimpleNamespace(), Screen(), "A", Block(), step=False)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_a_ctrl_c_that_the_interpreter_lost_is_heeded_all_the_same() -> None:
    """It came while a hook ran that is called at each fork: what that raises goes nowhere."""
    command = [sys.executable, "-c", LOST]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_reader_that_leaves_ends_the_demo_without_a_complaint(temporary: Path) -> None:
    demo = start_demo(temporary)
    assert demo.stdout is not None
    demo.stdout.readline()
    demo.stdout.close()
    assert demo.wait(60) == 1
    assert not running_below(temporary)
    assert not [*temporary.iterdir()]
