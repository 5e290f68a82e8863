"""What a ready sandbox and its profile's template hold of the machine's memory."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import attrs

from bench import ours, processes
from sandbox.client import Launcher
from sandbox.spec import Spec

READY = 4


@attrs.frozen
class Footprint:
    """Medians over the processes of one kind, in KiB."""

    kind: str
    count: int
    pss: float
    private_dirty: float


async def measure(root: Path | None, spec: Spec) -> list[Footprint]:
    """Of a launcher of its own, see `of`."""
    async with ours.launched(root, pool=0) as launcher:
        return await of(launcher, spec)


async def of(launcher: Launcher, spec: Spec) -> list[Footprint]:
    """With `READY` sandboxes of one profile waiting. Empty for who may not look into them."""
    ready = [await launcher.prepare(spec) for _ in range(READY)]
    try:
        inits = {sandbox.identity.init_pid for sandbox in ready}
        below = [launcher.pid, *processes.descendants(launcher.pid)]
        return _by_kind({pid: _kind(pid, launcher.pid, inits) for pid in below})
    finally:
        for sandbox in ready:
            await sandbox.discard()


def _kind(pid: int, launcher: int, inits: set[int]) -> str:
    if pid == launcher:
        return "the launcher"
    return "a ready sandbox" if pid in inits else "a template"


def _by_kind(kinds: dict[int, str]) -> list[Footprint]:
    found: dict[str, list[processes.Memory]] = {}
    for pid, kind in kinds.items():
        memory = processes.memory(pid)
        if memory is not None:
            found.setdefault(kind, []).append(memory)
    return [
        Footprint(
            kind, len(all_), median(m.pss for m in all_), median(m.private_dirty for m in all_)
        )
        for kind, all_ in found.items()
    ]
