"""Without a descriptor left a sandbox is refused, whichever it was that could not be had; nothing
leaks, what already runs is ended and proven dead all the same, and all of it heals by itself."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from sandbox import group
from sandbox.census import alive
from sandbox.cgroups import RUNS
from sandbox.client import Launcher
from sandbox.spec import (
    DEFAULT_ENVIRONMENT,
    Command,
    Ended,
    Level,
    SandboxUnavailable,
    Spec,
    Started,
)
from tests.sandbox.support import children, launched, new_cgroup, poll, read_line

# More than a sandbox takes, its template included.
ROOM_MAX = 32
SETTLED_S = 10
SHELL = Command(("/bin/sh", "-c", "echo up; read x <&3"), DEFAULT_ENVIRONMENT)


@pytest.fixture(scope="module")
def cgroup_root() -> Iterator[Path]:
    """One in which nobody else leaves anything."""
    with new_cgroup() as root:
        yield root


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def room_for(count: int) -> Iterator[None]:
    """So many more descriptors can be had by this process, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        taken += [os.dup(0) for _ in range(count)]
        limit = max(taken, default=0) + 1
        for _ in range(count):
            os.close(taken.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


async def refused_until_it_fits(launcher: Launcher, spec: Spec) -> int:
    """Ask with ever more room; how often it was refused before a sandbox came."""
    before = open_files()
    for room in range(ROOM_MAX):
        with room_for(room):
            try:
                sandbox = await launcher.prepare(spec)
            except SandboxUnavailable as error:
                assert error.layer == "limits", error
                assert os.strerror(errno.EMFILE) in error.cause
                sandbox = None
        if sandbox is not None:
            await sandbox.discard()
            return room
        # A template that came to be may stay; it is the same two descriptors each time.
        await poll(lambda: open_files() <= before + 2, SETTLED_S)
    raise AssertionError(f"{ROOM_MAX} descriptors do not do")


@pytest.mark.parametrize("level", ["strict", "none"])
async def test_every_descriptor_of_a_sandbox_may_be_the_one_too_many(
    cgroup_root: Path, level: Level
) -> None:
    spec = Spec(level=level, trusted=level == "none")
    async with launched(cgroup_root=cgroup_root) as launcher:
        await (await launcher.prepare(Spec(tasks_max=9))).discard()  # all that comes by itself
        assert await refused_until_it_fits(launcher, spec) > 3
        before = open_files()
        # With the template there as well, and as many times as would show a leak.
        needed = [await refused_until_it_fits(launcher, spec) for _ in range(3)]
        assert len(set(needed)) == 1
        await poll(lambda: open_files() == before, SETTLED_S)
        runs = cgroup_root / RUNS
        await poll(lambda: len(list(runs.glob("slot-*"))) == len(children(launcher.pid)), SETTLED_S)


async def test_the_pool_fills_again_when_there_are_descriptors_again() -> None:
    async with launched() as launcher:
        await (await launcher.prepare(Spec())).discard()
        with room_for(1):
            launcher._pool.resize(1, 1)
            (profile,) = launcher._pool._profiles.values()
            await poll(lambda: profile.failed, SETTLED_S)
            assert launcher.ready == 0
        await (await launcher.prepare(Spec())).discard()
        await poll(lambda: launcher.ready == 1, SETTLED_S)


@pytest.mark.parametrize("level", ["strict", "none"])
@pytest.mark.parametrize("deaf", [False, True])
async def test_what_runs_is_ended_and_proven_dead_without_a_descriptor(
    cgroup_root: Path, level: Level, deaf: bool
) -> None:
    spec = Spec(level=level, trusted=level == "none")
    async with launched(cgroup_root=cgroup_root) as launcher:
        sandbox = await launcher.prepare(spec)
        assert isinstance(await sandbox.dispatch(SHELL), Started)
        await read_line(sandbox.stdout)
        if deaf:  # its init cannot answer, so that it is ended from outside
            os.kill(sandbox.identity.init_pid, 19)
        with room_for(0):
            assert alive(sandbox.identity), "who cannot look must not call it dead"
            async with trio.open_nursery() as nursery:
                # Something has to be had for what only a file can do.
                nursery.start_soon(_heal, 0.3 if level == "none" else None)
                end = await group.end(sandbox, grace_ms=100, ask=True)
                nursery.cancel_scope.cancel()
        assert isinstance(end, Ended) is not deaf, end
        await poll(lambda: not alive(sandbox.identity), SETTLED_S)
        await sandbox.discard()


async def _heal(after_s: float | None) -> None:
    if after_s is None:
        return
    await trio.sleep(after_s)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + 8, hard), hard))


async def test_the_launcher_is_waited_for_without_a_descriptor() -> None:
    async with launched() as launcher:
        old = launcher.pid
        with room_for(0):
            os.kill(old, 9)
            await poll(lambda: launcher._process.lost.is_set(), SETTLED_S)
        await poll(lambda: launcher.pid != old, SETTLED_S)
        await (await launcher.prepare(Spec())).discard()
