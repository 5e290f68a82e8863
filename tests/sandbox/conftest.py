"""Fixtures of the sandbox's tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.pool import Pool
from tests.sandbox import adversaries
from tests.sandbox.support import new_cgroup, refused_namespaces


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A directory that the handlers' uid can reach (pytest's own are closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="effectd-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def adversary(open_folder: Path) -> str:
    """The program of all adversaries, see adversaries/main.c."""
    program = open_folder / "adversary"
    adversaries.build(program)
    return str(program)


@pytest.fixture
def heartbeat(open_folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A page that adversaries beat in, inside a directory of its own."""
    folder = Path(tempfile.mkdtemp(prefix="beat-", dir=open_folder))
    folder.chmod(0o755)
    page = folder / "page"
    page.write_bytes(bytes(4096))
    page.chmod(0o666)
    yield page
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def cgroup_root() -> Iterator[Path]:
    """A delegated cgroup v2 directory of our own."""
    with new_cgroup() as root:
        yield root


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that gives no user namespace, as far as this process can tell."""
    monkeypatch.setattr(Pool, "take", refused_namespaces)
