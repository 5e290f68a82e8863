"""What the kill ladder does when init cannot do it alone: helped, left to its proof, or killed."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC220

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import attrs
import pytest
import trio

from sandbox import census, group, tree
from sandbox.client import Sandbox
from sandbox.spec import Command, Ended, Lost, Spec, Started, Unkillable
from tests.e2e.support.freezer import Freezer, new_freezer
from tests.sandbox.support import (
    PATIENCE_S,
    launched,
    new_tag,
    no_survivors,
    poll,
    read_line,
    tagged,
    wait_until,
)

GRACE_MS = 50
BARE = Spec(level="none", trusted=True, tasks_max=600)


@contextlib.asynccontextmanager
async def started(
    adversary: str, mode: str, stay: str = "!30000", cgroup_root: Path | None = None, **spec: object
) -> AsyncIterator[tuple[Sandbox, str]]:
    """A sandbox in which an adversary has set up its tree, and that tree's tag."""
    tag = new_tag()
    if spec.get("level") != "none":
        spec["closure"] = (adversary,)
    with no_survivors(tag):
        async with launched(cgroup_root=cgroup_root) as launcher:
            sandbox = await launcher.prepare(Spec(**spec))
            try:
                command = Command((adversary, mode, stay, tag))
                assert isinstance(await sandbox.dispatch(command), Started)
                assert await read_line(sandbox.stdout) == b"ready\n"
                yield sandbox, tag
            finally:
                await sandbox.discard()


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    with new_freezer() as freezer:
        yield freezer


# --- an init that does not answer ------------------------------------------------------------


@pytest.mark.guarantee("S1", "S3")
async def test_a_stopped_init_is_killed_with_its_tree_and_not_waited_for(
    adversary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(group, "DEADLINE_S", 2 * PATIENCE_S)
    async with started(adversary, "comet") as (sandbox, tag):
        os.kill(sandbox.identity.init_pid, signal.SIGSTOP)
        wait_until(lambda: census.state(sandbox.identity.init_pid) == "T")
        began = time.monotonic()
        end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
        took = time.monotonic() - began
        assert isinstance(end, Lost)
        assert end.proof == "pidfd"
        assert not tagged(tag)
        assert took < GRACE_MS / 1_000 + group.PATIENCE_S


@pytest.mark.guarantee("S3")
async def test_the_tree_of_an_init_that_cannot_answer_is_killed_around_it(
    adversary: str, freezer: Freezer
) -> None:
    """Frozen, it stands for one that gets no processor: it answers when it can again."""
    async with started(adversary, "tree") as (sandbox, tag):
        freezer.freeze([sandbox.identity.init_pid])
        ends: list[object] = []

        async def end() -> None:
            ends.append(await group.end(sandbox, grace_ms=GRACE_MS, ask=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            await poll(lambda: not tagged(tag))
            assert not ends, "its tree is dead, and nobody has proven it yet"
            assert not sandbox.heard()
            freezer.thaw()
        (ended,) = ends
        assert isinstance(ended, Ended | Lost)
        # Where the machine was too busy to thaw it in time it was killed, like any other.
        if isinstance(ended, Ended):
            assert (ended.how, ended.status, ended.proof) == ("signaled", 9, "record")


@pytest.mark.guarantee("S3")
@pytest.mark.parametrize("state", ["R", "D"])
async def test_only_an_init_that_waits_for_a_processor_is_waited_for_longer(
    adversary: str, freezer: Freezer, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Frozen, it stands for one that gets none, and for one that is held up by something else."""
    monkeypatch.setattr(group, "PATIENCE_S", 0.1)
    monkeypatch.setattr(census, "state", lambda _: state)
    async with started(adversary, "tree") as (sandbox, tag):
        freezer.freeze([sandbox.identity.init_pid])
        ends: list[object] = []

        async def end() -> None:
            ends.append(await group.end(sandbox, grace_ms=GRACE_MS, ask=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            await poll(lambda: not tagged(tag))
            if state == "R":
                await trio.sleep(3 * group.PATIENCE_S)
            else:
                await poll(lambda: killed(sandbox.identity.init_pid))
            freezer.thaw()
    assert isinstance(ends[0], Ended if state == "R" else Lost), ends


def killed(pid: int) -> bool:
    """Whether SIGKILL waits for that process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask & 1 << (signal.SIGKILL - 1) for mask in pending)


async def test_an_order_that_was_read_is_heard(adversary: str) -> None:
    async with started(adversary, "deaf") as (sandbox, _):
        os.kill(sandbox.identity.init_pid, signal.SIGSTOP)
        wait_until(lambda: census.state(sandbox.identity.init_pid) == "T")
        sandbox.terminate()
        assert not sandbox.heard()
        os.kill(sandbox.identity.init_pid, signal.SIGCONT)
        await poll(sandbox.heard)


@pytest.mark.guarantee("S1")
async def test_an_order_that_init_never_read_does_not_cost_its_record(adversary: str) -> None:
    """The kernel says a reset in front of a message whose sender left ours unread."""
    async with started(adversary, "tree", "-") as (sandbox, _):
        init = sandbox.identity.init_pid
        leader = next(tree.descendants(init))
        os.kill(init, signal.SIGSTOP)
        wait_until(lambda: census.state(init) == "T")
        await sandbox.channel.send_all(b"!")
        wait_until(lambda: census.state(leader) == "Z")
        for _ in range(10):
            sandbox.terminate()  # one of them is read before it sees that its leader has gone
        os.kill(init, signal.SIGCONT)
        wait_until(lambda: not census.alive(sandbox.identity))
        with trio.fail_after(PATIENCE_S):
            end = await sandbox.leader_exited()
        assert isinstance(end, Ended), end
        assert (end.how, end.status) == ("exited", 7)


# --- what the kernel does not let die --------------------------------------------------------


@pytest.mark.guarantee("S1")
async def test_what_is_frozen_is_unkillable_until_it_is_thawed_and_then_tells_how_it_ended(
    adversary: str, freezer: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "DEADLINE_S", 0.3)
    async with started(adversary, "setsid", "30000") as (sandbox, tag):
        leader, child = sorted(tagged(tag))
        freezer.freeze([child])
        for _ in range(2):
            end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
            assert isinstance(end, Unkillable)
            assert f"pid {child} is in state D" in end.detail
            assert end.identity == sandbox.identity
            assert census.alive(end.identity)
            assert tagged(tag) == [child]
            assert leader != child
        freezer.thaw()
        end = await group.end(sandbox, grace_ms=GRACE_MS, ask=False)
        assert isinstance(end, Ended)
        assert (end.how, end.status, end.killed) == ("signaled", signal.SIGTERM, 1)
        assert not tagged(tag)


@pytest.mark.guarantee("S1")
async def test_a_frozen_init_is_unkillable_until_it_is_thawed(
    adversary: str, freezer: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "DEADLINE_S", 0.3)
    monkeypatch.setattr(group, "PATIENCE_S", 0.1)
    async with started(adversary, "tree") as (sandbox, tag):
        freezer.freeze([*tagged(tag), sandbox.identity.init_pid])
        for _ in range(2):
            assert isinstance(await group.end(sandbox, grace_ms=GRACE_MS, ask=True), Unkillable)
        freezer.thaw()
        end = await group.end(sandbox, grace_ms=GRACE_MS, ask=False)
        assert isinstance(end, Lost)
        assert not tagged(tag)


@pytest.mark.guarantee("S1")
async def test_what_a_stranger_traces_is_unkillable_until_the_stranger_lets_go(
    adversary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dead, it is a zombie that only its tracer can reap: nobody can prove anything before."""
    monkeypatch.setattr(group, "DEADLINE_S", 0.3)
    async with started(adversary, "setsid", "30000") as (sandbox, tag):
        child = max(tagged(tag))
        with stranger_who_traces(child) as tracer:
            end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
            assert isinstance(end, Unkillable)
            assert f"pid {child} is in state Z, held by its tracer {tracer}" in end.detail
        end = await group.end(sandbox, grace_ms=GRACE_MS, ask=False)
        assert isinstance(end, Ended)
        assert (end.how, end.status) == ("signaled", signal.SIGTERM)


@contextlib.contextmanager
def stranger_who_traces(pid: int) -> Iterator[int]:
    """Who seized that process, and never looks after it."""
    script = (
        "import ctypes, sys, time\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"print(libc.ptrace(0x4206, {pid}, None, None), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"0\n":
                pytest.skip("this host lets nobody trace what is not his child (yama)")
            yield process.pid
        finally:
            process.kill()


# --- by cgroup -------------------------------------------------------------------------------


# A frozen tree needs nothing but SIGKILL: what it took beyond that is the machine's.
IN_TIME_S = 0.05
KINDS = [{}, {"level": "none", "trusted": True}]


@contextlib.contextmanager
def frozen(cgroup: Path) -> Iterator[None]:
    """Version 2 lets SIGKILL through, and nothing else."""
    (cgroup / "cgroup.freeze").write_text("1")
    try:
        wait_until(lambda: "frozen 1" in (cgroup / "cgroup.events").read_text())
        yield
    finally:
        if cgroup.exists():
            (cgroup / "cgroup.freeze").write_text("0")


async def best(take: Callable[[], Awaitable[float]], in_time_s: float) -> float:
    """The first of ten that is in time, or the shortest: other work is not what this is about."""
    took: list[float] = []
    while not took or (took[-1] > in_time_s and len(took) < 10):
        took.append(await take())
    return min(took)


@pytest.mark.guarantee("S1", "S3")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", [False, True])
async def test_a_frozen_tree_is_killed_at_once(
    adversary: str, cgroup_root: Path, kind: dict[str, object], around: bool
) -> None:
    async def killed() -> float:
        async with started(adversary, "tree", cgroup_root=cgroup_root, **kind) as (sandbox, tag):
            cgroup = Path(sandbox.identity.cgroup or "")
            with frozen(cgroup.parent if around else cgroup):
                began = trio.current_time()
                assert not isinstance(await sandbox.kill(), Unkillable)
                took = trio.current_time() - began
                assert not tagged(tag)
            return took

    assert await best(killed, IN_TIME_S) < IN_TIME_S


@pytest.mark.guarantee("S1", "S3")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_frozen_cgroup_is_thawed_when_all_have_their_sigkill_and_init_tells(
    adversary: str, cgroup_root: Path, kind: dict[str, object]
) -> None:
    async with started(adversary, "tree", cgroup_root=cgroup_root, **kind) as (sandbox, tag):
        with frozen(Path(sandbox.identity.cgroup or "")):
            end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
            assert isinstance(end, Ended)
            assert (end.how, end.status) == ("signaled", 9)
            assert not tagged(tag)


@pytest.mark.guarantee("S1", "S3")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cgroup_that_is_frozen_with_those_around_it_is_not_waited_for(
    adversary: str, cgroup_root: Path, kind: dict[str, object]
) -> None:
    async def ended() -> float:
        async with started(adversary, "tree", cgroup_root=cgroup_root, **kind) as (sandbox, tag):
            with frozen(Path(sandbox.identity.cgroup or "").parent):
                began = trio.current_time()
                end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
                took = trio.current_time() - began
                assert isinstance(end, Lost)
                assert not tagged(tag)
            return took

    assert await best(ended, group.PATIENCE_S / 2) < group.PATIENCE_S / 2


@pytest.mark.guarantee("S1", "S3")
@pytest.mark.parametrize("mode", ["comet", "comet_setsid", "comet12", "storm", "exec_comet"])
async def test_without_a_pid_namespace_no_chain_of_forks_outruns_the_end(
    adversary: str, cgroup_root: Path, mode: str
) -> None:
    for _ in range(3):
        bare = {"level": "none", "trusted": True, "tasks_max": 600}
        async with started(adversary, mode, cgroup_root=cgroup_root, **bare) as (sandbox, tag):
            end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
            assert not tagged(tag)
            assert isinstance(end, Ended), end
            assert (end.how, end.status, end.proof) == ("signaled", 9, "cgroup")


# --- nobody else ----------------------------------------------------------------------------


@pytest.mark.guarantee("S10")
async def test_only_what_is_below_that_init_is_killed_around_it(adversary: str) -> None:
    async with (
        started(adversary, "daemon") as (sandbox, tag),
        started(adversary, "daemon") as (
            other,
            spared,
        ),
    ):
        before = sorted(tagged(spared))
        assert await tree.kill_all_but_init(sandbox.identity, hold_still=False)
        end = await sandbox.leader_exited()
        assert isinstance(end, Ended)
        assert (end.how, end.status) == ("signaled", 9)
        assert not tagged(tag)
        assert sorted(tagged(spared)) == before
        assert census.alive(other.identity)


@pytest.mark.guarantee("S10")
async def test_a_recycled_init_is_nobodys_parent() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60 & wait"]) as stranger:
        try:
            wait_until(lambda: list(tree.descendants(stranger.pid)))
            truth = census.identify(stranger.pid, None)
            forged = attrs.evolve(truth, start_time=truth.start_time + 1)
            assert await tree.kill_all_but_init(forged, hold_still=False)
            assert stranger.poll() is None
            (child,) = tree.descendants(stranger.pid)
            assert census.state(child) in "SR"
        finally:
            for pid in [*tree.descendants(stranger.pid), stranger.pid]:
                os.kill(pid, signal.SIGKILL)
