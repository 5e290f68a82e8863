"""No descriptor of a handler leads out: not those it starts with, not those it is handed."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC240

from __future__ import annotations

import array
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.containment.support import (
    PYTHON,
    Held,
    Programs,
    found,
    seen,
    waiter,
)
from tests.sandbox.support import launched


@pytest.mark.guarantee("S4", "S7")
def test_descriptors_are_0_to_3_and_none_is_a_directory_or_leads_to_one(programs: Programs) -> None:
    held = seen(programs)["descriptors"]
    assert set(held) == {"0", "1", "2", "3"}
    for one in held.values():
        assert one["directory"] is False
        assert one["above"] == "Not a directory"


@pytest.mark.guarantee("S4")
def test_the_directories_of_a_handler_are_in_its_own_mounts(programs: Programs) -> None:
    mounts = {mount["id"] for mount in seen(programs)["mounts"]}
    assert set(seen(programs)["directory_mounts"].values()) <= mounts


@pytest.mark.guarantee("S4")
async def test_from_outside_too_no_descriptor_of_a_sandbox_is_a_directory(
    programs: Programs,
) -> None:
    async with launched() as launcher, Held(launcher, waiter(), programs.spec()) as held:
        inner = _below(held.sandbox.identity.init_pid)
        assert len(inner) == 2, "init and the handler"
        looked = 0
        for pid in inner:
            mounts = _mount_ids(pid)
            for link in (*Path(f"/proc/{pid}").glob("cwd"), *Path(f"/proc/{pid}").glob("root")):
                if (number := _mount_of(link)) is not None:
                    looked += 1
                    assert number in mounts, link
            for fd in _entries(Path(f"/proc/{pid}/fd")):
                looked += 1
                assert not fd.is_dir(), (fd, os.readlink(fd))
        assert looked >= 6, "nothing was looked at"


def _below(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(inner for child in children for inner in _below(int(child)))]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except PermissionError:
        return []  # init's, for anyone but root: it is not dumpable


def _mount_ids(pid: int) -> set[int]:
    try:
        text = Path(f"/proc/{pid}/mountinfo").read_text()
    except PermissionError:
        return set()
    return {int(line.split()[0]) for line in text.splitlines()}


def _mount_of(link: Path) -> int | None:
    try:
        fd = os.open(link, os.O_PATH)
    except PermissionError:
        return None
    words = Path(f"/proc/self/fdinfo/{fd}").read_text().split()
    os.close(fd)
    return int(words[words.index("mnt_id:") + 1])


# --- what is handed over


@pytest.mark.guarantee("S4")
async def test_a_directory_that_a_declared_service_hands_over_leads_nowhere(
    programs: Programs, folder: Path
) -> None:
    """A service may be careless with its descriptors. A directory of the host's, received over a
    declared socket, is outside the new root, and there every path leads on."""
    (folder / "secret").write_text("the host's")
    (folder / "secret").chmod(0o666)
    path = folder / "service"
    code = (
        "import array, errno, json, os, socket\n"
        "one = socket.socket(socket.AF_UNIX)\n"
        f"one.connect({str(path)!r})\n"
        "data, rights, _, _ = one.recvmsg(1, 64)\n"
        "there, file = array.array('i', rights[0][2])\n"
        "found = {}\n"
        "def tried(name, way):\n"
        "    try: way(); found[name] = 'open'\n"
        "    except OSError as error: found[name] = errno.errorcode[error.errno]\n"
        "tried('read', lambda: os.open('secret', os.O_RDONLY, dir_fd=there))\n"
        "tried('write', lambda: os.open('secret', os.O_WRONLY, dir_fd=there))\n"
        "tried('make', lambda: os.mkdir('made', dir_fd=there))\n"
        "tried('remove', lambda: os.unlink('secret', dir_fd=there))\n"
        "tried('list', lambda: os.listdir(f'/proc/self/fd/{there}'))\n"
        "tried('climb', lambda: os.open('../../../../etc/passwd', os.O_RDONLY, dir_fd=there))\n"
        "tried('reopen for writing', lambda: os.open(f'/proc/self/fd/{file}', os.O_WRONLY))\n"
        "tried('enter', lambda: (os.fchdir(there), os.open('secret', os.O_RDONLY)))\n"
        "found['declared'] = os.pread(file, 100, 0).decode()\n"
        "print(json.dumps(found))\n"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        thread = threading.Thread(target=_hand_over, args=(listener, folder))
        thread.start()
        async with launched() as launcher:
            argv = (PYTHON, "-I", "-S", "-c", code)
            got = await found(launcher, argv, programs.spec(unix=(str(path),)))
        thread.join()
    assert got.pop("declared") == "the host's", "a file that is handed over can be read"
    assert "open" not in got.values(), got
    assert (folder / "secret").exists()


def _hand_over(listener: socket.socket, folder: Path) -> None:
    there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    file = os.open(folder / "secret", os.O_RDONLY)
    one, _ = listener.accept()
    with one:
        one.sendmsg(
            [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [there, file]))]
        )
    os.close(there)
    os.close(file)
