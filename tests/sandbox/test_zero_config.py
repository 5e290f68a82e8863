"""What every program expects of a host is there although nothing was declared: a home, a place for
temporary files, names that can be looked up, certificates to trust."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC221

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.closure import closure
from sandbox.spec import Ended, Spec
from tests.sandbox.projects import PROJECTS
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, launched, run_to_end

_PYTHON = Path("/usr/bin/python3")
_HAS_PYTHON = _PYTHON.exists()
needs_python = pytest.mark.skipif(
    not _HAS_PYTHON, reason="needs a system python3, which every uid can reach"
)

ENVIRONMENT = r"""
for place in "$HOME" "$TMPDIR" /tmp /var/tmp /dev/shm; do
  echo x > "$place/file-$$" && rm "$place/file-$$" || echo "cannot write $place"
done
cd && pwd
echo "$PATH $LANG"
command -v sh cat ls > /dev/null || echo "PATH finds nothing"
"""


@pytest.mark.guarantee("S7")
async def test_home_temporary_places_path_and_language_are_there() -> None:
    async with launched() as launcher:
        end, out, err = await run_to_end(launcher, ("/bin/sh", "-c", ENVIRONMENT))
    assert isinstance(end, Ended)
    expected = "/tmp/home\n/usr/local/bin:/usr/bin:/bin C.UTF-8\n"
    assert (end.status, out.decode(), err) == (0, expected, b"")


TRUSTED = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
NAMED = (
    "import socket; print(sorted({one[4][0] for one in socket.getaddrinfo('localhost', 80,"
    " type=socket.SOCK_STREAM)}))"
)


@needs_python
@pytest.mark.parametrize("script", [TRUSTED, NAMED], ids=["certificates", "names"])
async def test_with_the_hosts_network_its_certificates_are_trusted_and_its_names_known(
    script: str,
) -> None:
    command = (str(_PYTHON), "-I", "-c", script)
    outside = subprocess.run(command, check=True, capture_output=True).stdout
    async with launched() as launcher:
        end, out, err = await run_to_end(launcher, command, spec=Spec(network="host"))
    assert isinstance(end, Ended)
    assert (end.status, out) == (0, outside), err


# In a mount namespace of its own: /etc/resolv.conf is a link into /run, as systemd-resolved has
# it, and is replaced by rename while the sandbox waits, as it does whenever the network changes.
# Its first word is the checkout, for `python -I` looks at no environment.
LINKED = r"""
import os, sys
sys.path[:0] = [sys.argv[1], *sys.argv[4:]]
import pathlib, subprocess, tempfile
import trio
from sandbox.client import Launcher
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Spec

def mount(*words):
    subprocess.run(["mount", *words], check=True)

kept = tempfile.mkdtemp(prefix="effectd-test-")
os.chmod(kept, 0o755)
mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", kept)
subprocess.run(["cp", "-a", "/etc/.", kept], check=True)
pathlib.Path(kept, "resolv.conf").unlink(missing_ok=True)
os.symlink(sys.argv[2], pathlib.Path(kept, "resolv.conf"))
mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
mount("--bind", kept, "/etc")
folder = pathlib.Path("/run/systemd/resolve")
folder.mkdir(parents=True)
stub = folder / "stub-resolv.conf"
stub.write_text("nameserver 127.0.0.1\n")

async def main(launcher):
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        sandbox = await launcher.prepare(Spec(network="host"))
        (folder / "new").write_text("nameserver 127.0.0.2\n")
        (folder / "new").rename(stub)
        await sandbox.dispatch(Command(("/bin/cat", "/etc/resolv.conf"), DEFAULT_ENVIRONMENT))
        said = b""
        async for chunk in sandbox.stdout:
            said += chunk
        print(said.decode(), end="")
        await sandbox.discard()
        await launcher.close()

uid, gid = map(int, sys.argv[3].split(":"))
trio.run(main, Launcher.start(handler_uid=uid, handler_gid=gid))
subprocess.run(["umount", "/etc"], check=True)
subprocess.run(["umount", kept], check=True)
os.rmdir(kept)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may stand another /etc in its place")
@pytest.mark.parametrize("target", ["/run/systemd/resolve/", "../run/systemd/resolve/"])
def test_a_resolver_that_is_a_link_into_run_is_followed_and_seen_to_change(target: str) -> None:
    checkout = str(Path(__file__).parents[2])
    packages = [path for path in sys.path if path.endswith("site-packages")]
    told = subprocess.run(
        [
            *("unshare", "--mount", "--propagation", "private", sys.executable, "-I", "-c", LINKED),
            *(checkout, f"{target}stub-resolv.conf", f"{HANDLER_UID}:{HANDLER_GID}", *packages),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (told.returncode, told.stdout) == (0, "nameserver 127.0.0.2\n"), told.stderr


# --- projects, with nothing declared


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("kind", PROJECTS)
async def test_a_project_in_a_home_runs_with_nothing_declared_and_sees_nothing_else(
    open_folder: Path, kind: str
) -> None:
    if kind in {"python", "release", "packaged"} and not _HAS_PYTHON:
        pytest.skip("needs a system python3, which every uid can reach")
    if kind == "node" and shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("needs node where every handler finds it")
    home = open_folder / f"home-{kind}"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("a key\n")
    command, expected = PROJECTS[kind](home / "work" / "project")
    found = closure(str(command), home=str(home))
    assert found.warnings == ()
    spec = Spec(closure=found.paths)
    async with launched() as launcher:
        end, out, err = await run_to_end(launcher, (str(command),), spec=spec)
        assert isinstance(end, Ended)
        assert (end.status, out) == (0, expected), err
        look = ("/bin/ls", "-A", str(home), str(home / "work"), str(open_folder))
        _, seen, _ = await run_to_end(launcher, look, spec=spec)
    shown = {line for line in seen.decode().split() if not line.endswith(":")}
    assert shown == {"work", "project", home.name}
