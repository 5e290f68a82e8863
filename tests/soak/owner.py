"""An owner of sandboxes, in a process of its own: what grows in it is the daemon's part alone.

It runs one line of attempts after another, read from its input, and answers each when they are done
and what the allocator only keeps is given back. At the end of its input it closes its launcher.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import trio

from sandbox.pool import TEMPLATES_MAX
from sandbox.spec import Spec
from tests.sandbox.support import launched
from tests.soak.attempts import Soak, mixed
from tests.soak.fence import Fence

PROFILES = TEMPLATES_MAX + 2
POOL, POOL_TOTAL = 2, 4
AT_ONCE = 4
# Until a launcher and all below it are gone.
CLOSED_S = 60.0


@attrs.frozen
class Job:
    """So many attempts of every kind, in an order that the seed decides."""

    count: int
    launcher_kills: int
    seed: int


@attrs.frozen
class Done:
    """Since the start: attempts, kills of the launcher; and objects that are in memory."""

    attempts: int
    kills: int
    objects: int


@attrs.frozen
class Owner:
    """The process, as whoever watches it sees it."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, job: Job) -> Done:
        """Have it done. AssertionError when the owner ended instead; it has said why."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(attrs.astuple(job)), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, "the owner of the sandboxes failed, see its standard error"
        return Done(*json.loads(answer))

    def close(self) -> None:
        """End its input and wait for its end, which takes along all that it made."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(CLOSED_S) == 0, "it failed while it closed its launcher"


@contextlib.contextmanager
def new_owner(fence: Fence, adversary: str, shown: Path, root: Path | None) -> Iterator[Owner]:
    """One inside of ``fence``, with files to show in ``shown`` and cgroups in ``root``."""
    places = [adversary, str(shown), *([str(root)] if root is not None else [])]
    command = fence.around([sys.executable, "-m", __name__, *places])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Owner(process)
        finally:
            process.kill()


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    """One at a time: whoever sends them waits for the answer to each."""
    while line := await stream.receive_some():
        assert line.endswith(b"\n"), "it is one write"
        yield line


async def _serve(adversary: str, shown: str, root: str | None = None) -> None:
    profiles = [Spec(closure=(adversary,), tasks_max=24 + at) for at in range(PROFILES)]
    cgroups = None if root is None else Path(root)
    async with (
        trio.lowlevel.FdStream(os.dup(0)) as jobs,
        launched(cgroup_root=cgroups, pool=POOL, pool_total=POOL_TOTAL) as launcher,
    ):
        soak = Soak(launcher, adversary, Path(shown), profiles)
        async for line in _lines(jobs):
            job = Job(*json.loads(line))
            await soak.run(mixed(job.count, job.launcher_kills, job.seed), AT_ONCE)
            await soak.rest()
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            done = Done(soak.tally.total(), soak.kills, sys.getallocatedblocks())
            print(json.dumps(attrs.astuple(done)), flush=True)


if __name__ == "__main__":
    trio.run(_serve, *sys.argv[1:])
