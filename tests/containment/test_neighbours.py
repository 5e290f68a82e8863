"""Two attempts of one handler at the same time: neither finds anything of the other."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

import pytest
import trio

from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Started
from tests.containment.support import PYTHON, Held, Programs, found
from tests.sandbox.support import launched, read_line, run_to_end

MEETING_PLACES: Final = (
    *("/tmp", "/tmp/home", "/dev/shm", "/var/tmp", "/run", "/run/credentials", "shared memory"),
    *("semaphores", "message queue", "posix shared memory", "posix queue", "port"),
    *("abstract socket", "its credentials", "own credentials", "processes"),
)
# The filter and the limits may refuse the rest of it.
SURELY_LEFT: Final = {"/tmp", "/dev/shm", "shared memory", "semaphores", "port"}


@pytest.fixture(scope="module")
def looked(programs: Programs) -> dict[str, str]:
    async def both() -> dict[str, str]:
        spec = programs.spec()
        async with launched() as launcher:
            one = programs.python("neighbour", "one", "two")
            two = programs.python("neighbour", "two", "one")
            async with (
                Held(launcher, one, spec, secrets={"secret-of-one": b"1"}) as first,
                Held(launcher, two, spec, secrets={"secret-of-two": b"2"}) as second,
            ):
                assert set(first.said) >= SURELY_LEFT, first.said
                assert set(second.said) >= SURELY_LEFT, second.said
                found_by_first = await first.go()
                found_by_second = await second.go()
        assert found_by_first == found_by_second
        return found_by_first

    return trio.run(both)


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("thing", MEETING_PLACES)
def test_what_one_leaves_the_other_does_not_find(looked: dict[str, str], thing: str) -> None:
    assert looked[thing] == "absent"


def test_every_meeting_place_was_looked_at(looked: dict[str, str]) -> None:
    assert set(looked) == set(MEETING_PLACES)


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("network", ["none", "host"])
async def test_with_a_declared_unix_socket_abstract_names_are_still_ones_own(
    programs: Programs, network: str, folder: Path
) -> None:
    """On the host's network abstract names are the host's; Landlock keeps sandboxes apart."""
    path = folder / "declared"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        spec = programs.spec(unix=(str(path),), network=network)
        async with launched() as launcher:
            one = programs.python("neighbour", "one", "two")
            two = programs.python("neighbour", "two", "one")
            async with Held(launcher, one, spec) as first, Held(launcher, two, spec) as second:
                assert "abstract socket" in first.said
                assert "abstract socket" in second.said
                assert (await first.go())["abstract socket"] == "absent"
                assert (await second.go())["abstract socket"] == "absent"


@pytest.mark.guarantee("S7")
async def test_what_one_does_to_its_descriptors_another_does_not_see(programs: Programs) -> None:
    """Flags, offset and owner belong to the open file description: each fd is one of its own."""
    spec = programs.spec()
    spoil = programs.python("descriptions", "spoil")
    async with launched() as launcher:
        look = programs.python("descriptions", "look")
        fresh = await found(launcher, look, spec, stdin=b"0123456789")
        async with Held(launcher, spoil, spec, stdin=b"0123456789") as held:
            assert held.said == fresh
            assert await found(launcher, look, spec, stdin=b"0123456789") == fresh
            assert await held.go() is True
    for flags, offset, owner in fresh.values():
        assert flags == 0
        assert offset in {0, -1}
        assert owner == 0


@pytest.mark.guarantee("S7")
async def test_a_descriptor_sent_over_the_channel_is_dropped_at_once(programs: Programs) -> None:
    """The reading end sees the end of file as soon as the daemon has read the message."""
    code = (
        "import array, os, socket, select\n"
        "channel = socket.socket(fileno=3)\n"
        "read, write = os.pipe()\n"
        "rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [write]))]\n"
        "channel.sendmsg([b'x'], rights)\n"
        "os.close(write)\n"
        "print('sent', flush=True)\n"
        "ready = select.select([read], [], [], 20)[0]\n"
        "print('dropped' if ready and os.read(read, 1) == b'' else 'kept', flush=True)\n"
    )
    async with launched() as launcher:
        sandbox = await launcher.prepare(programs.spec())
        command = Command((PYTHON, "-I", "-S", "-c", code), DEFAULT_ENVIRONMENT)
        assert isinstance(await sandbox.dispatch(command), Started)
        assert await read_line(sandbox.stdout) == b"sent\n"
        held = len(os.listdir("/proc/self/fd"))
        assert await sandbox.channel.receive_some(10) == b"x"
        assert len(os.listdir("/proc/self/fd")) == held
        assert await read_line(sandbox.stdout) == b"dropped\n"
        assert isinstance(await sandbox.leader_exited(), Ended)
        await sandbox.discard()


async def test_a_thousand_descriptors_sent_over_the_channel_are_not_taken(
    programs: Programs,
) -> None:
    code = (
        "import array, os, socket\n"
        "channel = socket.socket(fileno=3)\n"
        "fds = [os.open('/dev/null', os.O_RDONLY) for _ in range(200)]\n"
        "rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))]\n"
        "try:\n"
        "    for _ in range(5): channel.sendmsg([b'x'], rights)\n"
        "except OSError as error: print(error)\n"
    )
    argv = (PYTHON, "-I", "-S", "-c", code)
    async with launched() as launcher:
        _, out, _ = await run_to_end(launcher, ("/bin/echo", "first"), spec=programs.spec())
        before = len(os.listdir("/proc/self/fd"))
        end, _, _ = await run_to_end(launcher, argv, spec=programs.spec())
        assert isinstance(end, Ended)
        assert len(os.listdir("/proc/self/fd")) < before + 100
        _, out, _ = await run_to_end(launcher, ("/bin/echo", "next"), spec=programs.spec())
        assert out == b"next\n"
