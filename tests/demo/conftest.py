"""The demo's outside world, without the daemon: providers in a directory of the tests' own."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from demo.processes import Processes, end, running_from
from demo.stage import CHECKOUT
from demo.world import World, start_world


@attrs.frozen
class Alone:
    """The providers and the plain worker's tools, as a `Stage` has them."""

    root: Path
    checkout: Path
    processes: Processes
    env: dict[str, str]
    python: str
    world: World
    plain_tools: Path


def new_root() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="effectd-demo-test-")


@pytest.fixture(scope="session")
def shared_world() -> Iterator[World]:
    """One set of providers for all tests: each test counts subjects of its own."""
    providers = Processes(outlive=False)
    with new_root() as root:
        try:
            yield start_world(providers, Path(root), CHECKOUT, dict(os.environ), stay=False)
        finally:
            providers.end_all()


@pytest.fixture
def alone(shared_world: World) -> Iterator[Alone]:
    processes = Processes(outlive=False)
    with new_root() as name:
        root = Path(name).resolve()
        shutil.copytree(CHECKOUT / "demo" / "tools", root / "plain")
        env = dict(os.environ)
        try:
            yield Alone(
                root, CHECKOUT, processes, env, sys.executable, shared_world, root / "plain"
            )
        finally:
            processes.end_all()
            end(running_from(root / "plain"))


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """A name that no other test counts."""
    return f"{request.node.originalname}-{os.getpid()}-{time.monotonic_ns()}"
