"""What a restart does with the processes that its journal names: ours are ended, no stranger is.

A killed daemon leaves no process, so the journal is edited: each attempt's record names a process
that the test made. One is like an init of ours that survived; the others are strangers.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from sandbox.census import boot_id, identify
from supervisor.core.record import (
    AttemptStarted,
    By,
    EffectAnnounced,
    Identity,
    ReconcilerStarted,
)
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
    """A daemon that found all these processes in its journal when it started.

    Without a `slot`, a cgroup as a sandbox has it, nothing is contained by one.
    """

    def __init__(self, daemon: Daemon, survivor: int, strangers: list[int], slot: Slot | None):
        self.daemon = daemon
        self.survivor = survivor
        self.stranger, self.asker = strangers
        self.slot = slot
        genuine = _identity(self.stranger)
        stale = attrs.evolve(genuine, start_time=genuine.start_time - 1)
        self.named = {
            "survivor": _identity(survivor),
            # The record says that this very process is the init: it is alive, and it is not ours.
            "forged": genuine,
            # Its pid was given to a stranger since.
            "recycled": stale,
            "rebooted": attrs.evolve(genuine, boot_id="11111111-2222-3333-4444-555555555555"),
            # Its cgroup was removed, or never was one of a sandbox's.
            "removed": attrs.evolve(stale, cgroup="/sys/fs/cgroup/none/runs/slot-1-1"),
            "misled": attrs.evolve(stale, cgroup="/sys/fs/cgroup"),
            "asked": stale,
        }
        if slot is not None:
            self.named["contained"] = attrs.evolve(stale, cgroup=str(slot.path))
        self.ids = {tag: self._held(tag) for tag in self.named}
        daemon.kill9()
        daemon.gone(within_s=10)
        daemon.world.release()
        self._edit()
        daemon.start()
        # Looked at before anything else: this must be so when the first request is answered.
        watched = [survivor, *strangers, *([slot.pid] if slot is not None else [])]
        self.alive_at_the_answer = {pid: alive(pid) for pid in watched}

    def _held(self, tag: str) -> str:
        name = "check" if tag == "asked" else "never"
        self.daemon.world.hold(f"{tag} made {name}")
        given = {"tag": tag, "effects": [name]}
        operation_id: str = self.daemon.api.dispatch(name, given).ok()["operation_id"]
        self.daemon.world.arrived(f"{tag} made {name}")
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
        journals.write(directory, [*frames, (self._asking(frames),)])

    def _asking(self, frames: journals.Frames) -> ReconcilerStarted:
        """A reconciler that ran as well, if one believes the record: it names a stranger."""
        (announced,) = [
            record
            for frame in frames
            for record in frame
            if isinstance(record, EffectAnnounced) and record.operation_id == self.ids["asked"]
        ]
        one = (announced.at, announced.operation_id, announced.effect_id)
        return ReconcilerStarted(*one, 1, By(0, 1), _identity(self.asker))

    def proven_dead(self, tag: str) -> bool:
        (attempt,) = self.daemon.api.operation(self.ids[tag])["call"]["attempts"]
        dead: bool = attempt["proven_dead"]
        return dead

    def refusals(self, tag: str) -> list[str]:
        found = self.daemon.api.recovery(self.ids[tag])["refusals"]
        return [refusal["code"] for refusal in found]


def _identity(pid: int) -> Identity:
    known = identify(pid, None)
    return Identity(known.init_pid, known.start_time, known.boot_id)


@attrs.frozen
class Slot:
    """A cgroup with one process in it that nobody is an init for."""

    path: Path
    pid: int


@contextlib.contextmanager
def new_slot(pid: int) -> Iterator[Slot | None]:
    """None where no cgroup can be made."""
    mounts = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
    mount = next((one for one in mounts if (one / "cgroup.procs").exists()), mounts[-1])
    root = mount / f"effectd-survivor-{os.getpid()}"
    path = root / "runs" / f"slot-{time.monotonic_ns()}-0"
    try:
        path.mkdir(parents=True)
        (path / "cgroup.procs").write_text(str(pid))
    except OSError:
        yield None
        return
    try:
        yield Slot(path, pid)
    finally:
        kill(pid)
        # Whoever proved its death may have removed the cgroup as well.
        wait_until(lambda: not _populated(path), 60)
        for folder in (path, path.parent, root):
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()


def _populated(path: Path) -> bool:
    try:
        return "populated 1" in (path / "cgroup.events").read_text()
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def aftermath() -> Iterator[Aftermath]:
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(new_daemon())
        parent = stack.enter_context(started(_INIT))
        strangers = [stack.enter_context(started(_STRANGER)) for _ in range(3)]
        slot = stack.enter_context(new_slot(strangers.pop()))
        wait_until(lambda: children(parent), what="the namespace's first process")
        (survivor,) = children(parent)
        yield Aftermath(daemon.start(), survivor, strangers, slot)


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
    assert aftermath.alive_at_the_answer[aftermath.asker] is True
    for tag in ("recycled", "rebooted", "removed", "misled"):
        assert aftermath.proven_dead(tag), tag


@pytest.mark.guarantee("R2", "E10")
def test_what_only_a_cgroup_holds_together_is_ended_and_proven_dead_by_it(
    aftermath: Aftermath,
) -> None:
    if aftermath.slot is None:
        pytest.skip("only root may make a cgroup here")
    assert aftermath.alive_at_the_answer[aftermath.slot.pid] is False
    assert aftermath.proven_dead("contained")


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
    doubted = api.status()["sandbox"]["not_proven_dead"]
    assert doubted[0]["call_id"] == effect["call_id"]
    for tag in ("survivor", "recycled", "rebooted"):
        assert aftermath.refusals(tag) == ["EffectOutcomeUnknown"]


@pytest.mark.guarantee("E10", "R2")
def test_a_reconciler_that_is_not_proven_dead_refuses_its_own_lineage_until_it_is_attested(
    aftermath: Aftermath,
) -> None:
    api, one = aftermath.daemon.api, aftermath.ids["asked"]
    assert aftermath.refusals("asked") == ["PreviousAttemptAlive"]
    recovery = api.recovery(one)
    (effect,) = recovery["effects"]
    doubted = api.status()["sandbox"]["not_proven_dead"]
    assert {"call_id": effect["call_id"], "effect_id": effect["effect_id"]} in doubted
    asked = api.post(f"effects/{effect['effect_id']}/reconcile", {})
    assert (asked.code, str(aftermath.asker) in asked.document["detail"]) == (
        "PreviousAttemptAlive",
        True,
    )
    offer = offered(recovery, "attest-dead")
    assert offer is not None
    api.post(offer["path"].removeprefix("/v1/"), {"reason": "it is a stranger"}).ok()
    assert aftermath.refusals("asked") == ["ReconciliationRequired"]
    answer = api.post(f"effects/{effect['effect_id']}/reconcile", {"wait_ms": 60_000}).ok()
    assert answer["call"]["effects"][0]["settled_by"] == "reconciler"


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
    daemon.kill9()
    kill(aftermath.stranger)
    wait_until(lambda: not alive(aftermath.stranger))
    daemon.start()
    assert aftermath.proven_dead("forged")
    assert daemon.api.status()["sandbox"]["not_proven_dead"] == []
    recovery = daemon.api.recovery(one)
    assert offered(recovery, "attest-dead") is None
    assert daemon.api.resume(one).ok()["state"] == "succeeded"
