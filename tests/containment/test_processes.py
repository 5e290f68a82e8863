"""No process outside can be touched, a handler is nobody else, and its init outlives all."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC240

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from sandbox.spec import Ended
from tests.containment.support import (
    PYTHON,
    SHARED_UID,
    Programs,
    as_handler,
    found,
    needs_root,
    seen,
)
from tests.e2e.support.processes import descendants, is_alive, start_time
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, PATIENCE_S, launched, run_to_end

SH = "/bin/sh"


# --- what a handler is


@pytest.mark.guarantee("S4", "S7")
def test_uid_0_is_not_mapped_and_there_is_one_id_only(programs: Programs) -> None:
    ((inside_uid, _, uids),) = seen(programs)["uid_map"]
    ((inside_gid, _, gids),) = seen(programs)["gid_map"]
    assert (inside_uid, uids) == (HANDLER_UID, 1)
    assert (inside_gid, gids) == (HANDLER_GID, 1)


@pytest.mark.guarantee("S7")
@pytest.mark.parametrize("name", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
def test_the_capability_set_is_empty(programs: Programs, name: str) -> None:
    assert int(seen(programs)["status"][name], 16) == 0


@pytest.mark.guarantee("S7")
def test_exec_gains_nothing_and_a_filter_stands_behind_it(programs: Programs) -> None:
    status = seen(programs)["status"]
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Uid"].split() == [str(HANDLER_UID)] * 4
    assert status["Gid"].split() == [str(HANDLER_GID)] * 4


@needs_root
@pytest.mark.guarantee("S7")
async def test_a_set_id_program_gains_nothing(programs: Programs, folder: Path) -> None:
    program = folder / "who"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    async with launched() as launcher:
        for spec in (programs.spec(read=(str(folder),)), programs.spec(write=(str(folder),))):
            _, out, err = await run_to_end(launcher, (str(program), "-u"), spec=spec)
            assert int(out) == HANDLER_UID, err
    assert int(as_handler(str(program), "-u").stdout) == 0, "outside it runs as root"


@pytest.mark.guarantee("S7")
def test_the_core_limit_is_the_one_that_stops_pipes_too(programs: Programs) -> None:
    """At 0 a piped core_pattern still runs its program, as root; at exactly 1 it does not."""
    assert seen(programs)["core_limit"] == [1, 1]


@pytest.mark.guarantee("S7")
async def test_a_crash_is_not_dumped() -> None:
    code = (
        "import os, signal\n"
        "child = os.fork()\n"
        "if child == 0: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "print(os.WCOREDUMP(os.waitpid(child, 0)[1]), os.listdir('.'))\n"
    )
    async with launched() as launcher:
        _, out, err = await run_to_end(launcher, (PYTHON, "-I", "-S", "-c", code))
    assert out.split(b" ", 1)[0] == b"False", err
    assert b"core" not in out


@pytest.mark.guarantee("S4")
def test_only_init_and_the_handler_are_in_sight(programs: Programs) -> None:
    assert seen(programs)["processes"] == [1, seen(programs)["pid"]]
    assert seen(programs)["parent"] == 1


@pytest.mark.guarantee("S4")
def test_the_hosts_names_are_not_told(programs: Programs) -> None:
    assert seen(programs)["hostname"] != os.uname().nodename
    for line in seen(programs)["cgroup"].splitlines():
        # A hierarchy of the first version that init did not enter by a cgroup namespace of its
        # own shows as its root; a path with parts would tell where on the host it is.
        assert line.rpartition(":")[2] == "/", line


# --- init


@pytest.mark.guarantee("S1", "S4")
@pytest.mark.parametrize("rounds", [1, 50])
async def test_init_gets_every_signal_from_inside_and_lives(rounds: int) -> None:
    code = (
        "import os, json\n"
        f"for n in list(range(1, 65)) * {rounds}:\n"
        "    try: os.kill(1, n)\n"
        "    except OSError as error: print(n, error)\n"
        "print(json.dumps('sent'))\n"
    )
    async with launched() as launcher:
        end, out, _ = await run_to_end(launcher, (PYTHON, "-I", "-S", "-c", code))
    assert out == b'"sent"\n'
    assert isinstance(end, Ended)
    assert (end.how, end.status, end.proof) == ("exited", 0, "record")


@pytest.mark.guarantee("S1")
async def test_queued_signals_do_not_drown_init() -> None:
    """Realtime signals queue up: each one wakes whoever waits for signals."""
    code = (
        "import ctypes, os, signal\n"
        "libc = ctypes.CDLL(None)\n"
        "for _ in range(4096): libc.sigqueue(1, 64, 0); libc.sigqueue(1, signal.SIGCHLD, 0)\n"
    )
    async with launched() as launcher:
        with trio.fail_after(PATIENCE_S):
            end, _, _ = await run_to_end(launcher, (PYTHON, "-I", "-S", "-c", code))
    assert isinstance(end, Ended)
    assert (end.how, end.status) == ("exited", 0)


# --- processes outside


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the handlers' own user that is none of effectd's."""
    identity: dict[str, Any] = {"user": HANDLER_UID, "group": HANDLER_GID, "extra_groups": []}
    process = subprocess.Popen(
        ["/bin/sleep", "60"], cwd="/", **(identity if os.getuid() == 0 else {})
    )
    yield process
    process.kill()
    process.wait()


# What a number outside names inside, if it names anything: a process of the sandbox.
NOTHING = {"ESRCH", "ENOENT", "EPERM", "EACCES", "EINVAL"}


@pytest.mark.guarantee("S4")
async def test_no_process_outside_can_be_signalled_limited_scheduled_traced_or_read(
    programs: Programs, bystander: subprocess.Popen[bytes]
) -> None:
    async with launched() as launcher:
        others = dict.fromkeys((os.getpid(), launcher.pid, bystander.pid))
        others.update((pid, None) for pid, _ in descendants(launcher.pid))
        # Small numbers would name the sandbox's own processes.
        outside = [pid for pid in others if pid > 64]
        assert len(outside) >= 2
        before = [_standing(pid) for pid in outside]
        born = [start_time(pid) for pid in outside]
        got = await found(launcher, programs.python("outside", *outside), programs.spec())
        assert set(got.values()) <= NOTHING, {way for way, how in got.items() if how == "open"}
        assert [_standing(pid) for pid in outside] == before
        alive = [is_alive(*one) for one in zip(outside, born, strict=True)]
        assert alive[:2] == [True, True]
    control = json.loads(as_handler(*programs.python("outside", bystander.pid)).stdout)
    stopped = {way for way, how in control.items() if how != "open"}
    assert len(stopped) <= 3, f"without a sandbox nearly all of it works: {stopped}"


def _standing(pid: int) -> object:
    """Priority, scheduler and limits of a process; None when it has ended."""
    try:
        return (
            os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getscheduler(pid),
            os.sched_getaffinity(pid),
            Path(f"/proc/{pid}/limits").read_text(),
        )
    except (OSError, ProcessLookupError):
        return None


@pytest.mark.guarantee("S4")
async def test_a_signal_to_everybody_stays_inside(bystander: subprocess.Popen[bytes]) -> None:
    script = "trap '' TERM; kill -TERM -1; sh -c 'kill -9 -1'; echo survived"
    async with launched() as launcher:
        end, _, _ = await run_to_end(launcher, (SH, "-c", script))
        assert isinstance(end, Ended)
        assert (end.how, end.status) == ("signaled", signal.SIGKILL), "it killed all there is"
        assert bystander.poll() is None
        end, out, _ = await run_to_end(launcher, (SH, "-c", "echo still"))
        assert (isinstance(end, Ended), out) == (True, b"still\n"), "the launcher lives"


@pytest.mark.guarantee("S4")
async def test_the_priority_of_a_users_processes_is_changed_for_nobody_outside(
    bystander: subprocess.Popen[bytes],
) -> None:
    code = (
        "import os\n"
        "try: os.setpriority(os.PRIO_USER, os.getuid(), 19)\n"
        "except PermissionError: pass\n"
    )
    async with launched() as launcher:
        end, _, err = await run_to_end(launcher, (PYTHON, "-I", "-S", "-c", code))
        assert isinstance(end, Ended)
        assert end.status == 0, err
    assert os.getpriority(os.PRIO_PROCESS, bystander.pid) == 0


@pytest.mark.guarantee("S4")
async def test_the_limits_of_init_are_its_own(programs: Programs) -> None:
    """A handler that could lower them would keep init from proving the end."""
    code = (
        "import resource, json\n"
        "found = {}\n"
        "for name in ('NOFILE', 'FSIZE', 'CPU', 'NPROC', 'DATA', 'STACK'):\n"
        "    try:\n"
        "        resource.prlimit(1, getattr(resource, 'RLIMIT_' + name), (0, 0))\n"
        "        found[name] = 'open'\n"
        "    except OSError as error:\n"
        "        found[name] = type(error).__name__\n"
        "print(json.dumps(found))\n"
    )
    async with launched() as launcher:
        argv = (PYTHON, "-I", "-S", "-c", code)
        got = await found(launcher, argv, programs.spec())
    assert set(got.values()) == {"PermissionError"}, got
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0


@pytest.mark.guarantee("S4")
async def test_the_channel_does_not_hand_out_the_daemon(programs: Programs) -> None:
    """The kernel gives a pidfd for the peer of any Unix socket, and fd 3's is the daemon.

    The signal is one that the test would not notice; it must not be delivered all the same.
    """
    code = (
        "import ctypes, errno, json, os, socket, struct, signal\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "channel = socket.socket(fileno=3)\n"
        "found = {'pid': struct.unpack('3i', channel.getsockopt(1, 17, 12))[0]}\n"
        "try: peer = struct.unpack('i', channel.getsockopt(1, 77, 4))[0]\n"
        "except OSError: peer = -1\n"
        "def tried(name, result):\n"
        "    found[name] = errno.errorcode[ctypes.get_errno()] if result < 0 else 'open'\n"
        "if peer >= 0:\n"
        "    for scope in (0, 1, 2, 4):\n"
        "        tried(f'signal {scope}', libc.syscall(424, peer, signal.SIGURG, 0, scope))\n"
        "    for kind in range(1, 11):\n"
        "        tried(f'namespace {kind}', libc.ioctl(peer, 0xFF00 | kind, 0))\n"
        "    tried('descriptor', libc.syscall(438, peer, 0, 0))\n"
        "    tried('enter', libc.setns(peer, 0x20000))\n"
        "print(json.dumps(found))\n"
    )
    got = []
    previous = signal.signal(signal.SIGURG, lambda *_: got.append("delivered"))
    try:
        async with launched() as launcher:
            seen = await found(launcher, (PYTHON, "-I", "-S", "-c", code), programs.spec())
    finally:
        signal.signal(signal.SIGURG, previous)
    assert seen.pop("pid") == 0
    assert "open" not in seen.values(), seen
    assert got == []


@pytest.mark.guarantee("S4")
async def test_the_daemons_keys_are_not_listed(programs: Programs) -> None:
    if SHARED_UID:
        pytest.skip("its own user sees the names of keys, though no value and no other user's")
    name = f"effectd-test-{os.getpid()}"
    number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    session = ctypes.c_int(-3)
    if libc.syscall(number, b"user", name.encode(), b"v", ctypes.c_size_t(1), session) < 0:
        pytest.skip(f"no key can be made here: {os.strerror(ctypes.get_errno())}")
    code = "import json; print(json.dumps(open('/proc/keys').read()))"
    if not Path("/proc/keys").exists():
        pytest.skip("this kernel has no keys")
    assert name in Path("/proc/keys").read_text(), "it is there, and its owner sees it"
    async with launched() as launcher:
        listed = await found(launcher, (PYTHON, "-I", "-S", "-c", code), programs.spec())
    assert name not in str(listed)
