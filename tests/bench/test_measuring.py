"""The measurements themselves, as small as they can be: that they run, and count what they say."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import binding, floors, host, processes, spawn
from sandbox.spec import Spec


def test_spawn_measures_and_writes_everything(tmp_path: Path) -> None:
    arguments = ["--count", "2", "--runs", "1", "--pause-ms", "1", "--output", str(tmp_path)]
    assert bench.main(["spawn", *arguments]) in (
        0,
        1,
    )  # whether the goals are met is another matter
    page = (tmp_path / bench.PAGE).read_text()
    for row in ("| Popen | reaped |", "| effectd, pooled | tree proven dead |", "| effectd | 8 |"):
        assert row in page
    assert (tmp_path / bench.PLOT).read_text().startswith("<svg")


@pytest.mark.parametrize(
    "wrong", [["spawn", "--count", "0"], ["spawn", "--runs", "x"], [], ["fly"]]
)
def test_wrong_arguments_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(wrong)
    assert ended.value.code == 2


async def test_a_sandbox_that_lacks_what_the_host_could_give_is_not_measured() -> None:
    with pytest.raises(spawn.LayerMissing, match="could give a_new_layer"):
        await spawn.all_layers(None, Spec(), frozenset({"a_new_layer", "user_namespace"}))


async def test_the_layers_of_this_host_are_all_in_force() -> None:
    with host.cgroup_root() as root:
        here = host.layers_here(root)
        assert here <= set(await spawn.all_layers(root, host.spec_here(here), here))
    assert root is None or not root.exists() or os.getuid() != 0


def test_a_floor_that_fails_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match="ended with 1"):
        floors.run(("/bin/false",))
    for floor in floors.FLOORS.values():
        assert 0 < floor() < 10**10


def test_the_cost_of_a_run_is_told_from_the_bare_one_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["cost", "--count", "5"]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(rows) == 6
    spent = {row[0].strip("| "): float(row[1]) for row in rows}
    assert all(spent.values())
    bare, layered = "a fork that starts it, in C", "the same with the layers, in C"
    assert spent[bare] < spent[layered] < spent["effectd"]


def test_the_processor_time_of_a_tree_holds_its_children_dead_and_alive() -> None:
    script = (
        "import os, time\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\nt = time.process_time()\n"
    )
    script += (
        "if (p := os.fork()) == 0:\n    while time.process_time() < 0.3: pass\n    os._exit(0)\n"
    )
    script += "os.waitpid(p, 0)\nprint('done', flush=True)\ninput()\n"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        assert processes.tree_cpu_ms(process.pid) >= 290
        before = processes.tree_cpu_ms(os.getpid())
        assert before >= 290  # it is below this process
        process.communicate(b"\n")
    assert processes.tree_cpu_ms(process.pid) == 0


def test_the_machine_has_spent_at_least_what_this_process_did() -> None:
    before = processes.machine_cpu_ms()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert processes.machine_cpu_ms() - before >= 150


def test_the_memory_of_a_process_is_at_least_what_it_wrote() -> None:
    before = processes.memory(os.getpid())
    # Pages of its own: from the heap they might have been written to before.
    with mmap.mmap(-1, 8 << 20) as kept:
        kept.write(os.urandom(len(kept)))
        after = processes.memory(os.getpid())
        written_kib = len(kept) // 1024
    assert before is not None
    assert after is not None
    assert after.private_dirty - before.private_dirty >= written_kib * 0.9
    assert after.pss > 0
    assert processes.memory(1 << 30) is None


def test_both_bindings_of_prctl_prepare_the_same_sandboxes() -> None:
    by_ctypes, by_prctl = binding.compare(count=2, runs=1, pause_ms=1)
    assert (by_ctypes.name, by_prctl.name) == (binding.CTYPES, binding.PRCTL)
    kinds = [[one.kind for one in each.footprints] for each in (by_ctypes, by_prctl)]
    assert kinds[0] == kinds[1]
    assert "python-prctl" in binding.page([by_ctypes, by_prctl])
