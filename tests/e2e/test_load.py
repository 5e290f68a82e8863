"""A daemon whose disk is full, whose segments turn over, or who is stopped for a while."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.support.api import Answer, NoAnswer, fresh_id
from tests.e2e.support.clients import every
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.journal_files import NEVER, SMALL, held, segments, verified
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import Service, needs_root, new_service
from tests.filesystems import KINDS, fill, require, small

# --- a full disk ---------------------------------------------------------------------------


@contextlib.contextmanager
def full_disk_to_be(service: Service, kind: str) -> Iterator[None]:
    """A file system of that kind, the service's state on it, with room for some segments."""
    require(kind)
    service.state.mkdir(mode=0o700)
    with small(kind, service.state, service.base / "image"):
        service.state.chmod(0o700)
        yield


def filled(service: Service) -> list[str]:
    """Ask for new work until it is refused; what was accepted and waits for room to start."""
    waiting: list[str] = []
    for _ in range(200):
        answer = service.api.dispatch("plain", {"pad": "x" * 12_000}, wait_ms=200)
        if answer.code is not None:
            assert (answer.status, answer.code) == (503, "JournalUnavailable")
            assert answer.document["retryable"] is True
            return waiting
        if answer.document["state"] != "succeeded":
            assert answer.status == 202, answer
            waiting.append(answer.document["operation_id"])
    raise AssertionError("the disk never was full")


@pytest.mark.guarantee("J8")
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_refuses_new_work_never_an_outcome_and_heals_by_itself(kind: str) -> None:
    with new_service(tables=SMALL) as service, full_disk_to_be(service, kind):
        service.start()
        finishing, cancelled = held(service, "finishing"), held(service, "cancelled")
        ballast = service.state / "ballast"
        fill(ballast)

        waiting = filled(service)
        told = service.api.status()
        assert told["state"] == "degraded"
        assert [one["code"] for one in told["degraded"]] == ["JournalUnavailable"]
        assert "No space left" in told["degraded"][0]["detail"]

        service.world.release("finishing made never")
        ended = service.api.final(finishing["operation_id"])
        assert ended["state"] == "succeeded"
        assert ended["call"]["effects"][0]["outcome"] == "applied"
        assert service.api.cancel(cancelled["operation_id"]).ok()["state"] == "unknown"
        (effect,) = service.api.operation(cancelled["operation_id"])["call"]["effects"]
        service.api.resolve(effect["effect_id"], "applied").ok()
        assert service.api.operation(cancelled["operation_id"])["state"] == "cancelled"
        waiting += filled(service)

        pid = service.pid
        ballast.unlink()
        wait_until(lambda: service.api.status()["state"] == "ready", 60, "it heals")
        assert service.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
        assert {service.api.final(one)["state"] for one in waiting} <= {"succeeded"}
        assert service.pid == pid
        assert service.stop() == 0
        assert verified(service) == 0


@pytest.mark.guarantee("J8", "R2")
@pytest.mark.parametrize("kind", ["tmpfs", "ext4", pytest.param("xfs", marks=pytest.mark.long)])
def test_a_daemon_that_dies_on_a_full_disk_starts_again_on_it(kind: str) -> None:
    with new_service(tables=SMALL) as service, full_disk_to_be(service, kind):
        service.start()
        interrupted = held(service, "interrupted")
        fill(service.state / "ballast")
        filled(service)
        for _ in range(2):
            service.restart()
        document = service.api.operation(interrupted["operation_id"])
        assert document["state"] == "unknown"
        (effect,) = document["call"]["effects"]
        service.api.resolve(effect["effect_id"], "applied", result={"receipt": 1}).ok()
        filled(service)
        (service.state / "ballast").unlink()
        wait_until(lambda: service.api.status()["state"] == "ready", 60, "it heals")
        assert service.api.resume(interrupted["operation_id"]).ok()["state"] == "succeeded"
        assert service.world.arrivals("interrupted made never") == 1


# --- load ----------------------------------------------------------------------------------


class Load:
    """Clients that dispatch one after the other, and remember what they were told."""

    def __init__(self, daemon: Daemon, pad: int = 0, count: int = 6) -> None:
        self.acknowledged: dict[str, str] = {}
        self.unsure: list[str] = []
        self.faults: list[Answer] = []
        self._daemon = daemon
        self._pad = "x" * pad
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def ask(self, tag: str) -> None:
        given = {"tag": tag, "pad": self._pad, **NEVER}
        try:
            answer = self._daemon.api.dispatch("never", given, tag, wait_ms=60_000)
        except NoAnswer:
            self.unsure.append(tag)
            raise
        if answer.code is not None:
            self.faults.append(answer)
        else:
            self.acknowledged[tag] = answer.document["operation_id"]

    def _run(self) -> None:
        with contextlib.suppress(NoAnswer):
            while not self._stop.is_set():
                self.ask(fresh_id("load"))

    def until(self, claim: Callable[[], object], what: str) -> None:
        wait_until(claim, 60, what)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@needs_root("a configuration file makes segments small, and under one the own uid holds nothing")
@pytest.mark.guarantee("J1", "J2", "R8")
def test_segments_turn_over_under_load_and_a_restart_in_between_loses_nothing() -> None:
    with new_service(tables=SMALL) as service:
        service.start()
        before = Load(service, pad=4_000)
        before.until(lambda: len(segments(service)) >= 3, "segments turn over")
        service.kill9()
        before.end()
        service.start()
        for tag in before.unsure.copy():
            before.ask(tag)
        after = Load(service, pad=4_000)
        more = len(segments(service)) + 2
        after.until(lambda: len(segments(service)) >= more, "segments turn over again")
        after.end()
        assert before.faults == after.faults == []
        known = {one["request_id"]: one for one in every(service.api, "operations")}
        acknowledged = {**before.acknowledged, **after.acknowledged}
        assert {tag: known[tag]["operation_id"] for tag in acknowledged} == acknowledged
        assert all(known[tag]["state"] == "succeeded" for tag in after.acknowledged)
        assert set(service.world.everything().values()) == {1}
        wide = service.api.dispatch("plain", {"pad": "x" * 20_000}, "wide")
        assert wide.code == "LimitExceeded"
        assert service.api.dispatch("plain", {}, "wide", wait_ms=60_000).status == 200
        assert service.stop() == 0
        assert verified(service) == 0


@pytest.mark.guarantee("R9", "B6")
def test_a_daemon_that_is_stopped_for_a_second_under_load_loses_nothing(daemon: Daemon) -> None:
    load = Load(daemon)
    load.until(lambda: len(load.acknowledged) >= 6, "the load is there")
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        time.sleep(1)
        seen = len(load.acknowledged)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    load.until(lambda: len(load.acknowledged) >= seen + 6, "it goes on")
    load.end()
    assert load.faults == []
    assert load.unsure == []
    known = {one["request_id"]: one for one in every(daemon.api, "operations")}
    assert {tag: known[tag]["operation_id"] for tag in known} == load.acknowledged
    assert {one["state"] for one in known.values()} == {"succeeded"}
    assert sorted(daemon.world.everything().values()) == [1] * len(known)
