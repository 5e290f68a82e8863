"""What effectd is measured in: handlers' ids, a cgroup of its own, and every layer there is."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Generator
from pathlib import Path

from sandbox import cgroups
from sandbox.probe import probe
from sandbox.spec import Spec
from supervisor.delegated import delegated_cgroup

MEMORY_MAX = 512 << 20
_HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_CONTROLLERS = ("cpu", "memory", "pids")


def handler_ids() -> tuple[int, int]:
    """nobody's for root, as ``effectd --dev`` does it; else one's own."""
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        return nobody.pw_uid, nobody.pw_gid
    return os.getuid(), os.getgid()


@contextlib.contextmanager
def cgroup_root() -> Generator[Path | None]:
    """A delegated cgroup where there is one; root makes one. None when neither can be."""
    delegated = delegated_cgroup()
    if delegated is not None or os.getuid() != 0:
        yield delegated
        return
    hierarchy = next((one for one in _HIERARCHIES if (one / "cgroup.procs").exists()), None)
    if hierarchy is None:
        yield None
        return
    root = hierarchy / f"effectd-bench-{os.getpid()}"
    root.mkdir()
    try:
        for name in _CONTROLLERS:  # those that this hierarchy has
            cgroups.put(root / "cgroup.subtree_control", f"+{name}")
        yield root
    finally:
        _remove(root)


def _remove(root: Path) -> None:
    """All below first. What is still in use stays, and says so."""
    for folder in sorted(root.rglob("*/"), reverse=True):
        folder.rmdir()
    root.rmdir()


def layers_here(root: Path | None) -> frozenset[str]:
    """The layers that this host can give, found out by applying each."""
    uid, gid = handler_ids()
    found = probe(handler_uid=uid, handler_gid=gid, cgroup_root=root)
    return frozenset(layer.name for layer in found if layer.state == "in force")


def spec_here(layers: frozenset[str]) -> Spec:
    """The default profile, with a memory limit where one can be had."""
    return Spec(memory_max=MEMORY_MAX) if "memory" in layers else Spec()
