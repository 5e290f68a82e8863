"""One run of /bin/true in a sandbox, as the daemon does it: through `sandbox.client.Launcher`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import attrs
import trio

from bench.floors import PROGRAM
from bench.host import handler_ids
from sandbox import group
from sandbox.client import Launcher
from sandbox.output import BoundedOutput
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Spec, Started

COMMAND = Command((PROGRAM,), DEFAULT_ENVIRONMENT)
GRACE_MS = 500
_SETTLE_S = 0.3
_READ, _KEPT = 65_536, 65_536


@attrs.frozen
class Run:
    """One run's durations, each in ns from the request."""

    record_ns: int
    """Until init's record was read: the tree is proven dead."""
    drained_ns: int
    """Until all three outputs were read to their ends, too."""
    gone_ns: int
    """Until init's own pidfd was readable, too."""


@contextlib.asynccontextmanager
async def launched(
    root: Path | None, *, pool: int, pool_total: int = 8
) -> AsyncGenerator[Launcher]:
    """A launcher that is watched, and closed at the end. ``pool`` 0: nothing is made ahead."""
    uid, gid = handler_ids()
    launcher = Launcher.start(
        handler_uid=uid, handler_gid=gid, cgroup_root=root, pool=pool, pool_total=pool_total
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        try:
            yield launcher
        finally:
            await launcher.close()


async def run(launcher: Launcher, spec: Spec) -> Run:
    """From the request to the init's own end; RuntimeError unless it went as it should."""
    begin = time.perf_counter_ns()
    sandbox = await launcher.prepare(spec)
    try:
        answer = await sandbox.dispatch(COMMAND)
        if not isinstance(answer, Started):
            raise RuntimeError(f"not started: {answer}")
        async with trio.open_nursery() as nursery:
            for stream in (sandbox.stdout, sandbox.stderr, sandbox.channel):
                nursery.start_soon(_drain, stream)
            end = await sandbox.leader_exited()
            record_ns = time.perf_counter_ns() - begin
            # What the daemon does after every end, whoever saw it.
            await group.end(sandbox, grace_ms=GRACE_MS, ask=False)
        drained_ns = time.perf_counter_ns() - begin
        await sandbox.kill()  # it is dead: this only waits until its pidfd says so
        gone_ns = time.perf_counter_ns() - begin
    finally:
        await sandbox.discard()
    if not (isinstance(end, Ended) and end.proof == "record" and end.status == 0):
        raise RuntimeError(f"it ended otherwise than by itself: {end}")
    return Run(record_ns, drained_ns, gone_ns)


async def _drain(stream: trio.lowlevel.FdStream | trio.SocketStream) -> None:
    into = BoundedOutput(_KEPT, _KEPT)
    while data := await stream.receive_some(_READ):
        into.add(data)


async def layers(launcher: Launcher, spec: Spec) -> tuple[str, ...]:
    """Those that are in force in a sandbox of ``spec``."""
    sandbox = await launcher.prepare(spec)
    try:
        return sandbox.layers
    finally:
        await sandbox.discard()


def hits(launcher: Launcher) -> int:
    """How many requests so far found a sandbox ready."""
    return launcher.statistics.hits


async def settled() -> None:
    """Long enough for a pool to fill up."""
    await trio.sleep(_SETTLE_S)
