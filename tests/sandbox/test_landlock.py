"""Landlock: what each ABI is asked for, and what it holds by itself and in a sandbox."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import confine, landlock, plan, wire
from sandbox.confine import Kernel
from sandbox.spec import SandboxUnavailable, Spec
from sandbox.syscalls import X86_64

STEPPED = Path(__file__).with_name("stepped.py")
ABI = confine.here().landlock
FOR_FILES = [landlock.EXECUTE, landlock.WRITE_FILE, landlock.READ_FILE]
HEADER = Path("/usr/include/linux/landlock.h")

needs_landlock = pytest.mark.skipif(not ABI, reason="this kernel has no Landlock")


def needs_abi(abi: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif(abi > ABI, reason=f"this kernel's Landlock is below ABI {abi}")


@pytest.fixture
def tree(open_folder: Path) -> Iterator[Path]:
    """A directory that every uid can write to."""
    folder = Path(tempfile.mkdtemp(prefix="landlock-", dir=open_folder))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def behind(steps: list[bytes], code: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a process that has taken the steps, with no namespaces around it."""
    prelude = """
import errno, os
def attempt(name, call, *arguments):
    try:
        call(*arguments)
        print(name, 'ok')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""
    given = {"steps": [step.hex() for step in steps], "code": prelude + code}
    return subprocess.run(
        [sys.executable, "-I", "-S", STEPPED, STEPPED.parents[2]],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def results(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def words(steps: list[bytes]) -> list[list[bytes]]:
    return [wire.unpack_list(step) for step in steps]


# --- what is asked for


def test_the_rights_are_those_of_the_kernels_header() -> None:
    if not HEADER.exists():
        pytest.skip("no kernel headers here")
    found = re.findall(
        r"^#define LANDLOCK_ACCESS_FS_(\w+)\s+\(1ULL << (\d+)\)", HEADER.read_text(), re.MULTILINE
    )
    assert len(found) >= 13
    for name, bit in found:
        assert getattr(landlock, name) == 1 << int(bit)


@pytest.mark.parametrize(
    ("abi", "count", "size", "scoped", "flags"),
    [
        (1, 13, 8, 0, 0),
        (2, 14, 8, 0, 0),
        (3, 15, 8, 0, 0),
        (4, 15, 8, 0, 0),  # what it brought is about TCP ports
        (5, 16, 8, 0, 0),
        (6, 16, 24, 3, 0),
        (7, 16, 24, 3, 2),
        (8, 16, 24, 3, 2),
        (99, 16, 24, 3, 2),
    ],
)
def test_each_abi_is_asked_for_what_it_has_and_no_more(
    abi: int, count: int, size: int, scoped: int, flags: int
) -> None:
    every = [(0, confine.READ, "/"), (0, confine.WRITE, "/tmp"), (1, confine.READ, "/x")]
    first, *rules, last = words(confine.landlock_steps(abi, every, "landlock"))
    handled = (1 << count) - 1
    assert first == [b"landlock", b"landlock", b"%d" % handled, b"%d" % scoped, b"%d" % size]
    assert last == [b"landlock", b"landlock_enforce", b"%d" % flags]
    assert confine.rights(abi) == handled
    for (flag, right, path), rule in zip(every, rules, strict=True):
        asked = b"%d" % (right & handled)
        assert rule == [b"landlock", b"landlock_allow", b"%d" % flag, asked, path.encode()]


def test_what_is_writable_lacks_only_the_making_of_devices() -> None:
    assert confine.rights(99) & ~confine.WRITE == landlock.MAKE_CHAR | landlock.MAKE_BLOCK


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize(
    ("kernel", "own_root", "refused"),
    [
        (Kernel(X86_64, 0), True, ""),
        (Kernel(X86_64, 1), True, ""),  # it would forbid to move files between directories
        (Kernel(X86_64, 0, "Operation not permitted"), True, "Operation not permitted"),
        (Kernel(X86_64, 0), False, "no Landlock"),
        (Kernel(X86_64, 0, "Operation not permitted"), False, "Operation not permitted"),
    ],
)
def test_a_kernel_without_it_is_recorded_and_one_that_refuses_it_is_refused(
    kernel: Kernel, own_root: bool, refused: str, accepted: bool
) -> None:
    spec = Spec(accept_missing=("landlock",) if accepted else ())
    system = None if own_root else ("/usr",)
    if refused and not accepted:
        with pytest.raises(SandboxUnavailable, match=refused) as caught:
            confine.steps(spec, kernel, system=system)
        assert caught.value.layer == "landlock"
        assert caught.value.remedy
    else:
        assert {step[0] for step in words(confine.steps(spec, kernel, system=system))} == {
            b"seccomp"
        }


@pytest.mark.guarantee("S9")
def test_a_machine_without_a_filter_is_refused_unless_that_is_accepted() -> None:
    with pytest.raises(SandboxUnavailable, match="not known") as caught:
        confine.steps(Spec(), Kernel(None, 7))
    assert caught.value.layer == "seccomp"
    assert "accept_missing" in caught.value.remedy
    steps = words(confine.steps(Spec(accept_missing=("seccomp",)), Kernel(None, 7)))
    assert {step[0] for step in steps} == {b"landlock"}


def test_landlock_comes_before_the_filter_and_both_after_everything_else() -> None:
    _, attempt, *_ = wire.unpack_list(plan.template(Spec()))
    names = [step[1].decode() for step in words(wire.unpack_list(attempt))]
    assert names.index("enter") < names.index("no_new_privs")
    assert names[names.index("no_new_privs") + 1] == ("landlock" if ABI > 1 else "filter")
    assert names[-2:] == ["filter", "seccomp"]


# --- what it holds by itself


@needs_landlock
@pytest.mark.parametrize("abi", range(1, 8))
def test_every_abi_up_to_this_kernels_is_enforced(abi: int, tree: Path) -> None:
    """An older ABI is a subset, so this kernel can stand for the older ones."""
    if abi > ABI:
        pytest.skip(f"this kernel's Landlock is below ABI {abi}")
    (tree / "open").mkdir()
    (tree / "shut").mkdir()
    for folder in ("open", "shut"):
        (tree / folder).chmod(0o777)
        (tree / folder / "file").write_text("old")
        (tree / folder / "file").chmod(0o666)
    rules = [
        (0, confine.READ, "/usr"),
        (0, confine.WRITE, str(tree / "open")),
        (0, confine.WRITE, "/dev/null"),  # a file: the rights of directories are left out
        (1, confine.WRITE, str(tree / "absent")),
    ]
    code = f"""
os.chdir({str(tree)!r})
def make(path): os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
def look(path): os.close(os.open(path, os.O_RDONLY))
for side in ('open', 'shut'):
    attempt(side + '-read', look, side + '/file')
    attempt(side + '-write', make, side + '/file')
    attempt(side + '-make', make, side + '/new')
    attempt(side + '-mkdir', os.mkdir, side + '/folder')
    attempt(side + '-list', os.listdir, side)
    attempt(side + '-truncate', os.truncate, side + '/file', 0)
    attempt(side + '-symlink', os.symlink, 'x', side + '/link')
    attempt(side + '-fifo', os.mkfifo, side + '/fifo')
    attempt(side + '-unlink', os.unlink, side + '/file')
attempt('move', os.rename, 'open/new', 'open/folder/new')
attempt('out', os.rename, 'open/link', 'shut/link')
attempt('null', make, '/dev/null')
attempt('zero', look, '/dev/zero')
attempt('absent', os.mkdir, 'absent')
"""
    found = results(behind(confine.landlock_steps(abi, rules, "landlock"), code))
    assert {name for name in found if name.startswith("open-") and found[name] != "ok"} == set()
    for name in ("read", "write", "make", "mkdir", "list", "symlink", "fifo", "unlink"):
        assert found[f"shut-{name}"] == "EACCES"
    assert found["shut-truncate"] == ("EACCES" if abi >= 3 else "ok")
    assert found["move"] == ("ok" if abi >= 2 else "EXDEV")
    assert found["out"] in ("EACCES", "EXDEV")
    assert (found["null"], found["zero"], found["absent"]) == ("ok", "EACCES", "EACCES")


@needs_abi(6)
def test_signals_and_abstract_sockets_end_at_the_sandbox() -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", DROPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as outside,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        assert outside.stdout is not None
        assert outside.stdout.readline() == b"here\n"
        name = f"effectd-test-{os.getpid()}"
        listener.bind(f"\0{name}")
        listener.listen()
        code = f"""
import socket
attempt('signal', os.kill, {outside.pid}, 0)
attempt('self', os.kill, os.getpid(), 0)
attempt('abstract', socket.socket(socket.AF_UNIX).connect, '\\0{name}')
"""
        rules = [(0, confine.READ, "/")]
        found = results(behind(confine.landlock_steps(ABI, rules, "landlock"), code))
        assert found == {"signal": "EPERM", "self": "ok", "abstract": "EPERM"}
        found = results(behind([], code))
        assert set(found.values()) == {"ok"}, "without Landlock both are possible"
        outside.communicate(b"")


DROPPED = """
import os, sys
if os.getuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
print('here', flush=True)
sys.stdin.read()
"""


def test_a_ruleset_that_the_kernel_does_not_take_says_why() -> None:
    with pytest.raises(OSError, match=r".") as caught:
        landlock.begin(b"0", b"0", b"8")
    # ENOMSG: nothing to deny. ENOSYS and EOPNOTSUPP: no Landlock here.
    assert caught.value.errno in (errno.ENOMSG, errno.ENOSYS, errno.EOPNOTSUPP)


def test_the_kernel_is_asked_once_beside_the_rest_and_nobody_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, real = confine.here(), subprocess.Popen
    begun: list[subprocess.Popen[bytes]] = []

    def noted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        begun.append(real(*arguments, **options))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    confine.here.cache_clear()
    confine.ask()
    confine.ask()
    assert len(begun) == 1
    assert confine.here() == confine.here() == known
    confine.ask()
    assert [one.returncode for one in begun] == [0]
