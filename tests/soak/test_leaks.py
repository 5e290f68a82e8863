"""What the soak counts with would notice: each kind of leak, planted."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.soak import leaks
from tests.soak.fence import KINDS, Fence, fenced


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "SETTLE_S", 1.0)


def counted() -> leaks.Counts:
    return leaks.counted(os.getpid(), None)


@contextlib.contextmanager
def a_descriptor() -> Iterator[None]:
    fd = os.memfd_create("left")
    yield
    os.close(fd)


@contextlib.contextmanager
def a_pidfd() -> Iterator[None]:
    fd = os.pidfd_open(os.getpid())
    yield
    os.close(fd)


@contextlib.contextmanager
def a_socket() -> Iterator[None]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield


@contextlib.contextmanager
def a_thread() -> Iterator[None]:
    """More than all that are there: those of other tests, kept for another use, may end now."""
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(threading.active_count() + 1)]
    for thread in threads:
        thread.start()
    yield
    end.set()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def a_process() -> Iterator[None]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield
        process.kill()


@contextlib.contextmanager
def a_zombie() -> Iterator[None]:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    yield
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    "leak",
    [a_descriptor, a_pidfd, a_socket, a_thread, a_process, a_zombie],
    ids=lambda f: f.__name__,
)
def test_a_leak_is_noticed_and_one_that_ends_is_none(
    leak: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    before = leaks.settled(counted)
    with leak(), pytest.raises(AssertionError, match="left behind"):
        leaks.no_more_than(before, counted)
    leaks.no_more_than(before, counted)


@contextlib.contextmanager
def namespaces(fence: Fence) -> Iterator[None]:
    """One of each kind."""
    flags = ["--cgroup", "--ipc", "--mount", "--net", "--pid", "--user", "--uts"]
    with subprocess.Popen(
        fence.around(["unshare", *flags, "--fork", "sh", "-c", "echo; read end"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate(b"\n")


def test_one_namespace_that_stays_is_noticed_and_those_that_end_or_are_others_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fenced() as fence, fenced() as other, namespaces(fence), namespaces(other):
        before = fence.namespaces()
        assert before == dict.fromkeys(KINDS, 1)
        with namespaces(fence):
            with pytest.raises(AssertionError, match="left behind") as noticed:
                leaks.no_more_namespaces(before, fence)
            assert [kind for kind in KINDS if f"'{kind}': (1, 2)" in str(noticed.value)] == [*KINDS]
        monkeypatch.setattr(leaks, "SETTLE_S", 60.0)  # the kernel frees them when it has time
        leaks.no_more_namespaces(before, fence)


@pytest.mark.parametrize(("grown", "noticed"), [(0.04, False), (0.06, True)])
def test_memory_may_grow_by_a_twentieth(grown: float, noticed: bool) -> None:
    before = {"owner": 100_000, "launcher": 3_000}
    after = {"owner": round(100_000 * (1 + grown)), "launcher": 3_000 + leaks.RSS_LEAST_KIB}
    if noticed:
        with pytest.raises(AssertionError, match="owner grew"):
            leaks.no_more_memory(before, after)
    else:
        leaks.no_more_memory(before, after)


@pytest.mark.parametrize(("grown", "noticed"), [(2_000, False), (2_300, True)])
def test_an_object_that_stays_of_each_second_attempt_is_noticed(grown: int, noticed: bool) -> None:
    if noticed:
        with pytest.raises(AssertionError, match="more objects"):
            leaks.no_more_objects(170_000, 170_000 + grown + 1_000, 4_500)
    else:
        leaks.no_more_objects(170_000, 170_000 + grown, 4_500)
