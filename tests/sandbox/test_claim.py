"""What a dead daemon left below its cgroup is swept by the next one; nothing else is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cgroups import RUNS, Cgroup
from sandbox.spec import Spec
from tests.sandbox.support import launched, new_cgroup, poll

# A daemon with a template, one sandbox given out and one that stands ready.
DAEMON = """
import sys, trio
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from sandbox.spec import Spec
from tests.sandbox.support import launched, poll
async def main():
    async with launched(cgroup_root=Path(sys.argv[2]), pool=1, pool_total=1) as launcher:
        await (await launcher.prepare(Spec())).discard()
        await poll(lambda: launcher.ready == 1, 30)
        given = await launcher.prepare(Spec())
        print("ready", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with new_cgroup() as made:
        yield made


def started(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def slots(root: Path) -> set[str]:
    return {one.name for one in (root / RUNS).glob("slot-*")}


@pytest.mark.guarantee("S2")
async def test_the_next_daemon_sweeps_what_a_killed_one_left(root: Path) -> None:
    (root / RUNS).mkdir()
    with started(sys.executable, "-c", DAEMON, str(Path(__file__).parents[2]), str(root)) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        daemon.kill()
    left = slots(root)
    assert len(left) >= 2
    async with launched(cgroup_root=root) as launcher:
        sandbox = await launcher.prepare(Spec())
        assert await launcher.sweep() == ()
        assert not slots(root) & left
        assert len(slots(root)) == 2, "its own template and sandbox are its own"
        await sandbox.discard()


async def test_what_still_runs_in_it_is_ended(root: Path) -> None:
    (root / RUNS).mkdir()
    cgroup = Cgroup.make(root)
    with started("sleep", "600") as process:
        (cgroup.path / "cgroup.procs").write_text(str(process.pid))
        (root / RUNS / "of-an-admin").mkdir()
        async with launched(cgroup_root=root) as launcher:
            assert await launcher.sweep() == ()
        assert process.wait(30) == -9
    assert [one.name for one in (root / RUNS).glob("*/")] == ["of-an-admin"]


async def test_beside_a_living_daemon_nothing_is_swept(root: Path) -> None:
    (root / RUNS).mkdir()
    async with launched(cgroup_root=root) as first:
        sandbox = await first.prepare(Spec())
        left = Cgroup.make(root)
        before = slots(root)
        async with launched(cgroup_root=root) as second:
            assert await second.sweep() == ()
            assert slots(root) == before
        assert sandbox.waits()
        await sandbox.discard()
        left.remove()
    # Alone again: a daemon that stopped is no longer in the way.
    left = Cgroup.make(root)
    async with launched(cgroup_root=root) as third:
        await third.sweep()
        await poll(lambda: not left.path.exists(), 10)
