"""A container that boots a root directory's own systemd: the kernel of the host, cgroup v2."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.systemd.machine import Done, Machine

_CGROUPS = Path("/sys/fs/cgroup")
_numbers = itertools.count()
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin", "LANG": "C.UTF-8"}
# Not in the list of nspawn 252, whose filter answers EPERM to what it does not know.
LANDLOCK = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"


class Container(Machine):
    """`leader` is its PID 1 as the host numbers it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def execute(self, argv: Sequence[str], text: str, timeout_s: float) -> Done:
        command = ["nsenter", f"--target={self.leader}", "--all", "--", *argv]
        done = subprocess.run(
            command,
            input=text.encode(),
            capture_output=True,
            env=_ENVIRONMENT,
            timeout=timeout_s,
            check=False,
        )
        return Done(tuple(argv), done.returncode, done.stdout.decode(), done.stderr.decode())


@contextlib.contextmanager
def booted(root: Path, *, allow: str = LANDLOCK) -> Iterator[Container]:
    """Boot `root` and power it off in the end; `allow` names system calls to let through.

    Nothing of the host's is shared but its kernel: no network, no registration.
    """
    with _own_cgroups() as entries, (root.parent / f"{root.name}.console").open("wb") as console:
        nspawn = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "sh", "-euc", _script(root, allow, entries)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
        )
        try:
            container = Container(_leader(nspawn, Path(console.name)))
            container.until(
                lambda: (
                    container.run(
                        "systemctl", "is-system-running", "--wait", check=False
                    ).out.strip()
                    in {"running", "degraded"}
                ),
                "the container is up",
            )
            yield container
            container.run("systemctl", "poweroff", check=False)
            nspawn.wait(30)
        finally:
            nspawn.kill()
            nspawn.wait()


def _script(root: Path, allow: str, entries: Sequence[Path]) -> str:
    """Shell: into cgroups of its own, and away from the host's /run/systemd, which nspawn
    insists on finding on a tmpfs."""
    nspawn = ["systemd-nspawn", "--quiet", "--boot", f"--directory={root}", "--register=no"]
    nspawn += ["--keep-unit", "--private-network", "--console=pipe", "--link-journal=no"]
    nspawn += [f"--system-call-filter={allow}"] if allow else []
    inside = f"""
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
exec env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 {shlex.join(nspawn)}
"""
    enter = "".join(f"echo $$ > {entry}/cgroup.procs\n" for entry in entries)
    return f"{enter}exec unshare --mount --propagation slave sh -euc {shlex.quote(inside)}"


def _leader(nspawn: subprocess.Popen[bytes], console: Path) -> int:
    """Wait for the container's PID 1."""
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert nspawn.poll() is None, console.read_text(errors="replace")
        for child in children.read_text().split():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{child}/exe").endswith("/systemd"):
                    return int(child)
        time.sleep(0.05)
    raise AssertionError(f"no systemd after 20 s: {console.read_text(errors='replace')}")


@contextlib.contextmanager
def _own_cgroups() -> Iterator[list[Path]]:
    """A cgroup in each hierarchy that nspawn makes cgroups in, gone afterwards."""
    roots = [_CGROUPS, _CGROUPS / "unified", _CGROUPS / "systemd"]
    name = f"effectd-machine-{os.getpid()}-{next(_numbers)}"
    made = [root / name for root in roots if (root / "cgroup.procs").exists()]
    for path in made:
        path.mkdir()
    try:
        yield made
    finally:
        for path in made:
            _remove(path)


def _remove(path: Path) -> None:
    """Everything inside is dead by now, or dies here."""
    with contextlib.suppress(OSError):
        (path / "cgroup.kill").write_text("1")
    below = sorted((entry for entry in path.rglob("*") if entry.is_dir()), reverse=True)
    deadline = time.monotonic() + 60
    for directory in (*below, path):
        while True:
            try:
                directory.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                assert time.monotonic() < deadline, f"{directory} is not empty"
                time.sleep(0.02)
            else:
                break
