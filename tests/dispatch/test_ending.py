"""How an end is read: which limit it ran into, and what was used."""

from __future__ import annotations

import signal

import attrs
import pytest

from config.manifest import SandboxDecl
from sandbox.cgroups import Used
from sandbox.spec import Ended, Lost
from supervisor.core.record import Outcome, Usage
from supervisor.dispatch.ending import Ending, judge, killed_with_init, usage_of

ASKED = SandboxDecl(memory_max=1 << 20, tasks_max=7, cpu_max_ms=1_500, file_size_max=4_096)
NOTHING = Used()
OWN_MEMORY = Used(out_of_memory=True, over_memory_max=True)
AROUND = Used(out_of_memory=True)


def exited(status: int, **more: int) -> Ended:
    return attrs.evolve(Ended("exited", status, 5, None, 0, "record", 1, 2), **more)


def ended_by(number: int, **more: int) -> Ended:
    return attrs.evolve(Ended("signaled", number, 5, None, 0, "record", 1, 2), **more)


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("end", "used", "limit", "said"),
    [
        (exited(1), NOTHING, None, ""),
        (ended_by(signal.SIGSEGV), NOTHING, None, ""),
        (ended_by(signal.SIGKILL), NOTHING, None, ""),
        (ended_by(signal.SIGKILL), OWN_MEMORY, "memory", "memory_max = 1048576 bytes"),
        (exited(1), OWN_MEMORY, "memory", "memory_max"),
        (ended_by(signal.SIGKILL), AROUND, "memory", "the host"),
        (ended_by(signal.SIGXCPU), NOTHING, "cpu", "cpu_max_ms = 1500"),
        # The kernel counts whole seconds: SIGXCPU after 2, SIGKILL after 3.
        (ended_by(signal.SIGKILL, cpu_ms=1_499), NOTHING, None, ""),
        (ended_by(signal.SIGKILL, cpu_ms=1_500), NOTHING, "cpu", "cpu_max_ms"),
        (ended_by(signal.SIGTERM, cpu_ms=3_000), NOTHING, None, ""),
        (ended_by(signal.SIGXFSZ), NOTHING, "file_size", "file_size_max = 4096 bytes"),
        (exited(128 + signal.SIGXCPU), NOTHING, None, "exit 152 may mean: a process used"),
        (exited(128 + signal.SIGXFSZ), NOTHING, None, "exit 153 may mean: a file"),
        (exited(1), Used(tasks_refused=3), None, "3 forks failed at tasks_max = 7"),
        (ended_by(signal.SIGXFSZ), Used(tasks_refused=3), "file_size", "file_size_max"),
    ],
)
def test_a_limit_that_ended_it_is_told_as_that(
    end: Ended, used: Used, limit: str | None, said: str
) -> None:
    found = judge("exit", end, ASKED, used)
    assert (found.outcome, found.limit) == (Outcome.FAILED, limit)
    assert said in found.detail
    assert bool(said) == bool(found.detail)
    # A limit of its own has a code; that the host ran out is nothing that it asked for.
    own = limit is not None and used is not AROUND
    assert found.code == ("LimitExceeded" if own else None)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("exit", Ending(Outcome.SUCCEEDED)),
        ("deadline", Ending(Outcome.TIMED_OUT)),
        ("limit", Ending(Outcome.FAILED, "LimitExceeded")),
        ("shutdown", Ending(Outcome.CANCELLED, "Draining", "the daemon was stopped while it ran")),
        ("cancel", Ending(Outcome.CANCELLED)),
    ],
)
@pytest.mark.parametrize("used", [NOTHING, OWN_MEMORY, Used(tasks_refused=9)])
def test_what_we_ended_or_what_went_well_is_no_limit_of_its_own(
    cause: str, expected: Ending, used: Used
) -> None:
    assert judge(cause, exited(0), ASKED, used) == expected


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("end", "before_us", "used", "expected"),
    [
        (exited(0), None, Used(), Usage(cpu_ms=5, cpu_scope="reaped")),
        (
            exited(0, rss_peak_bytes=9, tasks_started=3),
            None,
            Used(),
            Usage(5, 9, None, 3, "reaped", "largest_process"),
        ),
        (
            exited(0, rss_peak_bytes=9, tasks_started=3),
            7_000,
            Used(cpu_us=19_001, memory_peak=99, tasks_peak=2),
            Usage(13, 99, 2, 3, "tree", "tree"),
        ),
        # A hierarchy without controllers counts time all the same.
        (
            exited(0, rss_peak_bytes=9),
            0,
            Used(cpu_us=1),
            Usage(1, 9, None, None, "tree", "largest_process"),
        ),
        (exited(0), 1, Used(), Usage(cpu_ms=5, cpu_scope="reaped")),
    ],
)
def test_use_is_the_trees_where_its_cgroup_counted_and_says_whose_it_is(
    end: Ended, before_us: int | None, used: Used, expected: Usage
) -> None:
    assert usage_of(end, before_us, used, None) == expected
    assert usage_of(end, before_us, used, "memory").limit == "memory"


@pytest.mark.guarantee("S6")
def test_a_tree_that_went_with_its_init_for_want_of_memory_failed_and_was_not_lost() -> None:
    end = killed_with_init(Lost("its init was killed", "pidfd"), 10, 30)
    assert (end.gate_ns, end.exit_ns, end.proof) == (10, 30, "pidfd")
    found = judge("exit", end, ASKED, OWN_MEMORY)
    assert (found.outcome, found.limit) == (Outcome.FAILED, "memory")
