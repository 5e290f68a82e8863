"""Thousands of attempts of every kind leave nothing behind, in the daemon and in the kernel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from sandbox.pool import TEMPLATES_MAX
from sandbox.spec import Spec
from tests.sandbox.conftest import adversary, cgroup_root, open_folder
from tests.sandbox.support import launched
from tests.soak import leaks
from tests.soak.attempts import Soak, mixed

__all__ = ["adversary", "cgroup_root", "open_folder"]

PROFILES = TEMPLATES_MAX + 2
POOL, POOL_TOTAL = 2, 4
AT_ONCE = 4


@pytest.fixture
def shown(open_folder: Path) -> Iterator[Path]:
    """A directory for files that handlers may look at."""
    with tempfile.TemporaryDirectory(dir=open_folder) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def delegated(request: pytest.FixtureRequest) -> Path | None:
    """Only root can make itself a cgroup; without one the attempts are the same."""
    root: Path | None = request.getfixturevalue("cgroup_root") if os.getuid() == 0 else None
    return root


async def soaked(
    count: int, warm_up: int, launcher_kills: int, adversary: str, shown: Path, root: Path | None
) -> None:
    """Run ``warm_up`` attempts, count, run the rest, and count again."""
    profiles = [Spec(closure=(adversary,), tasks_max=24 + at) for at in range(PROFILES)]
    async with launched(cgroup_root=root, pool=POOL, pool_total=POOL_TOTAL) as launcher:
        soak = Soak(launcher, adversary, shown, profiles)

        def count_now() -> leaks.Counts:
            return leaks.counted(os.getpid(), root)

        await soak.run(mixed(warm_up, 0, seed=1), AT_ONCE)
        await soak.rest()
        before = await trio.to_thread.run_sync(leaks.settled, count_now)
        memory = leaks.resident(os.getpid())
        namespaces, mounts = leaks.settled_namespace(), leaks.mount_points()
        keys = leaks.keys()

        await soak.run(mixed(count - warm_up, launcher_kills, seed=2), AT_ONCE)
        await soak.rest()
        await trio.to_thread.run_sync(leaks.no_more_than, before, count_now)
        leaks.no_more_namespaces(namespaces)
        leaks.no_more_mounts(mounts)
        leaks.no_more_keys(keys)
        leaks.no_more_memory(memory, leaks.resident(os.getpid()))
        if root is not None:
            leaks.no_dying_cgroups(root)
        assert soak.tally.total() == count
        assert soak.kills == launcher_kills


@pytest.mark.guarantee("S1")
async def test_400_attempts_of_every_kind_leave_nothing_behind(
    adversary: str, shown: Path, delegated: Path | None
) -> None:
    await soaked(400, 100, 1, adversary, shown, delegated)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.guarantee("S1")
async def test_5000_attempts_of_every_kind_leave_nothing_behind(
    adversary: str, shown: Path, delegated: Path | None
) -> None:
    await soaked(5_000, 500, 4, adversary, shown, delegated)
