"""Landlock in a sandbox: alone where there is no new root, else behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from sandbox import confine, group
from sandbox.confine import Kernel
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, SandboxUnavailable, Spec, Started
from tests.sandbox.support import PATIENCE_S, launched, read_all, read_line, run_to_end
from tests.sandbox.test_landlock import ABI, behind, needs_abi, needs_landlock, results, tree

__all__ = ["tree"]


# --- without a new root


@needs_landlock
@pytest.mark.guarantee("S4")
def test_without_a_new_root_what_is_hidden_is_not_granted_with_what_is_around_it(
    tree: Path,
) -> None:
    for path in ("etc/plain", "etc/ours/secret", "etc/deep/hidden/key", "etc/deep/seen", "work/x"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("text")
        (tree / path).chmod(0o666)
    for folder in ("work", "etc"):
        (tree / folder).chmod(0o777)
    (tree / "etc/way-in").symlink_to("ours/secret")
    (tree / "etc/other").symlink_to("deep/seen")
    spec = Spec(
        write=(str(tree / "work"),), hidden=(str(tree / "etc/ours"), str(tree / "etc/deep/hidden"))
    )
    steps = confine.steps(
        spec, Kernel(confine.here().architecture, ABI), system=("/usr", f"{tree}/etc", "/absent")
    )
    code = f"""
os.chdir({str(tree)!r})
def look(path): os.close(os.open(path, os.O_RDONLY))
def make(path): os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
for path in ('etc/plain', 'etc/ours/secret', 'etc/way-in', 'etc/other', 'etc/deep/seen',
             'etc/deep/hidden/key', 'work/x', '/proc/self/status', '/proc/1/status', '/home'):
    attempt(path, look, path)
attempt('write-etc', make, 'etc/plain')
attempt('write-work', make, 'work/new')
attempt('write-null', make, '/dev/null')
attempt('write-proc', make, '/proc/self/oom_score_adj')
attempt('tmp', make, '/tmp/effectd-never')
"""
    found = results(behind(steps, code))
    readable = ("etc/plain", "etc/other", "etc/deep/seen", "work/x", "write-work", "write-null")
    for path in (*readable, "/proc/self/status", "/proc/1/status"):
        assert found.pop(path) == "ok", path
    assert set(found) >= {"etc/ours/secret", "etc/way-in", "etc/deep/hidden/key", "tmp", "/home"}
    assert set(found.values()) == {"EACCES"}, found


@needs_landlock
@pytest.mark.guarantee("S4")
@pytest.mark.usefixtures("no_namespaces")
async def test_a_handler_without_namespaces_sees_files_as_its_spec_says(
    cgroup_root: Path, tree: Path
) -> None:
    for name in ("read", "write", "neither"):
        (tree / name).mkdir()
        (tree / name).chmod(0o777)
        (tree / name / "file").write_text(name)
    spec = Spec(
        accept_missing=("user_namespace",),
        tasks_max=600,  # counts every process of the uid
        read=(str(tree / "read"),),
        write=(str(tree / "write"),),
        hidden=("/etc/passwd",),
    )
    script = f"""
cd {tree}
cat read/file write/file
cat neither/file || echo hidden
cat /etc/passwd >/dev/null || echo no passwd
cat /etc/group >/dev/null && echo group
echo x >read/new || echo no new
echo x >write/new && echo new
ls /tmp >/dev/null || echo no tmp
"""
    async with launched(cgroup_root=cgroup_root) as launcher:
        _, out, err = await run_to_end(launcher, ("/bin/sh", "-c", script), spec=spec)
    assert out.decode().split("\n") == [
        *("readwritehidden", "no passwd", "group", "no new", "new", "no tmp", ""),
    ], err


@pytest.mark.guarantee("S5")
@pytest.mark.usefixtures("no_namespaces")
async def test_without_a_new_root_no_unix_socket_can_be_declared(cgroup_root: Path) -> None:
    """Its filter would allow all of them, and our own is one."""
    spec = Spec(accept_missing=("user_namespace",), unix=("/run/some.sock",))
    async with launched(cgroup_root=cgroup_root) as launcher:
        with pytest.raises(SandboxUnavailable, match="unix sockets") as caught:
            await launcher.prepare(spec)
        assert caught.value.layer == "root"


@pytest.mark.guarantee("S5")
@pytest.mark.usefixtures("no_namespaces")
async def test_without_a_network_namespace_the_filter_alone_leaves_no_family(
    cgroup_root: Path,
) -> None:
    code = """
import socket
for family in range(64):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print(family, 'made')
    except OSError as error:
        if error.errno != 97:
            print(family, error)
a, b = socket.socketpair()
print('pair')
"""
    spec = Spec(accept_missing=("user_namespace",), tasks_max=600)
    async with launched(cgroup_root=cgroup_root) as launcher:
        _, out, err = await run_to_end(launcher, ("/usr/bin/python3", "-c", code), spec=spec)
        assert out == b"pair\n", err


@pytest.mark.guarantee("S1", "S3")
@pytest.mark.usefixtures("no_namespaces")
async def test_without_namespaces_the_ladder_still_reaches_every_process(
    cgroup_root: Path,
) -> None:
    """Landlock lets init signal what it started, and the daemon init."""
    script = """
trap 'echo told; exit 7' TERM
setsid sh -c 'trap "echo child told; exit 0" TERM; echo ready; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""
    spec = Spec(accept_missing=("user_namespace",), tasks_max=600)
    async with launched(cgroup_root=cgroup_root) as launcher:
        sandbox = await launcher.prepare(spec)
        command = Command(("/bin/sh", "-c", script), DEFAULT_ENVIRONMENT)
        assert isinstance(await sandbox.dispatch(command), Started)
        assert await read_line(sandbox.stdout) == b"ready\n"
        with trio.fail_after(PATIENCE_S):
            end = await group.end(sandbox, grace_ms=5_000, ask=True)
            assert isinstance(end, Ended), end
            assert (end.how, end.status, end.proof) == ("exited", 7, "cgroup")
            said = await read_all(sandbox.stdout)
        assert b"told\n" in said
        await sandbox.aclose()


# --- in a sandbox


@needs_abi(2)
@pytest.mark.guarantee("S4")
async def test_it_stands_behind_the_mounts_of_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """/run is a file system that the handler owns: only Landlock keeps it from writing there."""
    write = ("/bin/sh", "-c", "echo x >/run/file && echo written")
    async with launched() as launcher:
        _, out, err = await run_to_end(launcher, write)
        assert (out, b"Permission denied" in err) == (b"", True)
        without = Kernel(confine.here().architecture, 0)
        monkeypatch.setattr(confine, "here", lambda: without)
        spec = Spec(file_size_max=1_234_567)  # one that no other test has a plan of
        sandbox = await launcher.prepare(spec)
        assert "landlock" not in sandbox.layers
        await sandbox.discard()
        _, out, _ = await run_to_end(launcher, write, spec=spec)
        assert out == b"written\n"


@pytest.mark.guarantee("S4")
async def test_ordinary_work_on_files_goes_on_in_a_sandbox(tree: Path) -> None:
    script = f"""
set -e
cd /tmp
mkdir -p a/b c home/x
echo one >a/file; mv a/file c/file; ln c/file a/b/hard; ln -s c/file soft
printf '#!/bin/sh\\necho ran\\n' >run; chmod +x run; ./run
cat soft a/b/hard
: >c/file; test ! -s a/b/hard
mkfifo pipe; rm -r pipe a c soft
echo to-null >/dev/null; head -c 3 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c
echo through >/dev/stdout; echo also >/proc/self/fd/1; cat /dev/stdin
echo e >/dev/stderr
echo shared >/dev/shm/x; cat /tmp/x; echo v >/var/tmp/y
cp /bin/true {tree}/true; {tree}/true; mkdir {tree}/sub; mv {tree}/true {tree}/sub/true
mv {tree}/sub/true /tmp/true
cat /proc/self/comm; test "$(stat -c %F /run/credentials)" = directory
! test -t 0
"""
    async with launched() as launcher:
        end, out, err = await run_to_end(
            launcher,
            ("/bin/sh", "-c", script),
            spec=Spec(write=(str(tree),)),
            stdin=b"from stdin\n",
        )
    assert out.decode().splitlines() == [
        *("ran", "one", "one", "3", "2", "through", "also", "from stdin", "shared", "cat"),
    ], err
    assert (end.status, err) == (0, b"e\n")


@pytest.mark.guarantee("S4")
async def test_a_file_made_without_a_name_can_be_run_and_reopened() -> None:
    code = """
import os
fd = os.memfd_create('program', 0)
os.write(fd, open('/bin/echo', 'rb').read())
again = os.open(f'/proc/self/fd/{fd}', os.O_RDONLY)
os.close(again)
os.execve(fd, ['echo', 'ran'], {})
"""
    async with launched() as launcher:
        _, out, err = await run_to_end(launcher, ("/usr/bin/python3", "-c", code))
    assert out == b"ran\n", err


def test_the_environment_of_a_handler_points_at_what_it_may_write() -> None:
    writable = [path for _, right, path in confine._inside() if right == confine.WRITE]
    for name in ("HOME", "TMPDIR", "CREDENTIALS_DIRECTORY"):
        assert any((DEFAULT_ENVIRONMENT[name] + "/").startswith(path + "/") for path in writable)
