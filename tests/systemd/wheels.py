"""The wheels that an installation is made from: ours, of this checkout, and their dependencies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(target: Path) -> None:
    """Put all wheels into `target`, for the Python that runs this. Needs a package index, or
    pip's cache of one, for the dependencies."""
    target.mkdir(parents=True, exist_ok=True)
    for project in (ROOT / "sdk", ROOT):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
        subprocess.run(command, cwd=project, capture_output=True, timeout=120, check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(target)]
    command += ["--find-links", str(target), "effectd-daemon"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pip could not collect the dependencies:\n{done.stderr[-2_000:]}")
