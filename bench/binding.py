"""``bench prctl``: python-prctl inside launcher and sandboxes against the functions of ctypes.

Every module that the launcher loads is part of each sandbox, page by page. What the daemon itself
does with prctl(2) is python-prctl's; here it is asked what the same would cost further down.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import attrs
import trio

from bench import footprint, host, ours
from bench.figures import Series, ms
from bench.footprint import Footprint
from sandbox import process
from sandbox.client import Launcher
from sandbox.spec import Spec

LIMIT = 0.05
"""More than this share of time or memory, and ctypes stays."""
CTYPES, PRCTL = "ctypes", "python-prctl"
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from bench.with_prctl import main;"
    " main({folder!r}, *map(int, sys.argv[2:]))"
)
_WARM_UP = 5


@attrs.frozen
class Binding:
    """What one of the two costs."""

    name: str
    preparing: Series
    footprints: list[Footprint]


def compare(count: int, runs: int, pause_ms: int) -> list[Binding]:
    """Prepare ``runs`` times ``count`` sandboxes with each, in turn."""
    with host.cgroup_root() as root:
        spec = host.spec_here(host.layers_here(root))
        return trio.run(_compared, root, spec, count, runs, pause_ms)


def page(bindings: list[Binding]) -> str:
    """A table, and what it means for the choice between the two."""
    base, other = bindings
    lines = ["| binding | preparing ms | p99 ms | of what | PSS KiB | private dirty KiB |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for one in bindings:
        times = f"{ms(one.preparing.median_ns)} | {ms(one.preparing.p99_ns)}"
        lines += [
            f"| {one.name} | {times} | {kind.kind} | {kind.pss:.0f} | {kind.private_dirty:.0f} |"
            for kind in one.footprints
        ] or [f"| {one.name} | {times} | - | - | - |"]
    shares = {"time": other.preparing.median_over(base.preparing) - 1}
    for mine, theirs in zip(base.footprints, other.footprints, strict=True):
        shares[f"memory of {mine.kind}"] = theirs.private_dirty / mine.private_dirty - 1
    told = ", ".join(f"{what} {share:+.1%}" for what, share in shares.items())
    verdict = "Too much" if max(shares.values()) > LIMIT else "Little enough"
    return "\n".join(
        [
            *lines,
            "",
            f"{other.name} against {base.name}: {told}. {verdict}: {LIMIT:.0%} is the limit.",
        ]
    )


async def _compared(
    root: Path | None, spec: Spec, count: int, runs: int, pause_ms: int
) -> list[Binding]:
    found: dict[str, list[tuple[int, ...]]] = {CTYPES: [], PRCTL: []}
    footprints: dict[str, list[Footprint]] = {}
    async with ours.launched(root, pool=0) as by_ctypes, _with_prctl(root) as by_prctl:
        launchers = {CTYPES: by_ctypes, PRCTL: by_prctl}
        for _ in range(runs):
            spent: dict[str, list[int]] = {name: [] for name in launchers}
            for turn in range(_WARM_UP + count):
                for name, launcher in launchers.items():
                    await trio.sleep(pause_ms / 1000)
                    took = await _prepared(launcher, spec)
                    if turn >= _WARM_UP:
                        spent[name].append(took)
            for name, values in spent.items():
                found[name].append(tuple(values))
        for name, launcher in launchers.items():
            footprints[name] = await footprint.of(launcher, spec)
    return [Binding(name, Series(tuple(found[name])), footprints[name]) for name in found]


async def _prepared(launcher: Launcher, spec: Spec) -> int:
    begin = time.perf_counter_ns()
    sandbox = await launcher.prepare(spec)
    spent = time.perf_counter_ns() - begin
    await sandbox.discard()
    return spent


@contextlib.asynccontextmanager
async def _with_prctl(root: Path | None) -> AsyncGenerator[Launcher]:
    """A launcher that boots `bench.with_prctl` instead of its own main."""
    file = importlib.import_module("prctl").__file__
    if file is None:
        raise RuntimeError("python-prctl is not a file that another process could load")
    usual = process._BOOT  # pyright: ignore[reportPrivateUsage] - for the time of one start
    process._BOOT = _BOOT.format(folder=str(Path(file).parent))  # pyright: ignore[reportPrivateUsage]
    try:
        started = ours.launched(root, pool=0)
        launcher = await started.__aenter__()
    finally:
        process._BOOT = usual  # pyright: ignore[reportPrivateUsage]
    try:
        yield launcher
    finally:
        await started.__aexit__(None, None, None)
