"""A Debian root directory with a systemd to boot, made once and copied for each machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

SUITE = "bookworm"
PYTHON = (3, 11)
# What docs/install.md asks for, what a machine without hardware needs to boot, and procps.
PACKAGES = (
    "apparmor", "dbus", "libcap2", "procps", "python3-minimal", "python3-venv",
    "systemd", "systemd-sysv",
)  # fmt: skip
# Nobody reads in there.
_LEAVE_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def cache() -> Path:
    """Where trees are kept between runs: they take a minute to make and never change."""
    home = os.environ.get("XDG_CACHE_HOME") or "/var/cache"
    return Path(home) / "effectd-tests"


def debian(
    suite: str = SUITE, packages: Sequence[str] = PACKAGES, *, hooks: Sequence[str] = ()
) -> Path:
    """The root directory of `suite` with `packages`: from the cache, or made and put there.

    Needs root, mmdebstrap and a mirror. Nobody may change what is returned: copy it.
    """
    wanted = [suite, *sorted(packages), *hooks, *_LEAVE_OUT]
    name = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]
    kept = cache() / f"{suite}-{name}"
    if not kept.exists():
        cache().mkdir(parents=True, exist_ok=True)
        # Made beside it and renamed: what is there is whole.
        place = Path(tempfile.mkdtemp(dir=cache(), prefix="making-"))
        try:
            _make(suite, packages, hooks, place / "root")
            (place / "root").rename(kept)
        finally:
            subprocess.run(["rm", "-rf", "--one-file-system", place], check=True)
    return kept


def _make(suite: str, packages: Sequence[str], hooks: Sequence[str], target: Path) -> None:
    # Its mounts and its processes end with it, however it ends.
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEAVE_OUT]
    command += ['--aptopt=Acquire::Languages "none"', *hooks, suite, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"mmdebstrap could not make Debian {suite}:\n{done.stderr[-2_000:]}")


def copy(tree: Path, target: Path) -> None:
    """A copy that may be changed, devices and owners included (2 s)."""
    subprocess.run(["cp", "-a", "--reflink=auto", tree, target], timeout=120, check=True)
