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
def namespaces(count: int) -> Iterator[None]:
    command = [
        "unshare",
        "--user",
        "--map-current-user",
        "--net",
        "sh",
        "-c",
        "echo; exec sleep 60",
    ]
    kept = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    for process in kept:
        assert process.stdout is not None
        process.stdout.readline()
    try:
        yield
    finally:
        for process in kept:
            process.kill()
            process.communicate()


def test_network_namespaces_that_stay_are_noticed() -> None:
    before = leaks.settled_namespace()
    with contextlib.ExitStack() as planted:
        for _ in range(10):  # more of them only where others on this host end as many meanwhile
            planted.enter_context(namespaces(40))
            with contextlib.suppress(AssertionError):
                leaks.no_more_namespaces(before)
                continue
            break
        else:
            pytest.fail("400 namespaces that stay were not noticed")


def test_no_namespace_that_ended_is_taken_for_one_that_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leaks, "SETTLE_S", 60.0)  # what others have for a while does not count
    before = leaks.settled_namespace()
    with namespaces(40):
        pass
    leaks.no_more_namespaces(before)


@pytest.mark.parametrize(("grown", "noticed"), [(0.04, False), (0.06, True)])
def test_memory_may_grow_by_a_twentieth(grown: float, noticed: bool) -> None:
    before = {"owner": 100_000, "launcher": 3_000}
    after = {"owner": round(100_000 * (1 + grown)), "launcher": 3_000 + leaks.RSS_LEAST_KIB}
    if noticed:
        with pytest.raises(AssertionError, match="owner grew"):
            leaks.no_more_memory(before, after)
    else:
        leaks.no_more_memory(before, after)
