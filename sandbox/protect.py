"""What the daemon does to itself, once the launcher is started and before it reads secrets."""

from __future__ import annotations

import importlib
import os
from typing import Any


def protect_daemon() -> None:
    """No core dump, no tracing by the same uid, no capability in force (root keeps its own).

    Afterwards /proc/self belongs to root: write oom_score_adj before. What systemd gave stays
    permitted and ambient, since a launcher that has to be replaced needs CAP_SETUID and
    CAP_SETGID again.
    """
    prctl: Any = importlib.import_module("prctl")  # python-prctl has no types
    prctl.set_dumpable(0)
    if os.geteuid() != 0:
        prctl.cap_effective.limit()
