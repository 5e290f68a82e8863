"""What a restart does with the processes that its journal names: ours are ended, no stranger is.

A killed daemon leaves no process, so the journal is edited: each attempt's record names a process
that the test made. One is like an init of ours that survived; the others are strangers.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import attrs
import pytest

from sandbox.census import boot_id, identify
from supervisor.core.record import AttemptStarted, Identity
from tests.e2e.support import journals
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import alive, children, kill, wait_until
from tests.e2e.support.settle import offered

# It is the first process of a pid namespace and ignores what it can, as a stuck init would.
_INIT = ("unshare", "--user", "--pid", "--fork", "sh", "-c", "trap '' TERM HUP INT; sleep 999; :")
_STRANGER = ("sleep", "999")


@contextlib.contextmanager
def started(command: tuple[str, ...]) -> Iterator[int]:
    """The command's pid. It and its children are killed at the end, by pid."""
    with subprocess.Popen(command) as process:
        try:
            yield process.pid
        finally:
            for pid in (*children(process.pid), process.pid):
                kill(pid)


class Aftermath:
    """A daemon that found all these processes in its journal when it started."""

    def __init__(self, daemon: Daemon, survivor: int, stranger: int) -> None:
        self.daemon = daemon
        self.survivor = survivor
        self.stranger = stranger
        genuine = _identity(stranger)
        self.named = {
            "survivor": _identity(survivor),
            # The record says that this very process is the init: it is alive, and it is not ours.
            "forged": genuine,
            # Its pid was given to a stranger since.
            "recycled": attrs.evolve(genuine, start_time=genuine.start_time - 1),
            "rebooted": attrs.evolve(genuine, boot_id="11111111-2222-3333-4444-555555555555"),
        }
        self.ids = {tag: self._held(tag) for tag in self.named}
        daemon.kill9()
        daemon.gone(within_s=10)
        daemon.world.release()
        self._edit()
        daemon.start()
        # Looked at before anything else: this must be so when the first request is answered.
        self.alive_at_the_answer = {pid: alive(pid) for pid in (survivor, stranger)}

    def _held(self, tag: str) -> str:
        self.daemon.world.hold(f"{tag} made never")
        given = {"tag": tag, "effects": ["never"]}
        operation_id: str = self.daemon.api.dispatch("never", given).ok()["operation_id"]
        self.daemon.world.arrived(f"{tag} made never")
        return operation_id

    def _edit(self) -> None:
        tags = {operation_id: tag for tag, operation_id in self.ids.items()}
        directory = self.daemon.state / "journal"
        frames = [
            tuple(
                attrs.evolve(record, identity=self.named[tags[record.operation_id]])
                if isinstance(record, AttemptStarted)
                else record
                for record in frame
            )
            for frame in journals.read(directory)
        ]
        journals.write(directory, frames)

    def proven_dead(self, tag: str) -> bool:
        (attempt,) = self.daemon.api.operation(self.ids[tag])["call"]["attempts"]
        dead: bool = attempt["proven_dead"]
        return dead


def _identity(pid: int) -> Identity:
    known = identify(pid, None)
    return Identity(known.init_pid, known.start_time, known.boot_id)


@pytest.fixture(scope="module")
def aftermath() -> Iterator[Aftermath]:
    with new_daemon() as daemon, started(_INIT) as parent, started(_STRANGER) as stranger:
        wait_until(lambda: children(parent), what="the namespace's first process")
        (survivor,) = children(parent)
        yield Aftermath(daemon.start(), survivor, stranger)


@pytest.mark.guarantee("R2", "S2")
def test_a_survivor_is_dead_before_the_restart_answers_anybody(aftermath: Aftermath) -> None:
    assert aftermath.named["survivor"].boot_id == boot_id()
    assert aftermath.alive_at_the_answer[aftermath.survivor] is False
    assert aftermath.proven_dead("survivor")


@pytest.mark.guarantee("R2", "S10")
def test_a_process_that_is_not_ours_is_never_signalled_whatever_the_journal_says(
    aftermath: Aftermath,
) -> None:
    assert aftermath.alive_at_the_answer[aftermath.stranger] is True
    assert aftermath.proven_dead("recycled")
    assert aftermath.proven_dead("rebooted")


@pytest.mark.guarantee("E9", "E10", "R2")
def test_what_is_not_proven_dead_refuses_its_own_lineage_and_no_other(aftermath: Aftermath) -> None:
    api, one = aftermath.daemon.api, aftermath.ids["forged"]
    assert not aftermath.proven_dead("forged")
    recovery = api.recovery(one)
    assert [refusal["code"] for refusal in recovery["refusals"]] == ["PreviousAttemptAlive"]
    assert {"attest-dead", "resolve"} <= set(recovery["allowed_actions"])
    (effect,) = recovery["effects"]
    assert api.resume(one).code == "PreviousAttemptAlive"
    assert api.resolve(effect["effect_id"], "not_applied").code == "PreviousAttemptAlive"
    (doubted,) = api.status()["sandbox"]["not_proven_dead"]
    assert doubted["call_id"] == effect["call_id"]
    for tag in ("survivor", "recycled", "rebooted"):
        codes = [refusal["code"] for refusal in api.recovery(aftermath.ids[tag])["refusals"]]
        assert codes == ["EffectOutcomeUnknown"]


@pytest.mark.guarantee("E9", "E10")
def test_applied_may_be_said_of_what_is_not_proven_dead(aftermath: Aftermath) -> None:
    api, one = aftermath.daemon.api, aftermath.ids["forged"]
    (effect,) = api.recovery(one)["effects"]
    resolved = api.resolve(effect["effect_id"], "applied", result={"receipt": 1}).ok()
    assert resolved["call"]["effects"][0]["outcome"] == "applied"
    # Known, and still not handed back beside a process that may be at work.
    assert api.resume(one).code == "PreviousAttemptAlive"


@pytest.mark.guarantee("E10", "R2")
def test_the_next_restart_proves_what_has_died_meanwhile(aftermath: Aftermath) -> None:
    daemon, one = aftermath.daemon, aftermath.ids["forged"]
    kill(aftermath.stranger)
    wait_until(lambda: not alive(aftermath.stranger))
    daemon.restart()
    assert aftermath.proven_dead("forged")
    assert daemon.api.status()["sandbox"]["not_proven_dead"] == []
    recovery = daemon.api.recovery(one)
    assert offered(recovery, "attest-dead") is None
    assert daemon.api.resume(one).ok()["state"] == "succeeded"
