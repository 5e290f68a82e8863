"""The launcher's life: it is watched, replaced, and takes what it made with it."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC240, ASYNC251

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import trio
import trio.lowlevel
import trio.testing

from sandbox import census, client, group, process
from sandbox.client import Launcher
from sandbox.spec import (
    DEFAULT_ENVIRONMENT,
    Command,
    Ended,
    LauncherLost,
    Lost,
    SandboxUnavailable,
    Spec,
    Started,
    Unkillable,
)
from tests.sandbox.support import (
    IDS,
    PATIENCE_S,
    inits,
    launched,
    new_tag,
    no_survivors,
    poll,
    read_line,
    run_to_end,
    tagged,
    wait_until,
)


@pytest.mark.guarantee("S1", "S10")
async def test_a_lost_launcher_ends_its_sandboxes_and_is_replaced() -> None:
    async with launched() as launcher:
        first = launcher.pid
        waiting = await launcher.prepare(Spec())
        running = await launcher.prepare(Spec())
        assert isinstance(await running.dispatch(Command(("/bin/sleep", "60"))), Started)
        os.kill(first, signal.SIGKILL)
        with trio.fail_after(PATIENCE_S):
            for sandbox in (waiting, running):
                end = await sandbox.leader_exited()
                assert isinstance(end, Lost)
                assert end.proof == "pidfd"
                assert not census.alive(sandbox.identity)
                await sandbox.aclose()
            await poll(lambda: launcher.pid != first)
        end, out, _ = await run_to_end(launcher, ("/bin/echo", "again"))
        assert isinstance(end, Ended)
        assert out == b"again\n"


async def test_asking_a_lost_launcher_is_refused_as_such() -> None:
    async with launched() as launcher:
        os.kill(launcher.pid, signal.SIGSTOP)
        lost = []

        async def ask(spec: Spec) -> None:
            try:
                await launcher.prepare(spec)
            except LauncherLost as error:
                lost.append(error)

        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(ask, Spec(tasks_max=10 + n))
            await trio.testing.wait_all_tasks_blocked()
            os.kill(launcher.pid, signal.SIGKILL)
        assert len(lost) == 3


async def test_a_silent_launcher_is_lost_though_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PING_S", 0.05)
    async with launched() as launcher:
        first = launcher.pid
        sandbox = await launcher.prepare(Spec())
        assert isinstance(await sandbox.dispatch(Command(("/bin/sleep", "60"))), Started)
        os.kill(first, signal.SIGSTOP)
        with trio.fail_after(PATIENCE_S):
            assert isinstance(await sandbox.leader_exited(), Lost)
            await poll(lambda: launcher.pid != first)
        await sandbox.aclose()
        await (await launcher.prepare(Spec())).discard()


async def test_requests_that_fill_its_queue_do_not_hide_a_silent_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "PREPARE_S", PATIENCE_S)
    async with launched() as launcher:
        await (await launcher.prepare(Spec())).discard()
        os.kill(launcher.pid, signal.SIGSTOP)
        lost = []

        async def ask(spec: Spec) -> None:
            try:
                await launcher.prepare(spec)
            except (LauncherLost, SandboxUnavailable) as error:
                lost.append(error)

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                for n in range(150):
                    nursery.start_soon(ask, Spec(tasks_max=1000 + n))
                await trio.testing.wait_all_tasks_blocked()
                monkeypatch.setattr(process, "PING_S", 0.05)
        assert all(isinstance(error, LauncherLost) for error in lost)
        assert len(lost) == 150


@pytest.mark.guarantee("S10")
async def test_a_daemon_that_was_stopped_does_not_take_it_for_its_launchers_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "PING_S", 0.1)
    async with launched() as launcher:
        first = launcher.pid
        sandbox = await launcher.prepare(Spec())
        waits = ("/bin/sh", "-c", "read x <&3")
        assert isinstance(await sandbox.dispatch(Command(waits)), Started)
        time.sleep(0.1 * process.SILENT_PINGS * 1.5)  # the loop stands still
        await trio.lowlevel.checkpoint()
        await sandbox.channel.send_all(b"\n")
        end = await sandbox.leader_exited()
        assert isinstance(end, Ended)
        assert (end.how, end.status, launcher.pid) == ("exited", 0, first)
        await sandbox.aclose()


async def test_a_launcher_that_keeps_dying_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BOOT", "pass")
    monkeypatch.setattr(client, "RESTARTS_MAX", 2)
    launcher = Launcher.start(**IDS)
    with trio.fail_after(PATIENCE_S), pytest.raises(LauncherLost, match="times in a row"):
        await launcher.run()


@pytest.mark.guarantee("S10")
async def test_a_launcher_that_served_is_replaced_however_often_it_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "RESTARTS_MAX", 2)
    async with launched() as launcher:
        for _ in range(5):
            await (await launcher.prepare(Spec())).discard()
            killed = launcher.pid
            os.kill(killed, signal.SIGKILL)
            await poll(lambda dead=killed: launcher.pid != dead)


async def test_preparing_has_a_deadline_and_a_late_answer_leaves_no_init(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "PREPARE_S", 0.2)
    async with launched() as launcher:
        os.kill(launcher.pid, signal.SIGSTOP)
        with pytest.raises(SandboxUnavailable, match="5 s"):
            await launcher.prepare(Spec())
        os.kill(launcher.pid, signal.SIGCONT)
        monkeypatch.setattr(client, "PREPARE_S", 5)
        await (await launcher.prepare(Spec())).discard()
        wait_until(lambda: not inits(launcher))


async def test_cancelling_a_preparation_leaves_nothing() -> None:
    async with launched() as launcher:
        for n in range(20):
            with trio.move_on_after(n * 0.0005):
                await (await launcher.prepare(Spec())).discard()
        await (await launcher.prepare(Spec())).discard()
        await poll(lambda: not inits(launcher))


async def test_nothing_is_left_open_after_many_attempts() -> None:
    async with launched() as launcher:
        await run_to_end(launcher, ("/bin/true",))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            await run_to_end(launcher, ("/bin/true",))
            failing = await launcher.prepare(Spec())
            await failing.dispatch(Command(("/nowhere",)))
            await failing.discard()
            await (await launcher.prepare(Spec())).discard()
        assert len(os.listdir("/proc/self/fd")) == before
        await poll(lambda: not inits(launcher))
        if os.access(f"/proc/{launcher.pid}/fd", os.R_OK):  # an ordinary user may not look
            assert len(os.listdir(f"/proc/{launcher.pid}/fd")) <= 6


@pytest.mark.guarantee("S7")
async def test_the_launcher_cannot_be_looked_into_and_has_no_capability_to_spare() -> None:
    async with launched() as launcher:
        await (await launcher.prepare(Spec())).discard()
        status = Path(f"/proc/{launcher.pid}/status").read_text()
        assert status.startswith("Name:\teffectd-launch\n")
        effective = next(line for line in status.splitlines() if line.startswith("CapEff"))
        allowed = 0xC0 if os.getuid() == 0 else 0  # SETGID and SETUID, to write the id maps
        assert int(effective.split()[1], 16) == allowed
        assert Path(f"/proc/{launcher.pid}/environ").stat().st_uid == 0


async def test_a_flood_of_output_does_not_grow_the_daemon() -> None:
    from sandbox.output import BoundedOutput

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        flood = "head -c 100000000 /dev/zero | tr '\\0' x; printf end"
        command = Command(("/bin/sh", "-c", flood), DEFAULT_ENVIRONMENT)
        assert isinstance(await sandbox.dispatch(command), Started)
        kept = BoundedOutput(1000, 1000)
        before = resident()
        async for chunk in sandbox.stdout:
            kept.add(chunk)
        assert resident() - before < 20 << 20
        assert isinstance(await sandbox.leader_exited(), Ended)
        await sandbox.aclose()
    assert kept.total == 100_000_003
    assert (kept.head, kept.tail[-4:], kept.omitted) == (b"x" * 1000, b"xend", 99_998_003)


@pytest.mark.guarantee("S1")
async def test_a_tree_that_cannot_die_is_called_unkillable_until_it_does(adversary: str) -> None:
    freezer = Path("/sys/fs/cgroup/freezer")
    if not os.access(freezer, os.W_OK):
        pytest.skip("needs root and a version 1 freezer, the one way to hold off SIGKILL at will")
    cage = freezer / f"effectd-test-{os.getpid()}"
    cage.mkdir()
    tag = new_tag()
    try:
        async with launched() as launcher:
            sandbox = await launcher.prepare(Spec(closure=(adversary,)))
            command = Command((adversary, "tree", "30000", tag))
            assert isinstance(await sandbox.dispatch(command), Started)
            await read_line(sandbox.stdout)
            for pid in tagged(tag):
                (cage / "cgroup.procs").write_text(str(pid))
            (cage / "freezer.state").write_text("FROZEN")
            end = await sandbox.kill(0.2)
            assert isinstance(end, Unkillable)
            assert str(sandbox.identity.init_pid) in end.detail
            assert census.alive(sandbox.identity)
            assert await census.end_survivor(sandbox.identity, 0.2) is None
            (cage / "freezer.state").write_text("THAWED")
            assert await census.end_survivor(sandbox.identity) == "pidfd"
            assert not tagged(tag)
            await sandbox.discard()
    finally:
        (cage / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (cage / "cgroup.procs").read_text())
        cage.rmdir()


@pytest.mark.guarantee("S3")
async def test_what_is_written_on_sigterm_is_kept() -> None:
    last = "head -c 60000 /dev/zero; echo marker; exit 3"
    script = f"trap '{last}' TERM; echo up; while :; do sleep 1; done"
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        command = Command(("/bin/sh", "-c", script), DEFAULT_ENVIRONMENT)
        assert isinstance(await sandbox.dispatch(command), Started)
        await read_line(sandbox.stdout)
        data = bytearray()

        async def drain() -> None:
            async for chunk in sandbox.stdout:
                data.extend(chunk)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            # SIGTERM ends the sleep as well, so the shell's trap runs at once.
            end = await group.end(sandbox, grace_ms=5_000, ask=True)
        await sandbox.aclose()
    assert isinstance(end, Ended)
    assert (end.how, end.status) == ("exited", 3)
    assert data.endswith(b"marker\n")
    assert len(data) == 60_007


@pytest.mark.guarantee("S10")
@pytest.mark.long
async def test_a_handler_outlives_idle_worker_threads() -> None:
    """PDEATHSIG follows the thread that forked; trio's idle workers end after ten seconds."""
    tag = new_tag()
    with no_survivors(tag):
        async with launched() as launcher:
            await trio.to_thread.run_sync(time.sleep, 0.01)
            first = launcher.pid
            os.kill(first, signal.SIGKILL)
            with trio.fail_after(PATIENCE_S):
                await poll(lambda: launcher.pid != first)
            sandbox = await launcher.prepare(Spec())
            assert isinstance(await sandbox.dispatch(Command(("/bin/sleep", "13"))), Started)
            end = await sandbox.leader_exited()
            assert isinstance(end, Ended)
            assert (end.how, end.status) == ("exited", 0)
            await sandbox.aclose()
