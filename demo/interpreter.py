"""Which Python the tools run with: one that the handlers' user may execute.

The checkout and its .venv may lie where that user cannot look (below a home of mode 0700).
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from demo.failure import DemoFailed

TRIAL = (
    "import sys; sys.path.insert(0, sys.argv[1]); import deeds, trouble, effectd.handler;"
    "sys.exit(sys.version_info < (3, 9))"
)


def find_interpreter(tools: Path) -> str:
    """The first interpreter with which the handlers' user can import the tools.

    Started by root, `effectd --dev` runs handlers as `nobody`, else as the user who started it.
    """
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    why = {}
    for candidate in dict.fromkeys(_candidates()):
        why[candidate] = _trial(candidate, tools, user)
        if not why[candidate]:
            return candidate
    who = user.pw_name if user else "this user"
    tried = "".join(f"\n  {candidate}: {reason}" for candidate, reason in why.items())
    raise DemoFailed(
        f"no Python 3.9 or newer here that {who} may execute, and handlers run as {who}.{tried}\n"
        "Install one for everybody (on Debian: apt-get install python3), or run as another user"
    )


def _candidates() -> list[str]:
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    found = (base, "/usr/bin/python3", "/usr/local/bin/python3", shutil.which("python3") or "")
    return [os.path.realpath(path) for path in found if path and os.path.exists(path)]


def _trial(python: str, tools: Path, user: pwd.struct_passwd | None) -> str:
    """Why this interpreter does not do, or nothing."""
    identity: Mapping[str, object] = (
        {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    )
    try:
        done = subprocess.run(
            [python, "-c", TRIAL, str(tools)],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            **identity,  # type: ignore[call-overload]  # typed by no stub as a mapping
        )
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"it exited with {done.returncode}"
