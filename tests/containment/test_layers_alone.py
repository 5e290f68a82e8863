"""Defence in depth, seen: each layer is left to stand alone, and what it holds is compared with
the table of docs/sandbox.md.

Layers are taken away from outside, as an old kernel or a container would (see `thinned.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.containment.support import Programs, as_handler, open_directory
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, new_cgroup

THINNED: Final = Path(__file__).with_name("thinned.py")
PAGE: Final = Path(__file__).parents[2] / "docs" / "sandbox.md"
IPC_CREAT, IPC_RMID = 0o1000, 0

# What is taken away so that the named layer stands alone.
ALONE: Final = {
    "namespaces and new root": ("seccomp", "landlock"),
    "Landlock": ("seccomp", "namespaces"),
    "call filter": ("landlock", "namespaces"),
}


def table() -> dict[str, dict[str, bool]]:
    """The page's table: for each way, which layer alone holds it."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head = next(n for n, row in enumerate(rows) if row.startswith("| A handler tries to"))
    columns = [cell.strip() for cell in rows[head].strip("|").split("|")][1:]
    found = {}
    for row in rows[head + 2 :]:
        way, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        found[way] = {name: cell == "holds" for name, cell in zip(columns, cells, strict=True)}
    return found


@attrs.frozen
class World:
    """What a handler could get at, and how it is told."""

    programs: Programs
    shown: Path
    given: str

    def tried(self, without: tuple[str, ...], cgroup: Path | None) -> dict[str, Any]:
        """What a handler finds, and its layers, when those are taken away."""
        words = [word for layer in without for word in ("--without", layer)]
        words += ["--cgroup", str(cgroup)] if cgroup is not None else []
        asked = {
            "argv": self.programs.python("escape"),
            "closure": [str(self.programs.folder)],
            "read": [str(self.shown)],
            "hidden": [str(self.shown / "hidden")],
            "stdin": self.given,
        }
        done = subprocess.run(
            [sys.executable, THINNED, *words],
            check=False,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def world(programs: Programs, open_folder: Path) -> Iterator[World]:
    folder, shown = open_directory(open_folder), open_directory(open_folder)
    for file in (undeclared := folder / "undeclared", shown / "hidden"):
        file.write_text("the host's")
        file.chmod(0o666)
        if os.getuid() == 0:
            os.chown(file, HANDLER_UID, HANDLER_GID)
    identity: dict[str, Any] = {"user": HANDLER_UID, "group": HANDLER_GID, "extra_groups": []}
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x0E21_0000 + os.getpid() % 0x10000
    with contextlib.ExitStack() as stack:
        bystander = subprocess.Popen(
            ["/bin/sleep", "300"], cwd="/", **(identity if os.getuid() == 0 else {})
        )
        stack.callback(bystander.wait)
        stack.callback(bystander.kill)
        memory = libc.shmget(key, 4096, IPC_CREAT | 0o666)
        assert memory >= 0, os.strerror(ctypes.get_errno())
        stack.callback(libc.shmctl, memory, IPC_RMID, None)
        abstract = f"effectd-test-{os.getpid()}"
        for kind, address in (
            (socket.SOCK_STREAM, str(shown / "stream")),
            (socket.SOCK_DGRAM, str(shown / "datagram")),
            (socket.SOCK_STREAM, f"\0{abstract}"),
        ):
            one = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            one.bind(address)
            if kind == socket.SOCK_STREAM:
                one.listen()
            if not address.startswith("\0"):
                Path(address).chmod(0o777)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        given = {
            "undeclared": str(undeclared),
            "hidden": str(shown / "hidden"),
            "socket": str(shown / "stream"),
            "datagram": str(shown / "datagram"),
            "abstract": abstract,
            "port": tcp.getsockname()[1],
            "pid": bystander.pid,
            "key": key,
        }
        yield World(programs, shown, json.dumps(given))


@pytest.fixture(scope="module")
def whole(world: World) -> dict[str, Any]:
    return world.tried((), None)


@pytest.fixture(scope="module")
def cgroup() -> Iterator[Path]:
    """A cgroup of our own: without namespaces it is what holds the tree together."""
    with new_cgroup() as root:
        yield root


@pytest.mark.guarantee("S4", "S5")
@pytest.mark.parametrize("way", table())
def test_with_every_layer_the_way_is_held(whole: dict[str, Any], way: str) -> None:
    assert whole["found"][way] == "held"


def test_the_page_names_every_way_that_is_tried(whole: dict[str, Any]) -> None:
    assert list(table()) == list(whole["found"])
    assert {"landlock", "seccomp", "root"} <= set(whole["layers"])


def test_without_any_layer_every_way_is_open(world: World) -> None:
    argv = world.programs.python("escape")
    free = json.loads(as_handler(*argv, input=world.given.encode()).stdout)
    # A host may have switched these off itself. Where nothing hides a path, nothing uncovers it.
    kernel = {"use io_uring", "make a vsock socket"}
    nothing = {"unmount what hides a path, in a namespace"}
    assert {way for way in free if free[way] != "open"} <= kernel | nothing


@pytest.mark.guarantee("S9")
def test_namespaces_and_the_new_root_alone_hold_what_the_page_says(world: World) -> None:
    _compare(world.tried(ALONE["namespaces and new root"], None), "namespaces and new root")


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("layer", ["Landlock", "call filter"])
def test_without_namespaces_one_layer_alone_holds_what_the_page_says(
    world: World, cgroup: Path, layer: str
) -> None:
    got = world.tried(ALONE[layer], cgroup)
    assert not {"root", "pid_namespace", "network"} & set(got["layers"])
    _compare(got, layer)


def _compare(got: dict[str, Any], layer: str) -> None:
    layers = {"landlock", "seccomp", "root"} & set(got["layers"])
    mine = {"namespaces and new root": "root", "Landlock": "landlock", "call filter": "seccomp"}
    assert layers == {mine[layer]}
    holds = {way: how == "held" for way, how in got["found"].items()}
    assert holds == {way: row[layer] for way, row in table().items()}


@pytest.mark.guarantee("S4", "S5", "S9")
@pytest.mark.parametrize("without", ["seccomp", "landlock"])
def test_with_one_layer_missing_the_others_hold_what_they_hold_alone(
    world: World, without: str
) -> None:
    """Never less than the namespaces alone, and without Landlock nothing less than everything."""
    got = world.tried((without,), None)
    assert without not in got["layers"]
    open_ways = {way for way, how in got["found"].items() if how == "open"}
    if without == "landlock":
        assert open_ways == set()
    else:
        alone = {way for way, row in table().items() if not row["namespaces and new root"]}
        assert open_ways == alone
