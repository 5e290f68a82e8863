"""Runs a program inside a real sandbox and reads what it found there."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import attrs
import pytest
import trio

from sandbox.client import Launcher
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Spec, Started
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, launched, read_line, run_to_end

PYTHON = "/usr/bin/python3"
SHARED_UID = os.getuid() == HANDLER_UID


def _may_mount() -> bool:
    """Whether this is root with all of root's rights, which it is not in most containers."""
    tried = ["unshare", "--mount", "true"]
    return os.getuid() == 0 and subprocess.run(tried, check=False).returncode == 0


needs_root = pytest.mark.skipif(not _may_mount(), reason="only root can do this to a host")


Found = dict[str, Any]


@attrs.frozen
class Programs:
    """The programs of this suite where the handlers' user can run them."""

    folder: Path

    @property
    def attempts(self) -> str:
        return str(self.folder / "attempts")

    def python(self, name: str, *words: object) -> tuple[str, ...]:
        """The command line of ``programs/NAME.py``."""
        return (PYTHON, "-I", "-S", str(self.folder / f"{name}.py"), *map(str, words))

    def spec(self, **options: Any) -> Spec:
        """A sandbox that shows the programs and whatever else is asked for."""
        closure = (str(self.folder), *options.pop("closure", ()))
        return Spec(closure=closure, **options)


def build(folder: Path) -> Programs:
    """Copy and compile them into ``folder``."""
    for source in Path(__file__).with_name("programs").iterdir():
        if source.suffix == ".py":
            shutil.copy(source, folder)
            (folder / source.name).chmod(0o755)
        elif source.suffix == ".c":
            target = folder / source.stem
            subprocess.run(["cc", "-O1", "-Wall", "-pthread", "-o", target, source], check=True)
            target.chmod(0o755)
    return Programs(folder)


def open_directory(parent: Path, mode: int = 0o777) -> Path:
    """A new directory that the handlers' user may write to."""
    made = Path(tempfile.mkdtemp(dir=parent))
    made.chmod(mode)
    return made


def outcomes(text: bytes) -> dict[str, str]:
    """What `attempts` said, by name."""
    return dict(line.split() for line in text.decode().splitlines())


async def found(
    launcher: Launcher, argv: tuple[str, ...], spec: Spec, **command: Any
) -> dict[str, Any]:
    """The JSON object that a program printed inside before it ended with 0."""
    end, out, err = await run_to_end(launcher, argv, spec=spec, **command)
    assert isinstance(end, Ended), (end, err)
    assert (end.how, end.status) == ("exited", 0), (end, out, err.decode())
    return json.loads(out)


@functools.cache
def seen(programs: Programs, **options: Any) -> Found:
    """What `programs/seen.py` tells of a sandbox with these options, looked at once."""

    async def look() -> Found:
        async with launched() as launcher:
            return await found(launcher, programs.python("seen"), programs.spec(**options))

    return trio.run(look)


async def reached(programs: Programs, wanted: list[tuple[str, str]], **options: Any) -> Found:
    """How each of the [how, path] ends inside: `open`, or the errno. See `programs/reach.py`."""
    async with launched() as launcher:
        given = json.dumps(wanted).encode()
        return await found(
            launcher, programs.python("reach"), programs.spec(**options), stdin=given
        )


def waiter() -> tuple[str, ...]:
    """The command line of a program that says it is up and ends at a line on fd 3."""
    code = "import os; print('true', flush=True); os.read(3, 1); print('true', flush=True)"
    return (PYTHON, "-I", "-S", "-c", code)


class Held:
    """A program that was started inside, has said one line and waits for the next on fd 3."""

    def __init__(self, launcher: Launcher, argv: tuple[str, ...], spec: Spec, **more: Any) -> None:
        self._launcher = launcher
        self._argv = argv
        self._spec = spec
        self._more = more

    async def __aenter__(self) -> Self:
        self.sandbox = await self._launcher.prepare(self._spec)
        command = Command(self._argv, DEFAULT_ENVIRONMENT, **self._more)
        try:
            started = await self.sandbox.dispatch(command)
            assert isinstance(started, Started), started
            self.said = json.loads(await read_line(self.sandbox.stdout))
        except BaseException:
            await self.sandbox.discard()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sandbox.discard()

    async def go(self, line: str = "") -> Any:
        """Let it go on; the next line that it says, as JSON."""
        await self.sandbox.channel.send_all(f"{line}\n".encode())
        return json.loads(await read_line(self.sandbox.stdout))


def as_handler(*argv: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program as the handlers' user without any sandbox: what would it be able to do?"""
    identity = {"user": HANDLER_UID, "group": HANDLER_GID, "extra_groups": []}
    return subprocess.run(
        argv,
        check=False,
        capture_output=True,
        timeout=60,
        cwd="/",
        env=dict(DEFAULT_ENVIRONMENT),
        **(identity if os.getuid() == 0 else {}),
        **options,
    )
