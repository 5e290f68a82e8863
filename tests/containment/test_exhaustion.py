"""A handler that takes all it can get hurts only itself: dispatching goes on beside it.

The kernel counts some things for each user: descriptors in flight, pages of pipes, epoll watches,
inotify instances. With a user of their own handlers can use up only their own share of those. Where
they share the daemon's user, what is tested is that dispatching goes on all the same.
"""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC240

from __future__ import annotations

import fcntl
import os
import select
import time
from pathlib import Path
from typing import Final

import pytest
import trio

from sandbox.client import Launcher
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Started
from tests.containment.support import SHARED_UID, Held, Programs
from tests.sandbox.support import launched, read_all, run_to_end

F_GETPIPE_SZ: Final = 1032
DEFAULT_PIPE: Final = 65_536
NEEDS_OWN_UID: Final = "handlers share the daemon's user here, and with it this quota"


async def dispatches_go_on(launcher: Launcher, programs: Programs, times: int = 10) -> None:
    """Others start, are fed, heard and ended, with descriptors passed for each of them."""
    for n in range(times):
        end, out, err = await run_to_end(
            launcher, ("/bin/cat",), spec=programs.spec(), stdin=f"hello {n}".encode()
        )
        assert isinstance(end, Ended)
        assert out == f"hello {n}".encode(), err


@pytest.mark.guarantee("S6")
async def test_descriptors_in_flight(programs: Programs) -> None:
    async with launched() as launcher:
        argv = programs.python("exhaust", "fds")
        async with Held(launcher, argv, programs.spec()) as held:
            assert held.said == "ETOOMANYREFS"
            await dispatches_go_on(launcher, programs)


@pytest.mark.guarantee("S6")
async def test_descriptors_in_flight_with_the_highest_limit_of_files(programs: Programs) -> None:
    async with launched() as launcher:
        argv = programs.python("exhaust", "fds")
        async with Held(launcher, argv, programs.spec(files_max=4_096)) as held:
            assert held.said == "ETOOMANYREFS"
            await dispatches_go_on(launcher, programs)


@pytest.mark.guarantee("S6")
async def test_pages_of_pipes(programs: Programs) -> None:
    """What is read through pipes that shrank is still whole."""
    async with launched() as launcher:
        argv = programs.python("exhaust", "pipes")
        async with Held(launcher, argv, programs.spec()) as held:
            assert int(held.said.split()[1]) < DEFAULT_PIPE, "it met its limit"
            sandbox = await launcher.prepare(programs.spec())
            text = "x" * 100_000
            script = f"head -c {len(text)} /dev/zero | tr '\\0' x"
            command = Command(("/bin/sh", "-c", script), DEFAULT_ENVIRONMENT)
            assert isinstance(await sandbox.dispatch(command), Started)
            assert await read_all(sandbox.stdout) == text.encode()
            assert isinstance(await sandbox.leader_exited(), Ended)
            await sandbox.discard()
            if not SHARED_UID:
                read, write = os.pipe()
                assert fcntl.fcntl(read, F_GETPIPE_SZ) == DEFAULT_PIPE
                os.close(read)
                os.close(write)


@pytest.mark.guarantee("S6")
async def test_epoll_watches(programs: Programs) -> None:
    limit = int(Path("/proc/sys/fs/epoll/max_user_watches").read_text())
    async with launched() as launcher:
        argv = programs.python("exhaust", "watches")
        async with Held(launcher, argv, programs.spec()) as held:
            # Its limit of files ends it long before the user's of watches, on any larger host.
            assert held.said in {"EMFILE", "ENOSPC"}
            if held.said == "ENOSPC" and SHARED_UID:
                pytest.skip(f"{NEEDS_OWN_UID}: {limit} watches")
            with select.epoll() as poll:
                for fd in (read_end := os.pipe()):
                    poll.register(fd)
            for fd in read_end:
                os.close(fd)
            await dispatches_go_on(launcher, programs)


@pytest.mark.usefixtures("user_inotify")
@pytest.mark.guarantee("S6")
async def test_inotify_instances(programs: Programs) -> None:
    async with launched() as launcher:
        argv = programs.python("exhaust", "inotify")
        async with Held(launcher, argv, programs.spec(files_max=4_096)) as held:
            assert held.said == "EMFILE"
            await dispatches_go_on(launcher, programs, 3)


@pytest.mark.guarantee("S6")
async def test_processes(programs: Programs) -> None:
    async with launched() as launcher:
        argv = programs.python("exhaust", "processes")
        async with Held(launcher, argv, programs.spec(tasks_max=20)) as held:
            assert held.said == "EAGAIN 19", "with itself that makes twenty"
            async with Held(launcher, argv, programs.spec(tasks_max=20)) as second:
                assert second.said == "EAGAIN 19", "each sandbox has its own count"
                await dispatches_go_on(launcher, programs)


@pytest.mark.guarantee("S6")
async def test_the_private_tmp(programs: Programs) -> None:
    async with launched() as launcher:
        argv = programs.python("exhaust", "files")
        async with Held(launcher, argv, programs.spec()) as held:
            assert held.said == "ENOSPC ENOSPC"
            end, _, err = await run_to_end(
                launcher, ("/bin/sh", "-c", "echo x > /tmp/x"), spec=programs.spec()
            )
            assert isinstance(end, Ended)
            assert end.status == 0, err


@pytest.mark.guarantee("S6")
async def test_burning_every_processor_delays_others_but_stops_none(programs: Programs) -> None:
    spin = ("/bin/sh", "-c", "for n in 1 2 3 4 5 6; do (while :; do :; done) & done; wait")
    async with launched() as launcher:
        sandbox = await launcher.prepare(programs.spec())
        assert isinstance(await sandbox.dispatch(Command(spin)), Started)
        start = time.monotonic()
        with trio.fail_after(30):
            await dispatches_go_on(launcher, programs, 3)
        assert time.monotonic() - start < 30
        await sandbox.discard()
