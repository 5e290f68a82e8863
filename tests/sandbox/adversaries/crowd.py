"""Many adversaries side by side, each in a sandbox of its own, each beating while it lives."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import trio

from sandbox.client import Launcher, Sandbox
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Spec, Started
from tests.sandbox.adversaries import BUSY
from tests.sandbox.support import kill_tagged, new_tag, read_line, tagged

# Longer than any adversary that is alive and beats goes without beating, on a quiet machine.
SILENCE_S = 0.03
TASKS_MAX = 24
_pages = itertools.count()


@attrs.frozen
class Page:
    """Four kilobytes that one adversary beats in."""

    path: Path

    def beats(self) -> int:
        return int.from_bytes(self.path.read_bytes()[:8], "little")

    def is_set_up(self) -> bool:
        return any(self.path.read_bytes()[8:16])

    def clear(self) -> None:
        """Before it is used again; it stays the same file."""
        with self.path.open("r+b") as file:
            file.write(bytes(16))


class Pages:
    """Shared memory for the adversaries' beats, in a directory that they may write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self) -> Page:
        path = self.folder / f"page-{next(_pages)}"
        path.write_bytes(bytes(4096))
        path.chmod(0o666)
        return Page(path)


@contextlib.contextmanager
def new_pages() -> Iterator[Pages]:
    folder = Path(tempfile.mkdtemp(prefix="effectd-beat-"))
    folder.chmod(0o755)
    try:
        yield Pages(folder)
    finally:
        shutil.rmtree(folder)


@attrs.frozen
class Guest:
    """One adversary that has set up its tree."""

    mode: str
    tag: str
    page: Page
    sandbox: Sandbox

    async def assert_silent(self) -> None:
        """From this very moment on."""
        before = self.page.beats()
        await trio.sleep(SILENCE_S)
        assert self.page.beats() == before, f"{self.mode} is alive"


@attrs.frozen
class Crowd:
    """Adversaries of one program, in sandboxes of one kind."""

    launcher: Launcher
    program: str
    pages: Pages
    tag: str = attrs.field(factory=new_tag)
    accept_missing: tuple[str, ...] = ()

    def spec(self, mode: str) -> Spec:
        # A storm to a low cap is as much of a storm, and leaves time for the others.
        return Spec(
            closure=(self.program,),
            write=(str(self.pages.folder),),
            tasks_max=256 if mode == "threads" else TASKS_MAX,
            accept_missing=self.accept_missing,
        )

    async def dispatch(self, sandbox: Sandbox, mode: str, stay: str) -> Guest:
        page = self.pages.new()
        argv = (self.program, mode, stay, f"{self.tag}{mode}", str(page.path))
        started = await sandbox.dispatch(Command(argv, DEFAULT_ENVIRONMENT))
        assert isinstance(started, Started), started
        assert await read_line(sandbox.stdout) == b"ready\n"
        return Guest(mode, self.tag, page, sandbox)


@contextlib.asynccontextmanager
async def gathered(crowd: Crowd, modes: tuple[str, ...], stay: str) -> AsyncIterator[list[Guest]]:
    """All of them at the same time; afterwards none of their processes is left on the host.

    Every sandbox is there before the first of them starts, and the busy ones start last: little
    could be started beside them.
    """
    sandboxes: dict[str, Sandbox] = {}
    guests: list[Guest] = []

    async def prepare(mode: str) -> None:
        sandboxes[mode] = await crowd.launcher.prepare(crowd.spec(mode))

    async def start(mode: str, sandbox: Sandbox) -> None:
        guests.append(await crowd.dispatch(sandbox, mode, stay))

    try:
        async with trio.open_nursery() as nursery:
            for mode in modes:
                nursery.start_soon(prepare, mode)
        for busy in (False, True):
            async with trio.open_nursery() as nursery:
                for mode, sandbox in sandboxes.items():
                    if (mode in BUSY) == busy:
                        nursery.start_soon(start, mode, sandbox)
        yield guests
        assert not tagged(crowd.tag), named(crowd.tag)
    finally:
        with trio.CancelScope(shield=True):
            kill_tagged(crowd.tag)
            for sandbox in sandboxes.values():
                await sandbox.discard()


def named(tag: str) -> list[str]:
    """What is left, for a person."""
    found = []
    for pid in tagged(tag):
        with contextlib.suppress(OSError):
            found.append(f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}")
    return found
