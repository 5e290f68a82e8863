"""The cgroup that the service manager delegated to us, if it did.

Our own processes move into `supervisor/` below it first: a cgroup with processes of its
own cannot hand controllers to its children.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
# Set by systemd on what `Delegate=` names, so that nobody has to guess from ownership.
_MARKS = ("user.delegate", "trusted.delegate")


def delegated_cgroup() -> Path | None:
    """The delegated cgroup, with this process moved below it; None without one."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    if path is None or not (_ROOT / "cgroup.procs").exists():
        return None
    own = _ROOT / path.lstrip("/")
    if not _is_delegated(own):
        return None
    try:
        (own / "supervisor").mkdir(exist_ok=True)
        (own / "supervisor" / "cgroup.procs").write_text("0", encoding="ascii")
    except OSError:
        return None
    return own


def _is_delegated(own: Path) -> bool:
    for mark in _MARKS:
        with contextlib.suppress(OSError):
            if os.getxattr(own, mark) == b"1":
                return True
    return False
