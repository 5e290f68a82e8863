"""What the daemon does to itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from sandbox.protect import protect_daemon
protect_daemon()
print(os.stat("/proc/self/environ").st_uid)
print(*[line for line in open("/proc/self/status") if line.startswith(("CapEff"))])
from sandbox.client import Launcher
"""


@pytest.mark.guarantee("S4")
def test_a_protected_daemon_cannot_be_looked_into() -> None:
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", CODE, root], capture_output=True, text=True, check=True
    )
    owner, _, effective = done.stdout.split()
    assert owner == "0", "what belongs to root cannot be read or traced by the same uid"
    if os.getuid() != 0:
        assert int(effective, 16) == 0
