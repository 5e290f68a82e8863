"""A whole run that shows nothing of an area fails, and one is shared out by file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import whole

SETTINGS = """\
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider
pythonpath = .
testpaths = tests sdk/tests
markers = long: only with --long
"""
PASSES = """\
import os

def test_one(request):
    print(request.node.nodeid, "in", os.getpid())
"""
# Its tables of all characters would be made for each project.
QUICK = ("-p", "no:hypothesispytest")
SKIPS = "import pytest\n\ndef test_nothing(): pytest.skip('not here')\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small one with the same rules: one area for anybody, and two others."""
    for name in ("conftest.py", "hung.py", "measured.py", "whole.py"):
        target = tmp_path / "tests" / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name(name), target)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for place in ("sdk/tests", "tests/core", "tests/e2e", "tests/systemd"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "test_it.py").write_text(PASSES)
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-rP", *QUICK, *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_whole_run_is_shared_out_and_fails_when_it_shows_nothing_of_an_area(
    project: Path,
) -> None:
    (project / "tests" / "systemd" / "test_more.py").write_text(PASSES)
    (project / "tests" / "e2e" / "test_it.py").write_text(SKIPS)
    code, said = run(project, "-n", "2")
    assert "4 passed, 1 skipped" in said
    assert code == 1, said
    assert "no test passed of: tests/e2e" in said
    pids = dict(re.findall(r"^(\S+)::test_one in (\d+)$", said, re.MULTILINE))
    assert len(set(pids.values())) > 1, pids
    assert pids["tests/systemd/test_it.py"] == pids["tests/systemd/test_more.py"]


def test_the_privileged_ones_are_all_but_what_root_changes_nothing_of(project: Path) -> None:
    code, said = run(project, "--privileged")
    assert "2 passed, 2 deselected" in said
    assert code == 0, said
    assert "tests/core/" not in said
    assert whole.areas() > whole.ALIKE
