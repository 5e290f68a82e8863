"""A daemon that has served many mixed calls holds what it held after the first of them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from sandbox.pool import TEMPLATES_MAX
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until
from tests.sandbox import adversaries
from tests.soak import leaks
from tests.soak.fence import Fence, fenced

AT_ONCE = 6
RESULT_MAX = 65_536
BIG = 4 * RESULT_MAX  # so that it is not kept as a result
# Finished operations stay until they are evicted, so memory grows with their number.
KIB_PER_OPERATION = 8
# What the allocator keeps of the largest outputs, in as many arenas as there were threads.
ALLOCATOR_KIB = 8_192

_SCRIPTS = {
    "succeeds": ("exit 0", "succeeded"),
    "fails": ("echo no >&2; exit 7", "failed"),
    "prints-much": (f"head -c {BIG} /dev/zero; head -c {BIG} /dev/zero >&2", "succeeded"),
    "hangs": ("exec sleep 60", "timed_out"),
    "closes-everything": ("exec 0<&- 1>&- 2>&- 3>&-; exit 0", "succeeded"),
}
_ADVERSARIES = ("tree", "daemon", "comet", "storm", "stopped", "deaf", "holder", "killall")
CANCELLED, NOT_STARTED = "is-cancelled", "is-no-program"


def _manifest(command: list[str], at: int, timeout_ms: int = 30_000) -> str:
    """``at`` makes profiles of their own, so that the pool has more than it can keep."""
    words = ", ".join(f'"{word}"' for word in command)
    return f"""\
manifest = 1
command = [{words}]
timeout_ms = {timeout_ms}
grace_ms = 20
max_running = 16
read_only = true
[sandbox]
tasks_max = {30 + at}
[output]
result_max_bytes = {RESULT_MAX}
"""


@attrs.frozen
class Soaked:
    """A daemon, the fence that it runs in, and for each handler the outcome of its attempts."""

    daemon: Daemon
    fence: Fence
    outcomes: dict[str, str]


@pytest.fixture
def soaked() -> Iterator[Soaked]:
    with fenced() as fence, new_daemon() as daemon:
        adversary = daemon.programs / "adversary"
        adversaries.build(adversary)
        outcomes: dict[str, str] = {}
        for at, (name, (script, outcome)) in enumerate(_SCRIPTS.items()):
            timeout_ms = 100 if name == "hangs" else 30_000
            daemon.add_handler(name, _manifest(["/bin/sh", "-c", script], at, timeout_ms))
            outcomes[name] = outcome
        for at, mode in enumerate(_ADVERSARIES, len(_SCRIPTS)):
            # Its leader exits with 7 at once; what it started stays.
            daemon.add_handler(mode, _manifest([str(adversary), mode, "0", "tag"], at))
            outcomes[mode] = "failed"
        formless = daemon.programs / "formless"
        formless.write_bytes(b"\x7fELF and nothing behind it")
        formless.chmod(0o755)
        daemon.add_handler(NOT_STARTED, _manifest([str(formless)], 40))
        outcomes[NOT_STARTED] = "not_started"
        daemon.add_handler(CANCELLED, _manifest(["/bin/sleep", "60"], 41))
        outcomes[CANCELLED] = "cancelled"
        daemon.around = fence.around
        yield Soaked(daemon.start(), fence, outcomes)


def _call(daemon: Daemon, handler: str, outcome: str) -> None:
    if handler == CANCELLED:
        operation = daemon.api.dispatch(handler, {}).ok()["operation_id"]
        assert daemon.api.cancel(operation).ok()["state"] == "cancelled"
        return
    document = daemon.api.dispatch(handler, {}, wait_ms=60_000).ok()
    attempts = document["call"]["attempts"]
    assert [one["outcome"] for one in attempts] == [outcome], (handler, document)


def _calls(daemon: Daemon, outcomes: dict[str, str], count: int, seed: int) -> None:
    names = random.Random(seed).choices(list(outcomes), k=count)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(_call, daemon, name, outcomes[name]) for name in names]:
            done.result()


def _rest(daemon: Daemon, outcomes: dict[str, str]) -> None:
    """One of each in turn: it leaves the pool in the same state."""
    for name, outcome in outcomes.items():
        _call(daemon, name, outcome)


def _lose_the_launcher(daemon: Daemon) -> None:
    lost = daemon.launcher
    os.kill(lost, signal.SIGKILL)
    wait_until(
        lambda: [pid for pid in leaks.below(daemon.pid) if pid != lost], 60, "a new launcher"
    )


def _soak(soaked: Soaked, count: int, warm_up: int, kills: int) -> None:
    daemon, fence, outcomes = attrs.astuple(soaked, recurse=False)

    def count_now() -> leaks.Counts:
        return leaks.counted(daemon.pid, None)

    _calls(daemon, outcomes, warm_up, seed=1)
    # What was prepared when the daemon started is gone with its launcher, before and after.
    _lose_the_launcher(daemon)
    _rest(daemon, outcomes)
    before = leaks.settled(count_now)
    namespaces = leaks.settled(fence.namespaces)
    mounts, keys = leaks.mount_points(), leaks.keys()
    memory = leaks.resident(daemon.pid)
    for turn in range(kills + 1):
        _calls(daemon, outcomes, (count - warm_up) // (kills + 1), seed=turn + 2)
        if turn < kills:
            _lose_the_launcher(daemon)
    _rest(daemon, outcomes)
    leaks.no_more_than(before, count_now)
    leaks.no_more_namespaces(namespaces, fence, TEMPLATES_MAX * leaks.NETWORKS_KEPT)
    leaks.no_more_mounts(mounts)
    leaks.no_more_keys(keys)
    after = leaks.resident(daemon.pid)
    grown = after.pop("owner") - memory.pop("owner")
    leaks.no_more_memory(memory, after)
    assert grown <= ALLOCATOR_KIB + (count - warm_up) * KIB_PER_OPERATION, f"{grown} KiB more"
    assert daemon.api.status()["state"] == "ready"
    assert daemon.stop() == 0
    leaks.no_more_namespaces(dict.fromkeys(namespaces, 0), fence)


@pytest.mark.guarantee("S1")
def test_150_calls_through_a_daemon_leave_nothing_behind(soaked: Soaked) -> None:
    _soak(soaked, count=150, warm_up=50, kills=1)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.guarantee("S1")
def test_2000_calls_through_a_daemon_leave_nothing_behind(soaked: Soaked) -> None:
    _soak(soaked, count=2_000, warm_up=500, kills=3)
