"""What a handler can see and change: only what was put there."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC240

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.client import Launcher
from sandbox.spec import Command, Ended, SandboxUnavailable, Spec, Started
from tests.sandbox.support import children, launched, read_line, run_to_end

SH = "/bin/sh"


@pytest.fixture
def folder(open_folder: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="root-", dir=open_folder))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


async def shell(launcher: Launcher, script: str, spec: Spec) -> tuple[int, str]:
    end, out, err = await run_to_end(launcher, (SH, "-c", script), spec=spec)
    assert isinstance(end, Ended), err
    return end.status, out.decode() + err.decode()


@pytest.mark.guarantee("S4")
async def test_a_handler_sees_what_was_put_there_and_nothing_else(folder: Path) -> None:
    (folder / "secret").write_text("x")
    async with launched() as launcher:
        _, root = await shell(launcher, "ls -A /", Spec())
        _, private = await shell(
            launcher, "ls -A /run /tmp /dev/shm /var/tmp /run/credentials", Spec()
        )
        _, out = await shell(launcher, f"ls -A /home /root /srv {folder}", Spec())
    assert set(root.split()) <= {
        *("bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc"),
        *("run", "sbin", "tmp", "usr", "var"),
    }
    assert set(private.split()) == {
        *("/run:", "/tmp:", "/dev/shm:", "/var/tmp:", "/run/credentials:", "credentials", "home")
    }
    for hidden in ("/home", "/root", "/srv", str(folder)):
        assert f"cannot access '{hidden}'" in out


@pytest.mark.guarantee("S4")
async def test_nothing_outside_the_declared_paths_can_be_written(folder: Path) -> None:
    read, write = folder / "read", folder / "write"
    for path in (read, write):
        path.mkdir()
        path.chmod(0o777)
    spec = Spec(read=(str(read),), write=(str(write),))
    places = ["/x", "/etc/x", "/usr/x", "/dev/x", "/proc/x", "/var/x", f"{read}/x"]
    async with launched() as launcher:
        for place in places:
            status, out = await shell(launcher, f"echo x > {place}", spec)
            assert status != 0, out
        status, out = await shell(
            launcher,
            f"echo x > {write}/x && echo y > /tmp/x && cp /tmp/x ~/x && : > /dev/null",
            spec,
        )
        assert status == 0, out
        status, _ = await shell(
            launcher, "mount -o remount,rw / || umount /etc || chmod 777 /usr", spec
        )
        assert status != 0
    assert (write / "x").read_text() == "x\n"
    assert not Path("/tmp/x").exists()
    assert os.listdir(read) == []


@pytest.mark.guarantee("S4")
async def test_a_writable_path_inside_a_readable_one_and_a_hidden_one_inside_both(
    folder: Path,
) -> None:
    for name in ("data/in", "data/out", "data/own"):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)
    (folder / "data/in/file").write_text("payload")
    (folder / "data/own/key").write_text("ours")
    (folder / "data/in/token").write_text("ours")
    data = str(folder / "data")
    spec = Spec(read=(data,), write=(f"{data}/out",), hidden=(f"{data}/own", f"{data}/in/token"))
    async with launched() as launcher:
        status, out = await shell(
            launcher,
            f"cat {data}/in/file; echo x > {data}/out/x || exit 9;"
            f" echo x > {data}/in/x && exit 8;"
            f" cat {data}/own/key && exit 7; ls {data}/own && exit 6;"
            f" cat {data}/in/token && exit 5;"
            f" umount {data}/own && exit 4; exit 0",
            spec,
        )
    assert status == 0, out
    assert "payload" in out
    assert "ours" not in out
    assert (folder / "data/out/x").read_text() == "x\n"


@pytest.mark.guarantee("S4")
async def test_links_are_followed_for_what_is_declared_and_kept_for_a_closure(folder: Path) -> None:
    (folder / "v1").mkdir()
    (folder / "v1/tool").write_text("#!/bin/sh\nreadlink -f $0; cat $(dirname $0)/beside\n")
    (folder / "v1/tool").chmod(0o755)
    (folder / "v1/beside").write_text("found")
    (folder / "current").symlink_to("v1")
    (folder / "tool").symlink_to("current/tool")
    current = str(folder / "current")
    async with launched() as launcher:
        status, out = await shell(launcher, f"{current}/tool", Spec(read=(current,)))
        assert (status, "found" in out) == (0, True), out
        assert f"{current}/tool" in out, "a declared link is a directory inside"
        paths = (str(folder / "tool"), current, str(folder / "v1"))
        status, out = await shell(launcher, f"readlink -f {folder}/tool", Spec(closure=paths))
        assert out.strip() == f"{folder}/v1/tool"


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm"])
async def test_a_path_inside_a_private_directory_is_shown_where_it_was_declared(place: str) -> None:
    with tempfile.TemporaryDirectory(dir=place, prefix="effectd-test-") as name:
        Path(name).chmod(0o755)
        (Path(name) / "file").write_text("shown")
        async with launched() as launcher:
            status, out = await shell(launcher, f"cat {name}/file", Spec(read=(name,)))
        assert (status, out) == (0, "shown")


@pytest.mark.guarantee("S4")
async def test_no_fd_and_no_directory_of_a_handler_leads_out(folder: Path) -> None:
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec(read=(str(folder),)))
        command = Command((SH, "-c", "echo up; read x <&3; ls /proc/1/fd /proc/1/root /proc/1/cwd"))
        assert isinstance(await sandbox.dispatch(command), Started)
        await read_line(sandbox.stdout)
        (leader,) = children(sandbox.identity.init_pid)
        if os.getuid() == 0:  # nobody else may look
            own = os.listdir(f"/proc/{sandbox.identity.init_pid}/fd")
            assert len(own) == 6, "three times /dev/null, the slot, the signals, /proc/loadavg"
        info = Path(f"/proc/{leader}/mountinfo").read_text().splitlines()
        mounts = {line.split()[0] for line in info}
        for fd in os.listdir(f"/proc/{leader}/fd"):
            target = Path(f"/proc/{leader}/fd/{fd}")
            assert not target.is_dir()
        for link in ("cwd", "root"):
            fd = os.open(f"/proc/{leader}/{link}", os.O_PATH)
            lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
            os.close(fd)
            assert next(line.split()[1] for line in lines if line.startswith("mnt_id")) in mounts
        await sandbox.channel.send_all(b"\n")
        end = await sandbox.leader_exited()
        assert isinstance(end, Ended)
        assert end.status != 0, "init's own descriptors and root cannot be looked at"
        await sandbox.kill()
        await sandbox.aclose()


@pytest.mark.guarantee("S5")
async def test_network_none_is_loopback_of_its_own(folder: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    probe = folder / "probe.py"
    probe.write_text(
        "#!/usr/bin/python3\n"
        "import socket, sys\n"
        "own = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(own.getsockname()).close()\n"
        "print('own')\n"
        f"try: socket.create_connection(('127.0.0.1', {port}), 2); print('host')\n"
        "except OSError as e: print(type(e).__name__)\n"
        "try: socket.create_connection(('192.0.2.1', 9), 2); print('out')\n"
        "except OSError as e: print(e.strerror)\n"
    )
    probe.chmod(0o755)
    async with launched() as launcher:
        _, out = await shell(launcher, str(probe), Spec(closure=(str(folder),)))
        assert out.split("\n")[:3] == ["own", "ConnectionRefusedError", "Network is unreachable"]
        spec = Spec(closure=(str(folder),), network="host")
        _, out = await shell(launcher, str(probe), spec)
        assert out.split("\n")[:2] == ["own", "host"]
        _, out = await shell(launcher, "cat /etc/resolv.conf > /dev/null && echo readable", spec)
        if Path("/etc/resolv.conf").exists():
            assert out == "readable\n"
    listener.close()


@pytest.mark.guarantee("S5")
async def test_a_declared_unix_socket_can_be_reached(folder: Path) -> None:
    path = folder / "service.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    path.chmod(0o777)
    code = (
        f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); print('in')"
    )
    async with launched() as launcher:
        argv = ("/usr/bin/python3", "-c", code)
        _, out, _ = await run_to_end(launcher, argv, spec=Spec(unix=(str(path),)))
        assert out == b"in\n"
        _, out, err = await run_to_end(launcher, argv, spec=Spec())
        assert b"Address family not supported" in err
    listener.close()


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("kind", ["read", "write", "unix", "closure"])
async def test_a_path_that_is_not_there_is_named_with_a_remedy(kind: str) -> None:
    async with launched() as launcher:
        with pytest.raises(SandboxUnavailable, match="/nowhere/at-all") as caught:
            await launcher.prepare(Spec(**{kind: ("/nowhere/at-all",)}))
        assert caught.value.layer == "root"
        assert "not there" in caught.value.remedy


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("read", "/"),
        ("read", "//./"),
        ("write", "/tmp/"),
        ("unix", "/run"),
        ("closure", "/proc/1/root"),
    ],
)
async def test_what_a_sandbox_has_for_itself_is_never_the_hosts(kind: str, path: str) -> None:
    async with launched() as launcher:
        with pytest.raises(SandboxUnavailable, match="of its own"):
            await launcher.prepare(Spec(**{kind: (path,)}))


@pytest.mark.guarantee("S9")
async def test_a_path_that_the_handlers_uid_cannot_reach_is_named(folder: Path) -> None:
    closed = folder / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    if os.getuid() != 0:
        closed = Path("/root")  # a directory that is not one's own
        if os.access(closed, os.X_OK):
            pytest.skip("needs a directory that this user cannot search, and /root is open")
    async with launched() as launcher:
        with pytest.raises(SandboxUnavailable, match=f"{closed}/inner") as caught:
            await launcher.prepare(Spec(read=(f"{closed}/inner",)))
    assert f"uid {launcher.uid}" in caught.value.remedy


async def test_two_sandboxes_share_neither_files_nor_processes_nor_secrets(folder: Path) -> None:
    async with launched() as launcher:
        first = await launcher.prepare(Spec())
        command = Command(
            (SH, "-c", "echo mine > /tmp/mine; echo up; read x <&3"), secrets={"token": b"s"}
        )
        assert isinstance(await first.dispatch(command), Started)
        await read_line(first.stdout)
        _, out = await shell(launcher, "ls /tmp /run/credentials; ls -d /proc/[0-9]*; ipcs", Spec())
        assert "mine" not in out
        assert "token" not in out
        pids = [word for word in out.split() if word.startswith("/proc/")]
        assert len(pids) <= 4  # init, sh, ls
        await first.discard()


async def test_ordinary_programs_work_inside(folder: Path) -> None:
    program = (
        "import multiprocessing, subprocess, threading, tempfile\n"
        "def f(x): return x * 2\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.Pool(2) as pool: assert pool.map(f, [1, 2]) == [2, 4]\n"
        "    t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "    print(subprocess.run(['sh', '-c', 'echo sub | cat'], capture_output=True).stdout)\n"
        "    tempfile.TemporaryFile().write(b'x')\n"
    )
    (folder / "p.py").write_text(program)
    spec = Spec(closure=(str(folder),))
    async with launched() as launcher:
        status, out = await shell(launcher, f"python3 {folder}/p.py", spec)
        assert (status, "sub" in out, "thread" in out) == (0, True, True), out
        build = "cd /tmp && echo 'int main(){return 5;}' > a.c && cc a.c && ./a.out"
        status, out = await shell(launcher, build, spec)
        assert status == 5, out


async def test_plans_differ_only_where_specs_do() -> None:
    from sandbox import plan, wire

    base = plan.template(Spec())
    assert plan.template(Spec()) == base
    assert plan.template(Spec(read=("/srv/x",))) != base
    assert plan.template_flags(Spec(network="host")) != plan.template_flags(Spec())
    of_root, of_attempt, *_ = wire.unpack_list(plan.template(Spec(read=("/tmp/x", "/srv/x"))))
    for packed, again in ((of_root, False), (of_attempt, True)):
        steps = [wire.unpack_list(one) for one in wire.unpack_list(packed)]
        opened = [step[3] for step in steps if step[1] == b"open"]
        attached = [step[2] for step in steps if step[1] == b"attach"]
        assert sorted(opened) == attached
        # What lies in a directory that each attempt has for itself is put there once more.
        assert (opened == [b"/tmp/x"]) == again
