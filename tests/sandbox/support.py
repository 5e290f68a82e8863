"""What the sandbox's tests share: handlers' ids, a launcher that is run, and a look at /proc."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from sandbox.client import Launcher, Sandbox
from sandbox.pool import Pool
from sandbox.spec import (
    DEFAULT_ENVIRONMENT,
    Command,
    Ended,
    Lost,
    NamespacesRefused,
    Spec,
    Started,
)

NOBODY = 65_534
HANDLER_UID = NOBODY if os.getuid() == 0 else os.getuid()
HANDLER_GID = NOBODY if os.getuid() == 0 else os.getgid()
IDS = {"handler_uid": HANDLER_UID, "handler_gid": HANDLER_GID}

# How long a test waits for what must come. Never the claim: a machine may be slow and shared.
PATIENCE_S = 60.0

_tags = itertools.count()


def new_tag() -> str:
    """A word that no other process on this host has in its command line."""
    return f"tag-{os.getpid()}-{time.monotonic_ns()}-{next(_tags)}-"


@contextlib.asynccontextmanager
async def launched(**options: object) -> AsyncIterator[Launcher]:
    """A launcher that is watched, and closed at the end."""
    launcher = Launcher.start(**{**IDS, **options})
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        try:
            yield launcher
        finally:
            await launcher.close()


def tagged(tag: str) -> list[int]:
    """Pids of live processes with ``tag`` in their command line; zombies are dead."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                if tag.encode() not in file.read():
                    continue
            with open(f"/proc/{entry.name}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX":
            found.append(int(entry.name))
    return found


def kill_tagged(tag: str) -> None:
    """After a failed test: end what it left, by pid."""
    for pid in tagged(tag):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(claim: Callable[[], bool], seconds: float = PATIENCE_S) -> float:
    """Poll until ``claim`` holds: the seconds it took. AssertionError after ``seconds``."""
    start = time.monotonic()
    while not claim():
        assert time.monotonic() - start < seconds, f"not within {seconds} s"
        time.sleep(0.002)
    return time.monotonic() - start


async def poll(claim: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Like `wait_until`, while other tasks run."""
    with trio.fail_after(seconds):
        while not claim():  # noqa: ASYNC110 - the kernel sets no trio.Event
            await trio.sleep(0.002)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    data = b""
    async for chunk in stream:
        data += chunk
    return data


async def read_line(stream: trio.abc.ReceiveStream) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        chunk = await stream.receive_some(1)
        assert chunk, f"end of file after {data!r}"
        data += chunk
    return data


async def run_to_end(
    launcher: Launcher, argv: tuple[str, ...], *, spec: Spec | None = None, **command: object
) -> tuple[Ended | Lost, bytes, bytes]:
    """Run one command: how it ended, its stdout and its stderr."""
    sandbox = await launcher.prepare(spec or Spec())
    try:
        command.setdefault("env", DEFAULT_ENVIRONMENT)
        started = await sandbox.dispatch(Command(argv, **command))
        assert isinstance(started, Started), started
        out: dict[str, bytes] = {}

        async def collect(name: str, stream: trio.abc.ReceiveStream) -> None:
            out[name] = await read_all(stream)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, "out", sandbox.stdout)
            nursery.start_soon(collect, "err", sandbox.stderr)
            end = await sandbox.leader_exited()
        return end, out["out"], out["err"]
    finally:
        await sandbox.discard()


@contextlib.contextmanager
def no_survivors(tag: str) -> Iterator[None]:
    """Whatever happens inside, nothing with this tag is left on the host."""
    try:
        yield
    finally:
        kill_tagged(tag)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def inits(launcher: Launcher) -> list[int]:
    """The inits of all its templates."""
    found = []
    for template in children(launcher.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += children(template)
    return found


@contextlib.contextmanager
def new_cgroup() -> Iterator[Path]:
    """A delegated cgroup v2 directory of our own; the test is skipped where none can be made."""
    for mount in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
        if (mount / "cgroup.procs").exists():
            break
    else:
        pytest.skip("no cgroup v2 hierarchy is mounted")
    try:
        root = Path(tempfile.mkdtemp(prefix="effectd-test-", dir=mount))
    except OSError as error:
        pytest.skip(f"no cgroup may be made here: {error}")
    root.chmod(0o755)
    try:
        yield root
    finally:
        for folder in sorted(root.rglob("*/"), reverse=True):
            if folder.is_dir():
                folder.rmdir()
        root.rmdir()


async def refused_namespaces(_: Pool, __: Spec) -> NoReturn:
    """`Pool.take` on a host that gives no user namespace."""
    raise NamespacesRefused("user_namespace", "as a test asks", "None.")


__all__ = ["Sandbox"]
