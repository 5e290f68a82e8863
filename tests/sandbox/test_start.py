"""What a handler is started with, and what a start that fails says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio

from sandbox import group
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Lost, NotStarted, Spec, Started
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, launched, read_all, run_to_end

SH = "/bin/sh"


def script(folder: Path, name: str, text: str | bytes, mode: int = 0o755) -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return str(path)


@pytest.mark.guarantee("S8")
async def test_a_failed_exec_is_not_started_with_its_own_errno(open_folder: Path) -> None:
    table = {
        errno.ENOENT: [
            ("/nowhere/at/all",),
            (script(open_folder, "no-interpreter", "#!/no/such/interpreter\n"),),
        ],
        errno.EACCES: [("/usr",), (script(open_folder, "not-executable", "#!/bin/sh\n", 0o644),)],
        errno.ENOEXEC: [
            (script(open_folder, "no-hash-bang", "echo hello\n"),),
            (script(open_folder, "empty", b""),),
            (script(open_folder, "cut-off-elf", b"\x7fELF\x02\x01"),),
        ],
        errno.ENOTDIR: [("/etc/passwd/x",)],
        errno.ELOOP: [],
        errno.ENAMETOOLONG: [("/" + "x" * 300,)],
        errno.E2BIG: [(SH, "-c", "true", "x" * 140_000)],
    }
    loop = open_folder / "loop"
    loop.symlink_to(loop)
    table[errno.ELOOP].append((str(loop),))
    async with launched() as launcher:
        for number, commands in table.items():
            for argv in commands:
                sandbox = await launcher.prepare(Spec(closure=(str(open_folder),)))
                answer = await sandbox.dispatch(Command(argv))
                assert isinstance(answer, NotStarted), argv
                assert (answer.errno, answer.stage) == (number, "exec"), (argv, answer)
                assert argv[0] in answer.detail
                assert isinstance(await sandbox.leader_exited(), Lost)
                await sandbox.discard()


@pytest.mark.guarantee("S8")
async def test_a_message_too_big_to_send_is_not_started() -> None:
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        answer = await sandbox.dispatch(Command((SH, "-c", "true", *["x" * 100_000] * 4)))
        assert isinstance(answer, NotStarted)
        assert (answer.errno, answer.stage) == (errno.EMSGSIZE, "send")
        await sandbox.discard()


async def test_init_killed_before_the_dispatch_is_never_called_started() -> None:
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        assert await sandbox.kill() == "pidfd"
        answer = await sandbox.dispatch(Command((SH,)))
        assert isinstance(answer, NotStarted)
        await sandbox.aclose()


@pytest.mark.guarantee("S8")
async def test_init_killed_around_exec_is_started_or_not_started_but_never_wrong(
    open_folder: Path,
) -> None:
    """The witness is a file that the command makes: if it is there, the answer was Started."""
    folder = open_folder / "witness"
    folder.mkdir()
    folder.chmod(0o777)
    answers = set()
    async with launched() as launcher:
        for n in range(24):
            sandbox = await launcher.prepare(Spec(write=(str(folder),)))
            witness = folder / str(n)

            async def kill_soon(delay: float, victim: object = sandbox) -> None:
                await trio.sleep(delay)
                victim.kill_now()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill_soon, n * 0.0001)
                answer = await sandbox.dispatch(Command(("/bin/mkdir", str(witness))))
            end = await sandbox.leader_exited()
            if witness.exists() or isinstance(end, Ended):
                assert isinstance(answer, Started)
            answers.add(type(answer))
            await sandbox.discard()
    assert Started in answers


@pytest.mark.guarantee("S7")
async def test_a_handler_has_fds_0_to_3_and_no_other(open_folder: Path) -> None:
    list_fds = script(
        open_folder,
        "fds.py",
        "#!/usr/bin/python3\n"
        "import os, fcntl\n"
        "for n in range(1000):\n"
        "    try: flags = fcntl.fcntl(n, fcntl.F_GETFL)\n"
        "    except OSError: continue\n"
        "    kind = os.readlink(f'/proc/self/fd/{n}').split(':')[0]\n"
        "    print(n, kind, bool(flags & os.O_NONBLOCK))\n",
    )
    async with launched() as launcher:
        end, out, err = await run_to_end(
            launcher, (list_fds,), spec=Spec(closure=(str(open_folder),), files_max=1000)
        )
    assert isinstance(end, Ended), err
    assert out.decode().splitlines() == [
        "0 /dev/null False",
        "1 pipe False",
        "2 pipe False",
        "3 socket False",
    ]


@pytest.mark.guarantee("S7")
async def test_a_handler_has_exactly_the_declared_environment() -> None:
    declared = {"A": "1", "WITH SPACE": "é=\n", "EMPTY": ""}
    async with launched() as launcher:
        _, out, _ = await run_to_end(launcher, ("/usr/bin/env", "-0"), env=declared)
        _, nothing, _ = await run_to_end(launcher, ("/usr/bin/env",), env={})
    assert dict(pair.split("=", 1) for pair in out.decode().split("\0")[:-1]) == declared
    assert nothing == b""


@pytest.mark.guarantee("S7")
async def test_a_handler_is_confined_as_declared() -> None:
    async with launched() as launcher:
        _, out, _ = await run_to_end(
            launcher,
            (
                SH,
                "-c",
                "cat /proc/self/status /proc/self/limits /proc/self/stat; umask; ps=$$; echo $ps",
            ),
            spec=Spec(files_max=100, file_size_max=4096, tasks_max=9, cpu_max_ms=1500),
        )
    text = out.decode()
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["Uid"].split() == [str(HANDLER_UID)] * 4
    assert status["Gid"].split() == [str(HANDLER_GID)] * 4
    # glibc ignores its own two, 32 and 33, in whatever it spawns.
    assert int(status["SigIgn"], 16) & ~(3 << 31) == 0
    assert int(status["SigBlk"], 16) == 0
    limits = {
        line[:26].strip(): line[26:].split()[:2] for line in text.splitlines() if "Max " in line
    }
    assert limits["Max core file size"] == ["1", "1"]
    assert limits["Max open files"] == ["100", "100"]
    assert limits["Max file size"] == ["4096", "4096"]
    assert limits["Max processes"] == ["10", "10"]  # init is one of them
    assert limits["Max cpu time"] == ["2", "3"]
    assert limits["Max msgqueue size"] == ["0", "0"]
    stat_line = next(line for line in text.splitlines() if "(cat)" in line)
    _, _, _, session, tty = stat_line.rpartition(")")[2].split()[:5]
    assert tty == "0"
    assert session == text.split()[-1], "the leader leads a session of its own"
    assert "0077" in text


@pytest.mark.guarantee("S7")
async def test_a_crash_leaves_no_core_dump() -> None:
    async with launched() as launcher:
        end, out, _ = await run_to_end(
            launcher, (SH, "-c", "sh -c 'kill -SEGV $$'; ls -A /tmp /tmp/home; kill -SEGV $$")
        )
    assert isinstance(end, Ended)
    assert (end.how, end.status) == ("signaled", 11)
    assert b"core" not in out


async def test_stdin_is_whole_and_cannot_be_changed() -> None:
    data = os.urandom(1 << 20)
    async with launched() as launcher:
        end, out, _ = await run_to_end(launcher, ("/bin/cat",), stdin=data)
        write = "if echo x >&0; then exit 1; fi; cat"
        tried, kept, _ = await run_to_end(launcher, (SH, "-c", write), stdin=b"input")
    assert isinstance(end, Ended)
    assert out == data
    assert isinstance(tried, Ended)
    assert (tried.status, kept) == (0, b"input")


@pytest.mark.guarantee("S7")
async def test_secrets_are_files_that_only_the_handler_can_read() -> None:
    secret = b"\0binary\xff" * 1000
    async with launched() as launcher:
        _, out, _ = await run_to_end(
            launcher,
            (
                SH,
                "-c",
                'cat "$CREDENTIALS_DIRECTORY/token"; stat -c %a%u /run/credentials/token >&2',
            ),
            secrets={"token": secret, "other": b""},
        )
        sandbox = await launcher.prepare(Spec())
        answer = await sandbox.dispatch(Command(("/bin/true",), secrets={"big": bytes(2 << 20)}))
        assert isinstance(answer, NotStarted)
        await sandbox.discard()
    assert out == secret


async def test_the_channel_is_a_stream_both_ways() -> None:
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        echo = Command((SH, "-c", "read line <&3; echo got $line >&3"), DEFAULT_ENVIRONMENT)
        assert isinstance(await sandbox.dispatch(echo), Started)
        await sandbox.channel.send_all(b"hello\n")
        assert await read_all(sandbox.channel) == b"got hello\n"
        assert isinstance(await sandbox.leader_exited(), Ended)
        await sandbox.aclose()


async def test_the_smallest_limits_are_enough_to_start() -> None:
    spec = Spec(files_max=16, file_size_max=0, tasks_max=1, cpu_max_ms=1)
    async with launched() as launcher:
        end, out, err = await run_to_end(launcher, ("/bin/echo", "up"), spec=spec)
        assert isinstance(end, Ended)
        assert (end.status, out) == (0, b"up\n"), err
        forks = (SH, "-c", "/bin/true; echo forked")
        _, out, err = await run_to_end(launcher, forks, spec=spec)
        assert b"forked" not in out
        assert b"fork" in err


async def test_an_end_tells_status_usage_and_instants() -> None:
    async with launched() as launcher:
        burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; exit 42"
        end, _, _ = await run_to_end(launcher, (SH, "-c", f"sh -c '{burn}'"))
        assert isinstance(end, Ended)
        assert (end.how, end.status, end.killed) == ("exited", 42, 0)
        wall_ms = (end.exit_ns - end.gate_ns) / 1e6
        assert 0 < end.cpu_ms <= wall_ms * os.cpu_count() + 20
        assert end.cpu_ms > 5
        sandbox = await launcher.prepare(Spec())
        assert isinstance(await sandbox.dispatch(Command(("/bin/sleep", "60"))), Started)
        end = await group.end(sandbox, grace_ms=0, ask=False)
        assert isinstance(end, Ended)
        assert (end.how, end.status, end.proof) == ("signaled", 9, "record")
        await sandbox.aclose()


def test_nobody_runs_as_root() -> None:
    from sandbox.client import Launcher

    for ids in ({"handler_uid": 0, "handler_gid": 1}, {"handler_uid": 1, "handler_gid": 0}):
        with pytest.raises(ValueError, match="never run as root"):
            Launcher.start(**ids)


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": ()},
        {"argv": ("relative",)},
        {"argv": ("/x", "a\0b")},
        {"argv": ("/x",), "env": {"A=B": ""}},
        {"argv": ("/x",), "env": {"A": "\0"}},
        {"argv": ("/x",), "secrets": {"../x": b""}},
        {"argv": ("/x",), "secrets": {"": b""}},
    ],
)
def test_a_command_that_no_process_could_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"argv|env|secrets"):
        Command(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": ("relative",)},
        {"write": ("/a/../b",)},
        {"unix": ("/a\0b",)},
        {"accept_missing": ("everything",)},
        {"files_max": 1 << 20},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Spec(**wrong)


def test_the_launcher_loads_next_to_nothing() -> None:
    import subprocess
    import sys

    code = (
        "import sys; before = set(sys.modules); sys.path.append(sys.argv[1]);"
        " import sandbox.launcher; print(*sorted(set(sys.modules) - before))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=True
    )
    heavy = {"typing", "enum", "re", "collections", "contextlib", "pathlib", "socket", "attrs"}
    assert not heavy & set(done.stdout.split())
