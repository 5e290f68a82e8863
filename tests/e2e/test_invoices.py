"""The example of docs/programs.md, from an empty directory, its commands as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.processes import alive, wait_until

ROOT = Path(__file__).parents[2]


def script() -> str:
    """Every `sh` block of the document, in order, that stops at the first command that fails."""
    text = (ROOT / "docs" / "programs.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 2, blocks
    return "set -eux\ntrap 'kill $(cat pid) || true' EXIT\n" + "\n".join(blocks)


@pytest.fixture
def work() -> Iterator[Path]:
    """A directory that handlers can get to, whoever they run as."""
    with tempfile.TemporaryDirectory(prefix="effectd-e2e-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.timeout(450)  # dozens of commands, each an interpreter of its own
@pytest.mark.guarantee("P4", "P5", "P6", "B9")
def test_ten_customers_are_charged_once_though_the_daemon_is_killed(work: Path) -> None:
    bin_ = str(Path(sys.executable).parent)
    ran = subprocess.run(
        ["bash", "-c", script()],
        cwd=work,
        env={
            **os.environ,
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "repo": str(ROOT),
            "python": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = sorted(one.name.split()[:3] for one in (work / "world").iterdir())
    charged = [(name, int(amount)) for word, name, amount in made[:10] if word == "charge"]
    assert len(made) == 11, made
    assert [name for name, _ in charged] == sorted(json.loads((work / "invoices.json").read_text()))
    done = json.loads((work / "done.json").read_text())
    assert done["state"] == "succeeded"
    assert done["result"]["total"] == sum(amount for _, amount in charged) == 1450
    pid = int((work / "pid").read_text())
    wait_until(lambda: not alive(pid), 30, "the daemon is gone")
