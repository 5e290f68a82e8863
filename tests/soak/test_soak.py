"""Thousands of attempts of every kind leave nothing behind, in the daemon and in the kernel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.pool import TEMPLATES_MAX
from tests.sandbox.conftest import adversary, cgroup_root, open_folder
from tests.soak import leaks
from tests.soak.fence import Fence, fenced
from tests.soak.owner import Job, Owner, new_owner

__all__ = ["adversary", "cgroup_root", "open_folder"]


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


@pytest.fixture
def fence() -> Iterator[Fence]:
    with fenced() as fence:
        yield fence


@pytest.fixture
def owner(fence: Fence, adversary: str, shown: Path, delegated: Path | None) -> Iterator[Owner]:
    with new_owner(fence, adversary, shown, delegated) as owner:
        yield owner


def soaked(
    warm_up: int, count: int, launcher_kills: int, owner: Owner, fence: Fence, root: Path | None
) -> None:
    """Run ``warm_up`` attempts, count, run the others of ``count``, and count again."""

    def count_now() -> leaks.Counts:
        return leaks.counted(owner.pid, root)

    done = owner.run(Job(warm_up, 0, seed=1))
    before = leaks.settled(count_now)
    namespaces = leaks.settled(fence.namespaces)
    mounts, keys = leaks.mount_points(), leaks.keys()
    memory = leaks.resident(owner.pid)

    last = owner.run(Job(count - warm_up, launcher_kills, seed=2))
    assert (last.attempts, last.kills) == (count, launcher_kills)
    leaks.no_more_than(before, count_now)
    leaks.no_more_namespaces(namespaces, fence, TEMPLATES_MAX * leaks.NETWORKS_KEPT)
    leaks.no_more_mounts(mounts)
    leaks.no_more_keys(keys)
    leaks.no_more_memory(memory, leaks.resident(owner.pid))
    leaks.no_more_objects(done.objects, last.objects, count - warm_up)
    if root is not None:
        leaks.no_dying_cgroups(root)
    owner.close()
    leaks.no_more_namespaces(dict.fromkeys(namespaces, 0), fence)


@pytest.mark.guarantee("S1")
def test_400_attempts_of_every_kind_leave_nothing_behind(
    owner: Owner, fence: Fence, delegated: Path | None
) -> None:
    soaked(100, 400, 1, owner, fence, delegated)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.guarantee("S1")
def test_5000_attempts_of_every_kind_leave_nothing_behind(
    owner: Owner, fence: Fence, delegated: Path | None
) -> None:
    soaked(500, 5_000, 4, owner, fence, delegated)
