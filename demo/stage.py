"""Everything that one run needs, in one new directory: set up here, and taken away at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from demo.daemon import Daemon
from demo.failure import DemoFailed
from demo.interpreter import find_interpreter
from demo.manifests import write_manifests
from demo.processes import Processes, adopt_orphans
from demo.world import World, start_world

CHECKOUT = Path(__file__).resolve().parent.parent
PREFIX = "effectd-demo-"
SOCKET_PATH_MAX = 107


@attrs.frozen
class Stage:
    """One run's directory, processes and programs."""

    root: Path
    checkout: Path
    processes: Processes
    env: dict[str, str]
    python: str
    """Runs the tools, effectd's handlers and the plain worker's alike."""
    world: World
    daemon: Daemon
    handler_tools: Path
    plain_tools: Path


@contextmanager
def new_root(*, keep: bool) -> Iterator[Path]:
    """A new directory that every user may enter. It stays after a failure, for its logs."""
    root = _make_root()
    try:
        yield root
    except DemoFailed as failed:
        failed.look_at = failed.look_at or tuple(root.glob("effectd.log"))
        raise
    except (KeyboardInterrupt, BrokenPipeError):
        shutil.rmtree(root)
        raise
    except Exception as error:
        log = root / "demo.log"
        log.write_text(traceback.format_exc())
        logs = root / "effectd.log", log
        raise DemoFailed(f"{type(error).__name__}: {error}", *logs) from error
    if not keep:
        shutil.rmtree(root)


def set_up(root: Path, processes: Processes, *, stay: bool) -> Stage:
    """Start the providers and the daemon below `root`; return when both can be used."""
    adopt_orphans()
    env = {name: value for name, value in os.environ.items() if not name.startswith("EFFECTD_")}
    world = start_world(processes, root, CHECKOUT, env, stay=stay)
    handler_tools, plain_tools = _copy_tools(root)
    python = find_interpreter(handler_tools)
    manifests = root / "handlers.d"
    manifests.mkdir()
    write_manifests(manifests, handler_tools, python, world.environment)
    daemon = Daemon(processes, root, CHECKOUT, env)
    daemon.begin()
    daemon.wait_until_ready()
    return Stage(
        root=root,
        checkout=CHECKOUT,
        processes=processes,
        env=env,
        python=python,
        world=world,
        daemon=daemon,
        handler_tools=handler_tools,
        plain_tools=plain_tools,
    )


def _make_root() -> Path:
    try:
        root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        if not _fit_for_handlers(root):
            root.rmdir()
            root = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        root.chmod(0o755)
    except OSError as error:
        raise DemoFailed(f"no directory for temporary files can be had: {error}") from error
    return root


def _fit_for_handlers(root: Path) -> bool:
    """Whether the socket's path is short enough, and the handlers' user gets down to here."""
    short = len(os.fsencode(root / "run" / "effectd.sock")) <= SOCKET_PATH_MAX
    return short and (
        os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in root.parents)
    )


def _copy_tools(root: Path) -> tuple[Path, Path]:
    """Two copies of the same tools, so that whose process one is shows in its command line."""
    only_source = shutil.ignore_patterns("__pycache__")
    copies = root / "handlers", root / "plain"
    for copy in copies:
        shutil.copytree(CHECKOUT / "demo" / "tools", copy, ignore=only_source)
    shutil.copytree(CHECKOUT / "sdk" / "effectd", copies[0] / "effectd", ignore=only_source)
    for path in (path for copy in copies for path in (copy, *copy.rglob("*"))):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copies
