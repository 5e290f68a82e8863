"""Without a memory controller a handler that fills memory is stopped process by process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import cgroups, plan
from sandbox.spec import Ended, Level, Spec
from tests.sandbox.support import launched, run_to_end

PYTHON = "/usr/bin/python3"
MIB = 1 << 20
FILL = """
import sys
try:
    kept = bytearray(int(sys.argv[1]) << 20)
    for at in range(0, len(kept), 4096):
        kept[at] = 1
except MemoryError:
    print("refused")
else:
    print("had", len(kept) >> 20)
"""
THREADS = """
import threading
go = threading.Event()
threads = [threading.Thread(target=go.wait) for _ in range(60)]
for one in threads: one.start()
go.set()
for one in threads: one.join()
print("all")
"""


async def said(spec: Spec, code: str, *words: object, root: Path | None = None) -> bytes:
    async with launched(cgroup_root=root) as launcher:
        argv = (PYTHON, "-IS", "-c", code, *map(str, words))
        end, out, err = await run_to_end(launcher, argv, spec=spec)
    assert isinstance(end, Ended), end
    assert (end.how, end.status) == ("exited", 0), err
    return out


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize("level", ["strict", "none"])
async def test_a_process_that_fills_memory_is_refused_more_of_it(
    cgroup_root: Path, level: Level
) -> None:
    root = cgroup_root if level == "none" else None
    if "memory" in cgroups.bounded(root):
        pytest.skip("a memory controller is delegated: tests/systemd shows what it does")
    spec = Spec(level=level, trusted=level == "none", memory_max=64 * MIB, tasks_max=8)
    assert await said(spec, FILL, 256, root=root) == b"refused\n"
    assert await said(spec, FILL, 48, root=root) == b"had 48\n"


@pytest.mark.guarantee("S6")
async def test_the_stacks_of_all_its_threads_do_not_count() -> None:
    """A controller counts what is used of them, which is next to nothing."""
    assert await said(Spec(memory_max=64 * MIB, tasks_max=64), THREADS) == b"all\n"


async def test_an_init_lives_under_the_least_that_a_manifest_can_say() -> None:
    async with launched() as launcher:
        end, out, _ = await run_to_end(
            launcher, ("/bin/echo", "x"), spec=Spec(memory_max=MIB, tasks_max=1)
        )
    assert isinstance(end, Ended)
    assert out == b"x\n"


@pytest.mark.parametrize(
    ("handed", "bounded"),
    [
        ("", ()),
        ("cpu pids\n", ("tasks",)),
        ("cpu memory pids\n", ("memory", "tasks")),
        (None, ()),
    ],
)
def test_what_a_root_bounds_is_what_it_hands_down(
    tmp_path: Path, handed: str | None, bounded: tuple[str, ...]
) -> None:
    (tmp_path / cgroups.RUNS).mkdir()
    if handed is not None:
        (tmp_path / cgroups.RUNS / "cgroup.subtree_control").write_text(handed)
    assert cgroups.bounded(tmp_path) == bounded
    assert cgroups.bounded(None) == ()


def test_where_a_controller_counts_the_tree_no_process_is_limited() -> None:
    spec = Spec(memory_max=64 * MIB)
    assert len(plan.limit_steps(spec)) == len(plan.limit_steps(spec, ("memory",))) + 1
    assert plan.template(spec) != plan.template(spec, ("memory",))
