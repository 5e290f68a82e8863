"""`effectctl journal anchor --syslog`: sent to whoever listens, and never said when it was not."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.exits import Exit
from supervisor.journal.anchor import EXPORTED, newest, parse
from tests.journal.aged import aged


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("anchored") / "journal"
    aged(place, records=60)
    return place


@pytest.fixture
def log(tmp_path: Path) -> Iterator[socket.socket]:
    """A datagram socket, as the system's log has."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "log"))
        made.settimeout(60)
        yield made


def anchor(journal: Path, listening: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", "anchor", str(journal)]
    command += ["--syslog", "--syslog-socket", str(listening), *more]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def noted(journal: Path) -> list[str]:
    file = journal / EXPORTED
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["exported_to"] for line in lines]


@pytest.mark.guarantee("J5", "J6")
def test_an_anchor_in_the_systems_log_reads_back(
    journal: Path, log: socket.socket, tmp_path: Path
) -> None:
    said = anchor(journal, tmp_path / "log", "--out", str(tmp_path / "kept"))
    assert said.returncode == Exit.DONE, said.stderr
    message = log.recv(65_536).decode()
    assert message.startswith("<29>")
    assert " effectctl[" in message
    made = parse(message)
    assert made is not None
    assert made.text == said.stdout.strip() == (tmp_path / "kept").read_text().strip()
    assert made._replace(at="") == newest(journal)._replace(at="")
    assert noted(journal)[-2:] == [str(tmp_path / "kept"), "syslog"]


@pytest.mark.guarantee("J6")
def test_a_log_that_nobody_reads_is_said_and_noted_as_nothing(
    journal: Path, log: socket.socket, tmp_path: Path
) -> None:
    """Nobody bound it; it is no socket; whoever listened is gone."""
    before = noted(journal)
    (tmp_path / "file").write_text("")
    log.close()
    for name in ("missing", "file", "log"):
        said = anchor(journal, tmp_path / name)
        assert said.returncode == Exit.FAILED
        assert f"the system's log at {tmp_path / name} did not take it" in said.stderr
        assert "--out FILE" in said.stderr
    assert noted(journal) == before
