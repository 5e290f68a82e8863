"""Nothing leaves the daemon before it is on disk: no answer, no spawn, no leave, no *recorded*.

The daemon's disk is made to wait at each of these moments. A daemon that acts too early has all the
time of QUIET_S to do so; a right one cannot, however long it is waited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.e2e.support.api import Answer
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.disk import Disk
from tests.e2e.support.settle import settle

QUIET_S = 0.3


class Slow:
    """A daemon whose disk is in the test's hands."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.disk = Disk(daemon)
        daemon.start()

    def held_at(self, tag: str, point: str) -> str:
        """An operation of `never` whose handler waits at this point; its id."""
        self.daemon.world.hold(f"{tag} {point}")
        given = {"tag": tag, "effects": ["never"], "meet": ["before never", "told never"]}
        operation_id: str = self.daemon.api.dispatch("never", given).ok()["operation_id"]
        self.daemon.world.arrived(f"{tag} {point}")
        return operation_id

    def stuck(self) -> None:
        """Somebody waits for the disk, and has waited long enough to be caught acting."""
        self.disk.reached()
        time.sleep(QUIET_S)

    def crash(self) -> None:
        """The daemon dies, and with the power goes what no sync had returned for."""
        self.daemon.kill9()
        self.daemon.gone(within_s=10)
        self.disk.cut_power()
        self.daemon.world.release()
        self.daemon.start()

    def recover(self) -> None:
        """After a test, failed or not: everything goes on."""
        self.disk.release()
        self.daemon.world.release()
        if not self.daemon.running:
            self.daemon.start()


@pytest.fixture(scope="module")
def _module_slow() -> Iterator[Slow]:
    with new_daemon() as daemon:
        yield Slow(daemon)


@pytest.fixture
def slow(_module_slow: Slow) -> Iterator[Slow]:
    yield _module_slow
    _module_slow.recover()


@pytest.mark.guarantee("J1", "R8", "B1")
def test_no_request_is_acknowledged_and_nothing_starts_before_it_is_on_disk(slow: Slow) -> None:
    answers: list[Answer] = []
    given = {"tag": "asked", "meet": ["end"]}
    asking = threading.Thread(
        target=lambda: answers.append(slow.daemon.api.dispatch("plain", given))
    )
    slow.disk.hold()
    asking.start()
    slow.stuck()
    assert answers == []
    assert slow.daemon.handler_processes() == []
    slow.disk.release()
    asking.join()
    assert [answer.status for answer in answers] == [202]
    slow.daemon.world.arrived("asked end")


@pytest.mark.guarantee("J1", "R13")
def test_no_resume_is_answered_or_started_before_it_is_on_disk(slow: Slow) -> None:
    operation_id = slow.held_at("resumed", "before never")
    slow.daemon.restart()
    slow.daemon.world.release()
    answers: list[Answer] = []
    recovery = slow.daemon.api.recovery(operation_id)
    (offer,) = (one for one in recovery["actions"] if one["action"] == "resume")
    body = {**offer["body"], "resume_request_id": "resumed-1"}
    path = offer["path"].removeprefix("/v1/")
    asking = threading.Thread(target=lambda: answers.append(slow.daemon.api.post(path, body)))
    slow.disk.hold()
    asking.start()
    slow.stuck()
    assert answers == []
    assert slow.daemon.handler_processes() == []
    slow.disk.release()
    asking.join()
    assert [answer.status for answer in answers] == [202]
    assert slow.daemon.api.final(operation_id)["state"] == "succeeded"


@pytest.mark.guarantee("E1", "E3")
def test_leave_is_given_only_when_the_announcement_is_on_disk(slow: Slow) -> None:
    world = slow.daemon.world
    operation_id = slow.held_at("leave", "before never")
    slow.disk.hold()
    world.release()
    slow.stuck()
    assert world.changes("leave") == {}
    slow.disk.release()
    world.arrived("leave told never")
    assert slow.daemon.api.final(operation_id)["state"] == "succeeded"
    assert list(world.changes("leave").values()) == [1]


@pytest.mark.guarantee("J1", "E6")
def test_recorded_is_said_only_when_the_confirmation_is_on_disk(slow: Slow) -> None:
    world = slow.daemon.world
    operation_id = slow.held_at("recorded", "made never")
    slow.disk.hold()
    world.release()
    slow.stuck()
    assert world.arrivals("recorded told never") == 0
    slow.disk.release()
    world.arrived("recorded told never")
    assert slow.daemon.api.final(operation_id)["state"] == "succeeded"


@pytest.mark.guarantee("E1", "J1", "R4")
def test_power_lost_before_an_announcement_was_on_disk_loses_only_what_never_was(
    slow: Slow,
) -> None:
    operation_id = slow.held_at("cut early", "before never")
    slow.disk.hold()
    slow.daemon.world.release()
    slow.stuck()
    slow.crash()
    recovery = slow.daemon.api.recovery(operation_id)
    assert (recovery["state"], recovery["effects"]) == ("interrupted", [])
    assert slow.daemon.world.changes("cut early") == {}
    done = settle(slow.daemon.api, slow.daemon.world, operation_id)
    assert done["state"] == "succeeded"
    assert list(slow.daemon.world.changes("cut early").values()) == [1]


@pytest.mark.guarantee("E6", "J1")
def test_power_lost_before_a_confirmation_was_on_disk_leaves_the_effect_unknown(slow: Slow) -> None:
    operation_id = slow.held_at("cut late", "made never")
    slow.disk.hold()
    slow.daemon.world.release()
    slow.stuck()
    slow.crash()
    recovery = slow.daemon.api.recovery(operation_id)
    (effect,) = recovery["effects"]
    assert (recovery["state"], effect["outcome"]) == ("unknown", "unknown")
    done = settle(slow.daemon.api, slow.daemon.world, operation_id)
    assert (done["state"], slow.daemon.world.made(effect["effect_id"])) == ("succeeded", 1)
