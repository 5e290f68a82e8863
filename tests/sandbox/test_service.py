"""Under systemd: handlers have a uid of their own, and nobody is root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SERVICE = Path(__file__).with_name("service.py")
DAEMON, HANDLER = 61_101, 61_102


def open_python() -> str | None:
    """An interpreter like ours that any uid can start (ours may lie in somebody's home)."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        path = Path(candidate).resolve()
        if all(folder.stat().st_mode & 0o001 for folder in path.parents):
            code = "import sys; print(sys.version_info[:2])"
            done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=True)
            if done.stdout.strip() == str(tuple(sys.version_info[:2])):
                return str(path)
    return None


@pytest.mark.guarantee("S11")
def test_two_capabilities_are_enough_for_a_uid_of_their_own() -> None:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv(1) to start as systemd would")
    python = open_python()
    if python is None:
        pytest.skip(f"{sys.executable} is closed to other uids, and no like one is open")
    if not all(folder.stat().st_mode & 0o001 for folder in SERVICE.parents):
        pytest.skip("this checkout lies where other uids cannot look")
    ids = [f"--reuid={DAEMON}", f"--regid={DAEMON}", "--clear-groups", "--no-new-privs"]
    caps = [f"--{kind}-caps=+setuid,+setgid" for kind in ("inh", "ambient")]
    caps.append("--bounding-set=-all,+setuid,+setgid")
    done = subprocess.run(
        ["setpriv", *ids, *caps, python, SERVICE, str(HANDLER)],
        env={"PYTHONPATH": sysconfig.get_path("platlib"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for found in json.loads(done.stdout):
        assert found["uid"] == HANDLER
        assert found["kill"] == "pidfd"
        assert {"uid", "user_namespace", "root", "network"} <= set(found["layers"])
