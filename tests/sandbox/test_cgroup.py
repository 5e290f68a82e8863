"""With a delegated cgroup: a second way to kill, a second proof; alone, the whole containment."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC240

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from sandbox import census, group, wire
from sandbox.cgroups import Cgroup
from sandbox.client import Launcher
from sandbox.spec import Command, Ended, Lost, NotStarted, SandboxUnavailable, Spec, Started
from tests.sandbox.support import (
    HANDLER_UID,
    launched,
    new_tag,
    no_survivors,
    poll,
    read_line,
    run_to_end,
    tagged,
    wait_until,
)
from tests.sandbox.test_endings import GRACE_MS

# Without a user namespace and a pids controller the limit counts every process of this uid.
BARE = Spec(level="none", trusted=True, tasks_max=600)


@pytest.mark.guarantee("S1")
async def test_a_sandbox_is_born_in_a_cgroup_of_its_own_that_goes_with_it(
    cgroup_root: Path, adversary: str
) -> None:
    tag = new_tag()
    with no_survivors(tag):
        async with launched(cgroup_root=cgroup_root) as launcher:
            sandbox = await launcher.prepare(Spec(closure=(adversary,)))
            assert "cgroup" in sandbox.layers
            path = Path(sandbox.identity.cgroup or "")
            assert path.parent == cgroup_root / "runs"
            command = Command((adversary, "daemon", "30000", tag))
            assert isinstance(await sandbox.dispatch(command), Started)
            await read_line(sandbox.stdout)
            inside = {int(line) for line in (path / "cgroup.procs").read_text().split()}
            assert inside == {sandbox.identity.init_pid, *tagged(tag)}
            assert await census.end_survivor(sandbox.identity) == "cgroup"
            assert not tagged(tag)
            assert isinstance(await sandbox.leader_exited(), Lost)
            await sandbox.aclose()
            assert not path.exists()
            await (await launcher.prepare(Spec())).discard()
        assert list((cgroup_root / "runs").glob("slot-*")) == [], "the templates' own as well"


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize("mode", ["tree", "daemon", "comet_setsid", "storm", "stopped", "deaf"])
async def test_without_namespaces_the_cgroup_ends_the_tree(
    cgroup_root: Path, adversary: str, mode: str
) -> None:
    tag = new_tag()
    with no_survivors(tag):
        async with launched(cgroup_root=cgroup_root) as launcher:
            for stay, how in (("-", "exited"), ("30000", "signaled")):
                sandbox = await launcher.prepare(BARE)
                assert "pid_namespace" not in sandbox.layers
                command = Command((adversary, mode, stay, tag))
                assert isinstance(await sandbox.dispatch(command), Started)
                await read_line(sandbox.stdout)
                if how == "exited":
                    await sandbox.channel.send_all(b"!")
                    end = await sandbox.leader_exited()
                else:
                    end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
                assert not tagged(tag)
                # What forks faster than a list of pids can be signalled has to be ended with
                # its init, and then nobody saw how the leader left: dead all the same.
                if mode not in {"storm", "comet_setsid"} or how == "exited":
                    assert isinstance(end, Ended)
                    assert (end.how, end.proof) == (how, "cgroup")
                assert not census.alive(sandbox.identity)
                await sandbox.aclose()


@pytest.mark.guarantee("S2")
async def test_without_namespaces_init_ends_the_tree_when_its_launcher_dies(
    cgroup_root: Path, adversary: str
) -> None:
    tag = new_tag()
    with no_survivors(tag):
        async with launched(cgroup_root=cgroup_root) as launcher:
            sandbox = await launcher.prepare(BARE)
            command = Command((adversary, "daemon", "30000", tag))
            assert isinstance(await sandbox.dispatch(command), Started)
            await read_line(sandbox.stdout)
            os.kill(launcher.pid, signal.SIGKILL)
            wait_until(lambda: not tagged(tag))
            assert isinstance(await sandbox.leader_exited(), Lost)
            await sandbox.aclose()


async def test_level_none_keeps_the_hosts_view_and_the_handlers_uid(cgroup_root: Path) -> None:
    async with launched(cgroup_root=cgroup_root) as launcher:
        script = "id -u; ls -d /proc/1; grep NoNewPrivs /proc/self/status; id -G"
        end, out, _ = await run_to_end(launcher, ("/bin/sh", "-c", script), spec=BARE)
        assert isinstance(end, Ended)
        lines = out.decode().splitlines()
        assert lines[:2] == [str(HANDLER_UID), "/proc/1"]
        assert lines[2].split() == ["NoNewPrivs:", "0"]
        if os.getuid() == 0:
            assert lines[3] == str(launcher.gid)
        sandbox = await launcher.prepare(BARE)
        answer = await sandbox.dispatch(Command(("/bin/true",), secrets={"a": b""}))
        assert isinstance(answer, NotStarted)
        await sandbox.discard()


@pytest.mark.guarantee("S9")
async def test_level_none_needs_trust_and_a_cgroup(cgroup_root: Path) -> None:
    async with launched(cgroup_root=cgroup_root) as launcher:
        with pytest.raises(SandboxUnavailable, match="trusted"):
            await launcher.prepare(Spec(level="none"))
    async with launched() as launcher:
        with pytest.raises(SandboxUnavailable, match="Delegate=yes"):
            await launcher.prepare(BARE)


def test_a_directory_that_is_no_cgroup_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="Delegate=yes") as caught:
        Launcher.start(handler_uid=1, handler_gid=1, cgroup_root=tmp_path)
    assert str(tmp_path) in caught.value.cause


def test_a_recorded_cgroup_must_look_like_one_of_ours() -> None:
    for forged in (
        "/sys/fs/cgroup/system.slice",
        "/sys/fs/cgroup/runs/slot-1-1/../..",
        "slot-1-1",
        "",
    ):
        assert Cgroup.recorded(forged) is None
    assert Cgroup.recorded("/sys/fs/cgroup/a/runs/slot-12-3") is not None


@pytest.mark.guarantee("S1", "S2")
async def test_a_slot_that_is_closed_with_something_unread_ends_the_tree(
    cgroup_root: Path, adversary: str
) -> None:
    """A socket that is closed with something unread resets the other end instead of ending it."""
    tag = new_tag()
    spec = Spec(level="none", trusted=True, tasks_max=600, closure=(adversary,))
    with no_survivors(tag):
        async with launched(cgroup_root=cgroup_root) as launcher:
            sandbox = await launcher.prepare(spec)
            sandbox._send(request_of(adversary, "daemon", "30000", tag), b"")
            await read_line(sandbox.stdout)  # it has started, and its init has said so
            assert tagged(tag)
            sandbox._slot.close()
            await poll(lambda: not tagged(tag))
            assert await sandbox.kill() == "cgroup"
            with contextlib.suppress(OSError):
                await sandbox.aclose()


def request_of(*argv: str) -> bytes:
    """A dispatch of ``argv`` with no environment and no secret."""
    words = wire.pack_list([word.encode() for word in argv])
    return wire.DISPATCH + wire.pack_list([words, wire.pack_list([]), wire.pack_list([])])
