"""A daemon's journal as files, and file systems that are too small or may not be written."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.api import Document
from tests.e2e.support.daemon import Daemon

# The smallest that a configuration allows: a few operations fill a segment.
SMALL = "[journal]\nsegment_bytes = 65_536\n"
NEVER = {"effects": ["never"]}


def segments(daemon: Daemon) -> list[Path]:
    return sorted((daemon.state / "journal").glob("*.jnl"))


def on_disk(daemon: Daemon) -> dict[str, str]:
    """Every file of the journal and its digest; LOCK is for people and says who was there."""
    files = [one for one in (daemon.state / "journal").iterdir() if one.name != "LOCK"]
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def verified(daemon: Daemon) -> int:
    """What `effectctl journal verify` says of the chain, as an exit status."""
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", "verify"]
    where = [str(daemon.state / "journal"), "--require", "chain"]
    return subprocess.run([*command, *where], check=False, capture_output=True).returncode


def held(daemon: Daemon, tag: str) -> Document:
    """An operation whose effect is made and not confirmed; its handler waits in the world."""
    point = f"{tag} made never"
    daemon.world.hold(point)
    document = daemon.api.dispatch("never", {"tag": tag, **NEVER}).ok()
    daemon.world.arrived(point)
    return document


def at_rest(journal: Document) -> bool:
    """Whether the mark of a quiet moment stands behind the last decision."""
    return journal["durable_position"] > journal["position"]


@contextlib.contextmanager
def small_disk(directory: Path, options: str) -> Iterator[None]:
    """A small file system of its own below the test's directory."""
    directory.mkdir(mode=0o700)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
