"""Survivors are found by an identity that is theirs alone, and strangers are left alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import attrs
import pytest
import trio

from sandbox import census
from sandbox.spec import Command, Identity, Spec, Started
from tests.sandbox.support import launched, new_tag, no_survivors, read_line, tagged


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.guarantee("R2", "E10")
async def test_a_survivor_is_found_ended_and_proven_dead(adversary: str) -> None:
    tag = new_tag()
    with no_survivors(tag):
        async with launched() as launcher:
            sandbox = await launcher.prepare(Spec(closure=(adversary,)))
            command = Command((adversary, "deaf", "30000", tag))
            assert isinstance(await sandbox.dispatch(command), Started)
            await read_line(sandbox.stdout)
            assert census.alive(sandbox.identity)
            assert await census.end_survivor(sandbox.identity) == "pidfd"
            assert not tagged(tag)
            assert not census.alive(sandbox.identity)
            assert await census.end_survivor(sandbox.identity) == "pidfd", (
                "asking twice is harmless"
            )
            await sandbox.discard()


@pytest.mark.guarantee("S10", "R2")
async def test_ending_a_survivor_spares_whoever_has_the_same_template(adversary: str) -> None:
    hit, spared = new_tag(), new_tag()
    with no_survivors(hit), no_survivors(spared):
        async with launched() as launcher:
            sandboxes = []
            for tag in (hit, spared):
                sandbox = await launcher.prepare(Spec(closure=(adversary,)))
                command = Command((adversary, "deaf", "30000", tag))
                assert isinstance(await sandbox.dispatch(command), Started)
                await read_line(sandbox.stdout)
                sandboxes.append(sandbox)
            one, other = (sandbox.identity for sandbox in sandboxes)
            assert len({census.stat_fields(init.init_pid)[1] for init in (one, other)}) == 1
            before = sorted(tagged(spared))
            # Its own namespace is empty then, though the template's around it is not.
            assert await census.end_survivor(one) == "pidfd"
            assert not tagged(hit)
            assert census.alive(other)
            assert sorted(tagged(spared)) == before
            for sandbox in sandboxes:
                await sandbox.discard()


@pytest.mark.guarantee("S10")
async def test_a_forged_or_recycled_record_never_reaches_a_stranger(
    stranger: subprocess.Popen[bytes],
) -> None:
    truth = census.identify(stranger.pid, None)
    for identity in (
        attrs.evolve(truth, start_time=truth.start_time + 1),  # the pid was recycled
        attrs.evolve(truth, boot_id="0" * 36),  # another boot's
        attrs.evolve(truth, init_pid=1 << 22),  # no such process
    ):
        assert not census.alive(identity)
        assert await census.end_survivor(identity, 0.05) == "pidfd"
    # Even the whole truth about a process that is no init of a sandbox.
    assert await census.end_survivor(truth, 0.05) is None
    forged_cgroup = attrs.evolve(truth, boot_id=truth.boot_id, cgroup="/sys/fs/cgroup")
    await census.end_survivor(forged_cgroup, 0.05)
    assert stranger.poll() is None


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen(["true"])
    identity = census.identify(process.pid, None)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not census.alive(identity)
    process.wait()


def test_a_name_with_brackets_and_spaces_is_not_misread(tmp_path: os.PathLike[str]) -> None:
    program = os.path.join(tmp_path, "a) Z 1 (b")
    os.symlink("/bin/sleep", program)
    process = subprocess.Popen([program, "60"])
    try:
        identity = Identity(process.pid, census.start_time(process.pid) or 0, census.boot_id())
        assert census.alive(identity)
        assert "state S" in census.describe(process.pid) or "state R" in census.describe(
            process.pid
        )
    finally:
        process.kill()
        process.wait()
    assert census.start_time(process.pid) is None


async def test_two_may_ask_for_the_same_end() -> None:
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        assert isinstance(await sandbox.dispatch(Command(("/bin/sleep", "60"))), Started)
        ends = []

        async def watch() -> None:
            ends.append(await sandbox.leader_exited())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            nursery.start_soon(watch)
            nursery.start_soon(sandbox.kill)
            nursery.start_soon(sandbox.kill)
        assert ends[0] == ends[1]
        await sandbox.discard()
