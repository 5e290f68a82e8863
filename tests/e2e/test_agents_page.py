"""docs/agents.md, typed line by line in an empty directory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "agents.md"
DEADLINE_S = 400
WRITES = {
    f"{tool} {order}" for tool in ("charge", "mail", "reserve") for order in ("apples", "pears")
}


@pytest.fixture
def empty() -> Iterator[Path]:
    # Not pytest's tmp_path: handlers of a root daemon run as nobody, who cannot look into it.
    directory = Path(tempfile.mkdtemp(prefix="effectd-agents-"))
    directory.chmod(0o755)
    programs = directory / "programs"
    programs.mkdir()
    for name, module in (("effectd", "supervisor"), ("effectctl", "supervisor.cli")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def typed(directory: Path, script: str) -> str:
    """What the commands print; all that they started is ended."""
    environment = {
        **os.environ,
        "PATH": f"{directory / 'programs'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "repo": str(ROOT),
        "python": sys.executable,
    }
    here = directory / "here"
    here.mkdir()
    # Into a file: what is left running when a command failed would keep a pipe open.
    with open(directory / "output", "w+", encoding="utf-8") as output:
        shell = subprocess.Popen(
            ["sh", "-eu", "-c", script],
            cwd=here,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(timeout=DEADLINE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            output.seek(0)
            out = output.read()
    assert shell.returncode == 0, out
    return out


@pytest.mark.timeout(450)  # dozens of commands, each an interpreter of its own
@pytest.mark.guarantee("A3", "A6", "A8", "A9")
def test_the_page_leads_from_an_empty_directory_to_an_agent_that_was_killed(empty: Path) -> None:
    section = PAGE.read_text().split("## The loop")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    out = typed(empty, "".join(f"echo '=== {n}'\n{block}" for n, block in enumerate(blocks)))
    said = dict(re.findall(r"^=== (\d+)\n(.*?)(?=^=== |\Z)", out, re.DOTALL | re.MULTILINE))
    assert made(said["1"], "monday") == dict.fromkeys(WRITES, 1)
    (answer,) = re.findall(r'^\{"done".*\}$', said["2"], re.MULTILINE)
    unknown = {one.replace("tuesday-", "") for one in json.loads(answer)["unknown"]}
    assert all(one.startswith("mail ") for one in unknown)
    found = made(said["2"], "tuesday")
    assert set(found.values()) == {1}
    assert WRITES - unknown <= set(found)


def made(listed: str, task: str) -> Counter[str]:
    """How often each write of a task is in the list of the world's files."""
    found = re.findall(rf"^(\w+) {task}-(\w+) ", listed, re.MULTILINE)
    return Counter(f"{tool} {order}" for tool, order in found)
