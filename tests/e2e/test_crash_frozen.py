"""Survivors that really cannot be killed: found, said, held apart from the rest, and let go of.

They are frozen while they run, so that the SIGKILL of their daemon's death waits with them.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.support.api import Document, NoAnswer
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.freezer import Freezer, new_freezer
from tests.e2e.support.processes import alive, children, parent, tagged, wait_until
from tests.e2e.support.settle import offered

# It is looked for every second; the rest is for a machine that does other things as well.
NOTICED_S = 60.0


class Frozen:
    """A daemon that was killed beside an attempt and a reconciler that no signal reaches.

    `attempt` and `asked` are the operations of these two, `other` one that was interrupted too.
    """

    def __init__(self, daemon: Daemon, freezer: Freezer) -> None:
        self.daemon = daemon
        self.freezer = freezer
        api, world = daemon.api, daemon.world
        asked = api.dispatch("check-call", {"tag": "asked", "exit": 1}, wait_ms=60_000).ok()
        assert asked["state"] == "unknown", asked
        self.asked: str = asked["operation_id"]
        self.effect_id: str = asked["call"]["effects"][0]["effect_id"]
        world.hold(f"find {self.effect_id}", "frozen made never", "other made never")
        asking = threading.Thread(target=self._ask)
        asking.start()
        world.arrived(f"find {self.effect_id}")
        self.attempt, self.other = self._held("frozen"), self._held("other")
        (attempt,) = api.operation(self.attempt)["call"]["attempts"]
        (asker,) = tagged(f"{daemon.programs}/find")
        self.inits = {attempt["init_pid"], parent(asker)}
        launcher = daemon.launcher
        # Whoever stands between an init and the launcher cannot reap it either.
        between = {parent(init) for init in self.inits} - {launcher}
        inside = {child for init in self.inits for child in children(init)}
        freezer.freeze(inside | self.inits | between)
        self.frozen = self.inits | between
        daemon.kill9()
        asking.join()
        daemon.start()

    def _ask(self) -> None:
        with contextlib.suppress(NoAnswer):
            self.daemon.api.post(f"effects/{self.effect_id}/reconcile", {"wait_ms": 0})

    def _held(self, tag: str) -> str:
        given = {"tag": tag, "effects": ["never"]}
        operation_id: str = self.daemon.api.dispatch("never", given).ok()["operation_id"]
        self.daemon.world.arrived(f"{tag} made never")
        return operation_id

    def refusals(self, operation_id: str) -> list[str]:
        found = self.daemon.api.recovery(operation_id)["refusals"]
        return [refusal["code"] for refusal in found]

    def doubted(self) -> list[Document]:
        found: list[Document] = self.daemon.api.status()["sandbox"]["not_proven_dead"]
        return found


@pytest.fixture(scope="module")
def frozen() -> Iterator[Frozen]:
    with new_daemon() as daemon, new_freezer() as freezer:
        yield Frozen(daemon.start(), freezer)


@pytest.mark.guarantee("E10", "R2")
def test_what_cannot_be_killed_refuses_its_own_lineage_and_is_shown(frozen: Frozen) -> None:
    assert all(alive(pid) for pid in frozen.inits)
    api = frozen.daemon.api
    doubted = frozen.doubted()
    assert [one.get("effect_id") for one in doubted] == [None, frozen.effect_id]
    assert frozen.refusals(frozen.attempt) == ["PreviousAttemptAlive"]
    assert frozen.refusals(frozen.asked) == ["PreviousAttemptAlive"]
    assert frozen.refusals(frozen.other) == ["EffectOutcomeUnknown"]
    recovery = api.recovery(frozen.asked)
    assert offered(recovery, "reconcile") is None
    assert offered(recovery, "attest-dead") is not None
    assert api.post(f"effects/{frozen.effect_id}/reconcile", {}).code == "PreviousAttemptAlive"
    assert api.resume(frozen.asked).code == "PreviousAttemptAlive"
    assert api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"


@pytest.mark.long
@pytest.mark.guarantee("E10", "S1")
def test_a_reconciler_that_cannot_be_killed_is_shown_and_refuses_its_lineage() -> None:
    with new_daemon() as daemon, new_freezer() as freezer:
        manifest = (daemon.handlers / "check-call.toml").read_text()
        daemon.add_handler("stuck", manifest.replace("timeout_ms = 10_000", "timeout_ms = 3_000"))
        api = daemon.start().api
        asked = api.dispatch("stuck", {"exit": 1}, wait_ms=60_000).ok()
        effect_id = asked["call"]["effects"][0]["effect_id"]
        daemon.world.hold(f"find {effect_id}")
        path = f"effects/{effect_id}/reconcile"
        asking = threading.Thread(target=api.post, args=(path, {"wait_ms": 0}))
        asking.start()
        daemon.world.arrived(f"find {effect_id}")
        (leader,) = tagged(f"{daemon.programs}/find")
        freezer.freeze([leader, parent(leader)])
        wait_until(lambda: api.status()["sandbox"]["unkillable"], 60, "it is said")
        (stuck,) = api.status()["sandbox"]["unkillable"]
        assert stuck["effect_id"] == effect_id
        assert api.resume(asked["operation_id"]).code == "PreviousAttemptAlive"
        assert api.post(path, {}).code == "PreviousAttemptAlive"
        freezer.thaw()
        asking.join()
        assert api.status()["sandbox"]["unkillable"] == []
        daemon.world.release()
        answer = api.post(path, {"wait_ms": 60_000}).ok()
        assert answer["call"]["effects"][0]["settled_by"] == "reconciler"


@pytest.mark.guarantee("S1")
def test_a_stop_leaves_behind_what_cannot_be_killed_and_says_so() -> None:
    with new_daemon() as daemon, new_freezer() as freezer:
        api = daemon.start().api
        daemon.world.hold("t made never")
        given = {"tag": "t", "effects": ["never"]}
        operation_id = api.dispatch("never", given).ok()["operation_id"]
        daemon.world.arrived("t made never")
        (attempt,) = api.operation(operation_id)["call"]["attempts"]
        init = attempt["init_pid"]
        freezer.freeze({init, *children(init)})
        assert daemon.process is not None
        for number in (signal.SIGTERM, signal.SIGINT):  # the second: do not wait for handlers
            daemon.process.send_signal(number)
            wait_until(lambda: api.status()["state"] == "draining", 60, "it drains")
        assert daemon.process.wait(90) == 0
        assert "left behind, not proven dead" in daemon.log
        freezer.thaw()
        wait_until(lambda: not alive(init), 60, "it is dead")
        daemon.start()
        assert api.operation(operation_id)["state"] == "unknown"


@pytest.mark.guarantee("E10", "R11")
def test_a_survivor_that_dies_later_frees_its_lineage_by_itself(frozen: Frozen) -> None:
    frozen.daemon.world.release()
    frozen.freezer.thaw()
    wait_until(lambda: not frozen.doubted(), NOTICED_S, "their deaths are recorded")
    wait_until(lambda: not any(alive(pid) for pid in frozen.frozen), 60, "all are dead")
    assert frozen.refusals(frozen.attempt) == ["EffectOutcomeUnknown"]
    api = frozen.daemon.api
    # No answer of the old reconciler was taken: the provider is asked again.
    answer = api.post(f"effects/{frozen.effect_id}/reconcile", {"wait_ms": 60_000}).ok()
    assert answer["call"]["effects"][0]["settled_by"] == "reconciler"
    (attempt,) = api.operation(frozen.attempt)["call"]["attempts"]
    assert attempt["proven_dead"] is True
