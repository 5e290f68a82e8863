"""The host's mounts and a sandbox: what comes later, what goes away, what hangs, what is hidden."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC220, ASYNC221

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from sandbox import pool
from sandbox.spec import SandboxUnavailable, Spec
from tests.containment.support import (
    PYTHON,
    Held,
    Programs,
    found,
    needs_root,
    open_directory,
    waiter,
)
from tests.sandbox.support import PATIENCE_S, launched, poll, run_to_end


@pytest.fixture
def shared_mount(folder: Path) -> Iterator[Path]:
    """A directory of the host under which mounts are passed on to whoever listens."""
    place = open_directory(folder)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    subprocess.run(["mount", "--make-shared", place], check=True)
    place.chmod(0o777)
    yield place
    subprocess.run(["umount", "-R", "-l", place], check=True)


@needs_root
@pytest.mark.guarantee("S4")
async def test_a_mount_that_the_host_makes_later_does_not_arrive(
    programs: Programs, shared_mount: Path
) -> None:
    late = shared_mount / "late"
    late.mkdir()
    code = (
        "import os, json\n"
        "print('true', flush=True); os.read(3, 1)\n"
        f"print(json.dumps(os.listdir({str(late)!r})), flush=True)\n"
    )
    argv = (PYTHON, "-I", "-S", "-c", code)
    listener = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "slave", "sh", "-c", f"echo; read x; ls {late}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "\n"
        async with launched() as launcher:
            spec = programs.spec(read=(str(shared_mount),))
            async with Held(launcher, argv, spec) as held:
                subprocess.run(["mount", "-t", "tmpfs", "tmpfs", late], check=True)
                (late / "arrived").write_text("")
                assert await held.go() == []
        out, _ = listener.communicate("\n", timeout=60)
    assert out == "arrived\n", "whoever listens hears of it"


@needs_root
async def test_a_file_system_that_the_host_unmounts_is_let_go_within_the_age(
    programs: Programs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands ready holds it, since the kernel cannot take it away; so nothing stands long."""
    monkeypatch.setattr(pool, "AGE_MAX_S", 1.0)
    disk, place = folder / "disk", open_directory(folder)
    with disk.open("wb") as file:
        file.truncate(4 << 20)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("needs mkfs.ext4 (e2fsprogs) for a disk that can be seen to be let go")
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    loop = subprocess.run(
        ["losetup", "--find", "--show", disk], check=False, capture_output=True, text=True
    )
    if loop.returncode:
        pytest.skip(f"no loop device to be had here: {loop.stderr.strip()}")
    device = loop.stdout.strip()
    try:
        subprocess.run(["mount", device, place], check=True)
        async with launched(pool=2) as launcher:
            spec = programs.spec(read=(str(place),))
            async with Held(launcher, waiter(), spec):
                subprocess.run(["umount", place], check=True)
                assert _held(device), "the sandbox still shows it"
            await poll(lambda: not _held(device))
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _held(device: str) -> bool:
    """Whether a file system on it is still mounted anywhere: then it cannot be had alone."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError:
        return True
    return False


# --- what hangs


async def test_a_fifo_among_the_declared_paths_hangs_nobody(
    programs: Programs, folder: Path
) -> None:
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    async with launched() as launcher:
        with trio.fail_after(PATIENCE_S):
            argv = programs.python("seen")
            got = await found(launcher, argv, programs.spec(read=(str(fifo),)))
    assert str(fifo) in {mount["point"] for mount in got["mounts"]}


@needs_root
async def test_a_path_that_hangs_stops_no_other_handler(
    programs: Programs,
    folder: Path,
    hanging: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "PREPARE_S", 3.0)
    hanging(folder)
    refused: list[SandboxUnavailable] = []
    async with launched() as launcher:
        await found(launcher, programs.python("seen"), programs.spec())

        async def hang() -> None:
            with pytest.raises(SandboxUnavailable) as caught:
                await launcher.prepare(Spec(read=(f"{folder}/x",)))
            refused.append(caught.value)

        served = 0
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(hang)
            while not refused:
                await found(launcher, programs.python("seen"), programs.spec())
                served += 1
        assert served >= 2, "while they hung"
    assert len(refused) == 3
    assert {one.layer for one in refused} <= {"init", "root"}


# --- what stands in for what is hidden


@pytest.fixture
def beside_the_private_ones() -> Iterator[Path]:
    """A directory that a template shows, because no sandbox has one of its own there."""
    place = Path("/srv") if os.getuid() == 0 else Path.home()
    if not place.is_dir() or place.is_relative_to("/tmp"):
        pytest.skip(f"{place} is no place for this")
    made = Path(tempfile.mkdtemp(dir=place, prefix="effectd-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.guarantee("S4")
async def test_what_stands_in_for_a_hidden_path_cannot_be_changed_for_the_next_attempt(
    beside_the_private_ones: Path,
) -> None:
    """It belongs to the handler, and all attempts of a template see the same."""
    place = beside_the_private_ones
    (place / "file").write_text("hidden")
    (place / "folder").mkdir()
    paths = (str(place / "file"), str(place / "folder"))
    spec = Spec(closure=(str(place),), hidden=paths)
    look = f"stat -c '%A %s %Y' {paths[0]} {paths[1]}"
    change = (
        f"chmod 777 {paths[0]} {paths[1]}; echo left > {paths[0]}; touch -d @1 {paths[0]};"
        f" echo left > {paths[1]}/x; setfattr -n user.x -v y {paths[0]}; true"
    )
    async with launched() as launcher:
        _, before, _ = await run_to_end(launcher, ("/bin/sh", "-c", look), spec=spec)
        assert before.count(b"---------") == 2
        await run_to_end(launcher, ("/bin/sh", "-c", change), spec=spec)
        _, after, _ = await run_to_end(launcher, ("/bin/sh", "-c", look), spec=spec)
    assert after == before
    assert (place / "file").read_text() == "hidden"
