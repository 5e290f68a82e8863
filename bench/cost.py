"""``bench cost``: where the processor time of a contained run goes, from one floor to the next."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
import trio

from bench import floors, host, throughput

_FOLDER = Path(__file__).resolve().parent
# A fork of what the launcher has loaded, which starts the program and waits for it.
_FORK = """
import sys
sys.path.append(sys.argv[1])
import gc, os, resource
from sandbox import launcher
def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
gc.collect(); gc.freeze(); gc.disable()
before = spent()
for _ in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        os.waitpid(os.posix_spawn(sys.argv[3], [sys.argv[3]], {}), 0)
        os._exit(0)
    os.waitpid(pid, 0)
print(round((spent() - before) / int(sys.argv[2]) * 1e6))
"""


@attrs.frozen
class Cost:
    """Milliseconds of processor time of one run, all its processes together."""

    what: str
    cpu_ms: float


def measure(count: int) -> list[Cost]:
    """Each of ``count`` runs, the bare one first. CalledProcessError when a floor fails, OSError
    without a C compiler."""
    with tempfile.TemporaryDirectory() as folder, host.cgroup_root() as root:
        program = Path(folder) / "layers"
        subprocess.run(["cc", "-O2", "-o", program, _FOLDER / "layers.c"], check=True)
        costs = [
            Cost("posix_spawn and wait", _spawned(count)),
            Cost("a fork that starts it, in C", _printed(str(program), str(count), "0")),
            Cost("the same with the layers, in C", _printed(str(program), str(count), "1")),
            Cost("a fork of the launcher that starts it", _forked(count)),
        ]
        spec = host.spec_here(host.layers_here(root))
        before = time.process_time()
        rate = trio.run(throughput.effectd, root, spec, count, 1)
        own = (time.process_time() - before) / count * 1000
    return [*costs, Cost("effectd", rate.cpu_ms), Cost("of that the daemon's own loop", own)]


def page(costs: list[Cost]) -> str:
    """As a table, in multiples of the bare run."""
    rows = [
        f"| {one.what} | {one.cpu_ms:.2f} | {one.cpu_ms / costs[0].cpu_ms:.1f} |" for one in costs
    ]
    return "\n".join(("| what ran /bin/true | ms of processor time | x |", "|---|---|---|", *rows))


def _spawned(count: int) -> float:
    before = _spent_s()
    for _ in range(count):
        floors.posix_spawn()
    return (_spent_s() - before) / count * 1000


def _forked(count: int) -> float:
    boot = ["-I", "-S", "-c", _FORK, str(_FOLDER.parent), str(count), floors.PROGRAM]
    return _printed(sys.executable, *boot)


def _printed(*command: str) -> float:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=os.sep)
    return int(done.stdout) / 1000


def _spent_s() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
