"""Sandboxes that stand ready: given out once, made up for, given up when out of date."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from sandbox import pool, wire
from sandbox.client import Launcher, Sandbox
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Lost, Spec, Started
from tests.sandbox.support import PATIENCE_S, children, launched, poll, read_line, run_to_end

SH = "/bin/sh"


@pytest.fixture
def folder(open_folder: Path) -> Iterator[Path]:
    """A directory that handlers can see, outside the private ones."""
    place = Path(tempfile.mkdtemp(prefix="pool-", dir=open_folder))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


async def filled(launcher: Launcher, count: int) -> None:
    await poll(lambda: launcher.ready == count)


async def started(launcher: Launcher, script: str, spec: Spec | None = None) -> Sandbox:
    sandbox = await launcher.prepare(spec or Spec())
    command = Command((SH, "-c", script), DEFAULT_ENVIRONMENT)
    assert isinstance(await sandbox.dispatch(command), Started)
    return sandbox


async def said(launcher: Launcher, script: str, spec: Spec | None = None) -> str:
    end, out, err = await run_to_end(launcher, (SH, "-c", script), spec=spec)
    assert isinstance(end, Ended), end
    assert (end.how, end.status) == ("exited", 0), err
    return out.decode().strip()


async def test_a_ready_sandbox_is_given_out_once_and_made_up_for() -> None:
    async with launched(pool=2, pool_total=8) as launcher:
        first = await launcher.prepare(Spec())
        await first.discard()
        await filled(launcher, 2)
        given = [await launcher.prepare(Spec()) for _ in range(2)]
        assert launcher.statistics.hits == 2
        assert len({one.identity.init_pid for one in (first, *given)}) == 3
        for one in given:
            await one.discard()
        await filled(launcher, 2)
        assert (launcher.statistics.misses, launcher.statistics.templates) == (1, 1)


async def test_no_pool_means_that_nothing_is_prepared_ahead() -> None:
    async with launched() as launcher:
        for _ in range(3):
            await said(launcher, "true")
        assert (launcher.ready, launcher.statistics.hits) == (0, 0)
        (template,) = children(launcher.pid)
        await poll(lambda: not children(template))


async def test_a_short_attempt_is_not_disturbed_and_a_long_one_is_prepared_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "QUIET_S", 3_600)
    async with launched(pool=1, pool_total=8) as launcher:
        sandbox = await started(launcher, "echo up; read x <&3")
        await read_line(sandbox.stdout)
        assert launcher.ready == 0
        monkeypatch.setattr(pool, "QUIET_S", 0)
        other = await launcher.prepare(Spec(tasks_max=5))  # whatever happens wakes it
        await filled(launcher, 2)
        await other.discard()
        await sandbox.discard()


async def test_all_profiles_together_hold_no_more_than_the_total_and_the_oldest_gives_way() -> None:
    async with launched(pool=2, pool_total=3) as launcher:
        specs = [Spec(tasks_max=10 + n) for n in range(4)]
        for spec in specs:
            await said(launcher, "true", spec)
            await poll(lambda: launcher.ready >= 2)
            assert launcher.ready <= 3
        newest = launcher._pool._profiles[specs[-1]]
        await poll(lambda: len(newest.ready) == 2)
        assert launcher.ready == 3
        assert launcher.statistics.evicted > 0
        hits = launcher.statistics.hits
        await said(launcher, "true", specs[-1])
        assert launcher.statistics.hits == hits + 1, "the last used is kept"
        await said(launcher, "true", specs[0])
        assert launcher.statistics.hits == hits + 1, "the first used was given up"


async def test_a_template_that_was_given_up_ends_with_its_last_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "TEMPLATES_MAX", 1)
    async with launched() as launcher:
        sandbox = await started(launcher, "echo up; read x <&3; echo $x")
        await read_line(sandbox.stdout)
        await said(launcher, "true", Spec(tasks_max=5))
        assert len(children(launcher.pid)) == 2
        await sandbox.channel.send_all(b"alive\n")
        assert await read_line(sandbox.stdout) == b"alive\n"
        end = await sandbox.leader_exited()
        assert isinstance(end, Ended)
        await sandbox.discard()
        await poll(lambda: len(children(launcher.pid)) == 1)


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("kind", ["closure", "read", "write"])
async def test_what_was_replaced_by_rename_is_seen_by_the_next_attempt(
    folder: Path, kind: str
) -> None:
    """A bind mount holds the old inode, so a ready sandbox would run what was deployed before."""
    current = folder / "current"
    for version in ("old", "new"):
        (folder / version).mkdir()
        (folder / version / "tool").write_text(version)
    (folder / "old").rename(current)
    spec = Spec(**{kind: (str(current),)})
    async with launched(pool=1, pool_total=2) as launcher:
        assert await said(launcher, f"cat {current}/tool", spec) == "old"
        await filled(launcher, 1)
        (current / "tool").write_text("edited in place")
        assert await said(launcher, f"cat {current}/tool", spec) == "edited in place"
        assert launcher.statistics.stale == 0
        current.rename(folder / "before")
        (folder / "new").rename(current)
        assert await said(launcher, f"cat {current}/tool", spec) == "new"
        assert launcher.statistics.stale == 1


async def test_a_link_that_was_flipped_is_followed_anew(folder: Path) -> None:
    for version in ("one", "two"):
        (folder / version).mkdir()
        (folder / version / "tool").write_text(version)
    link = folder / "current"
    link.symlink_to("one")
    spec = Spec(closure=(str(link), str(folder / "one"), str(folder / "two")))
    followed = Spec(read=(str(link),))
    async with launched(pool=1, pool_total=4) as launcher:
        for each in (spec, followed):
            assert await said(launcher, f"cat {link}/tool", each) == "one"
        await filled(launcher, 2)
        other = folder / "next"
        other.symlink_to("two")
        other.rename(link)
        for each in (spec, followed):
            assert await said(launcher, f"cat {link}/tool", each) == "two"


async def test_nothing_waits_longer_than_the_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "AGE_MAX_S", 0.3)
    async with launched(pool=1, pool_total=2) as launcher:
        await said(launcher, "true")
        await poll(lambda: launcher.ready == 0 and not children(launcher.pid))
        assert launcher.statistics.stale == 1
        assert await said(launcher, "echo again") == "again"


async def test_a_ready_sandbox_that_was_killed_is_not_given_out() -> None:
    async with launched(pool=2, pool_total=2) as launcher:
        await said(launcher, "true")
        await filled(launcher, 2)
        (template,) = children(launcher.pid)
        for init in children(template):
            os.kill(init, signal.SIGKILL)
        await poll(lambda: not children(template))
        assert await said(launcher, "echo alive") == "alive"


@pytest.mark.guarantee("S2", "S10")
async def test_a_template_that_was_killed_takes_its_attempts_alone() -> None:
    async with launched(pool=1, pool_total=4) as launcher:
        sandbox = await started(launcher, "setsid sleep 60 & echo up; sleep 60")
        await read_line(sandbox.stdout)
        (template,) = children(launcher.pid)
        other = await started(launcher, "echo up; read x <&3; exit 5", Spec(tasks_max=5))
        await read_line(other.stdout)
        os.kill(template, signal.SIGKILL)
        with trio.fail_after(PATIENCE_S):
            end = await sandbox.leader_exited()
        assert isinstance(end, Lost)
        assert end.proof == "pidfd"
        await sandbox.discard()
        assert await said(launcher, "echo again") == "again"
        await other.channel.send_all(b"\n")
        end = await other.leader_exited()
        assert isinstance(end, Ended)
        assert end.status == 5
        await other.discard()


async def test_a_lost_attempt_makes_its_template_suspect_with_all_that_stood_ready() -> None:
    # A killed template ends its sandboxes one after the other, and none of the rest shows it yet.
    async with launched(pool=1, pool_total=4) as launcher:
        sandbox = await started(launcher, "echo up; sleep 60")
        await read_line(sandbox.stdout)
        await filled(launcher, 1)
        os.kill(sandbox.identity.init_pid, signal.SIGKILL)
        assert isinstance(await sandbox.leader_exited(), Lost)
        assert launcher.ready == 0
        await sandbox.discard()
        assert await said(launcher, "echo again") == "again"
        assert launcher.statistics.templates == 2


async def test_what_a_lost_launcher_had_ready_is_never_given_out() -> None:
    async with launched(pool=2, pool_total=2) as launcher:
        await said(launcher, "true")
        await filled(launcher, 2)
        first = launcher.pid
        os.kill(first, signal.SIGKILL)
        await poll(lambda: launcher.pid != first)
        assert launcher.ready == 0
        assert await said(launcher, "echo again") == "again"


async def test_a_new_size_discards_what_was_ready_before() -> None:
    async with launched(pool=2, pool_total=4) as launcher:
        await said(launcher, "true")
        await filled(launcher, 2)
        launcher.resize(0, 0)
        assert launcher.ready == 0
        await poll(lambda: not children(launcher.pid))
        launcher.resize(1, 1)
        await said(launcher, "true")
        await filled(launcher, 1)


async def test_many_requests_at_once_share_one_template() -> None:
    async with launched(pool=2, pool_total=8) as launcher, trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(said, launcher, "true")
    assert launcher.statistics.templates == 1


# The cookie of a socket's network namespace (SO_NETNS_COOKIE): the kernel gives it once, where the
# namespace's number is given again.
COOKIE = "print(int.from_bytes(socket.socket().getsockopt(1, 71, 8), 'little'), flush=True)"
NET = f'/usr/bin/python3 -ISc "import socket; {COOKIE}"'


@pytest.mark.guarantee("S5")
async def test_a_network_namespace_is_used_again_only_when_it_was_left_clean() -> None:
    lingering = (
        "import socket; listener = socket.create_server(('127.0.0.1', 0));"
        " one = socket.create_connection(listener.getsockname()); two, _ = listener.accept();"
        f" one.close(); two.close(); {COOKIE}"
    )
    async with launched() as launcher:
        clean = await said(launcher, NET)
        (template,) = children(launcher.pid)
        await poll(lambda: not children(template))
        assert await said(launcher, NET) == clean
        await poll(lambda: not children(template))
        # A connection that was closed lingers for a minute in TIME_WAIT.
        assert await said(launcher, f'/usr/bin/python3 -c "{lingering}"') == clean
        await poll(lambda: not children(template))
        after = await said(launcher, NET)
        assert after != clean
        await poll(lambda: not children(template))
        sandbox = await started(launcher, f"{NET}; sleep 60")
        assert (await read_line(sandbox.stdout)).decode().strip() == after
        await sandbox.discard()  # killed
        await poll(lambda: not children(template))
        assert await said(launcher, NET) not in {clean, after}


@pytest.mark.guarantee("S5")
async def test_a_network_namespace_has_one_owner_at_a_time() -> None:
    async with launched(pool=2, pool_total=4) as launcher:
        sandboxes = [await started(launcher, f"{NET}; read x <&3") for _ in range(4)]
        seen = {await read_line(sandbox.stdout) for sandbox in sandboxes}
        assert len(seen) == 4
        for sandbox in sandboxes:
            await sandbox.discard()


async def test_many_attempts_leave_no_descriptor_and_no_process() -> None:
    async with launched(pool=2, pool_total=4) as launcher:
        await said(launcher, "true")
        await filled(launcher, 2)
        (template,) = children(launcher.pid)
        before = len(os.listdir("/proc/self/fd"))
        for n in range(20):
            with contextlib.suppress(AssertionError):
                await said(launcher, f"exit {n % 2}")
        await filled(launcher, 2)
        assert len(os.listdir("/proc/self/fd")) == before
        await poll(lambda: len(children(template)) == 2)
        if os.access(f"/proc/{template}/fd", os.R_OK):  # an ordinary user may not look
            # The three standard ones, control, pidfd of itself, /proc, the home network
            # namespace; a pidfd and a network namespace per child, and those that are kept.
            held = len(os.listdir(f"/proc/{template}/fd"))
            assert held <= 7 + 2 * 2 + 8


@pytest.mark.guarantee("S4")
async def test_what_is_to_be_hidden_and_comes_later_is_hidden_from_the_next_attempt(
    folder: Path,
) -> None:
    secret = folder / "state"
    spec = Spec(closure=(str(folder),), hidden=(str(secret),))
    async with launched(pool=1, pool_total=2) as launcher:
        await said(launcher, "true", spec)
        await filled(launcher, 1)
        secret.mkdir()
        (secret / "journal").write_text("not for handlers")
        script = f"cat {secret}/journal 2>&1 || true"
        assert await said(launcher, script, spec) != "not for handlers"


@pytest.mark.guarantee("S10")
async def test_an_answer_that_nobody_read_does_not_cost_the_running_attempts() -> None:
    """A socket that is closed with something unread resets the other end instead of ending it."""
    async with launched(pool=0, pool_total=0) as launcher:
        sandbox = await started(launcher, "echo up; read x <&3; exit 5")
        await read_line(sandbox.stdout)
        (template,) = children(launcher.pid)
        (profile,) = launcher._pool._profiles.values()
        request = wire.REQUEST.pack(wire.PREPARE, 99, 0)
        profile._control.send(request)
        await poll(lambda: len(children(template)) == 2)
        await trio.lowlevel.wait_readable(profile._control)
        launcher.resize(0, 0)
        await poll(lambda: len(children(template)) == 1)
        await sandbox.channel.send_all(b"\n")
        end = await sandbox.leader_exited()
        assert isinstance(end, Ended), end
        assert end.status == 5
        await sandbox.discard()
