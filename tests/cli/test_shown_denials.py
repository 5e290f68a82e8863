"""A failed attempt of a real daemon explains its denial: in `dispatch`, and in `calls show`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.exits import Exit
from tests.cli.conftest import Ctl, Daemon, Said

pytestmark = pytest.mark.guarantee("S12")

SHELLS = {
    "sh": "#!/bin/sh\n",
    "python": "#!/usr/bin/env -S python3 -I\n",
    "node": "#!/usr/bin/env node\n",
}
KINDS = (
    "python",
    "sh",
    pytest.param(
        "node",
        marks=pytest.mark.skipif(
            not Path("/usr/bin/node").exists(), reason="Node is not where a sandbox shows it"
        ),
    ),
)


@pytest.fixture
def denied(daemon: Daemon, ctl: Ctl) -> Iterator[object]:
    """Run one program as a handler, see it fail, and hand back all that is printed of it."""
    manifest = daemon.handlers / "denied.toml"
    program = daemon.base / "bin" / "denied"

    def run(kind: str, body: str, sandbox: str = "") -> tuple[str, str]:
        program.write_text(SHELLS[kind] + body + "\n")
        program.chmod(0o755)
        manifest.write_text(
            f'manifest = 1\ncommand = ["{program}"]\ntimeout_ms = 20_000\nread_only = true\n'
            f"[sandbox]\n{sandbox}\n"
        )
        dispatched = ctl("dispatch", "denied")
        assert dispatched.code == Exit.FAILED, dispatched.out + dispatched.err
        newest = ctl("operations", "list", "--limit", "1", "-o", "json").document["items"][0]
        [call] = ctl("operations", "show", newest["operation_id"], "-o", "json").document["calls"]
        shown = ctl("calls", "show", call if isinstance(call, str) else call["call_id"])
        return words(dispatched), words(shown)

    yield run
    manifest.unlink(missing_ok=True)
    program.unlink(missing_ok=True)


def words(said: Said) -> str:
    return re.sub(r"\s+", " ", said.out + said.err)


READS = {
    "python": "open({path!r})",
    "sh": "cat {path}",
    "node": "require('fs').readFileSync({path!r})",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_file(daemon: Daemon, denied, kind: str) -> None:
    path = f"{daemon.base}/hidden.txt"
    for said in denied(kind, READS[kind].format(path=path)):
        assert f"hint: {path} exists but is hidden from this handler; add it to read" in said


WRITES = {
    "python": "open('/usr/share/doc/effectd-never', 'w')",
    "sh": "echo it >/usr/share/doc/effectd-never || exit 1",
    "node": "require('fs').writeFileSync('/usr/share/doc/effectd-never', 'it')",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_that_is_read_only(denied, kind: str) -> None:
    for said in denied(kind, WRITES[kind]):
        assert "add /usr/share/doc to write = [...] in [sandbox]" in said


NAMES = {
    "python": "import socket; socket.getaddrinfo('db.example', 80)",
    "sh": "exec perl -MSocket=getaddrinfo -e 'my ($e) = getaddrinfo(\"db.example\", 80); die $e'",
    "node": "require('dns').lookup('db.example', (error) => { if (error) throw error })",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_not_looked_up(denied, kind: str) -> None:
    for said in denied(kind, NAMES[kind]):
        assert 'network = "host" in [sandbox]' in said


UNIX = {
    "python": "import socket; socket.socket(socket.AF_UNIX)",
    "sh": "exec perl -e 'socket(my $one, 1, 1, 0) or die \"socket: $!\"'",
    "node": "require('net').connect('/run/none').on('error', (error) => { throw error })",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_socket_family_that_is_refused(denied, kind: str) -> None:
    for said in denied(kind, UNIX[kind]):
        assert "a Unix socket is declared with unix = [...]" in said


STARTS = {
    "python": """
import subprocess
for _ in range(8): subprocess.Popen(["/bin/sleep", "1"])
""",
    "sh": "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done",
    "node": """
for (let i = 0; i < 40; i++) require('child_process').spawn('/bin/sleep', ['1'])
  .on('error', (error) => { throw error })
""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_too_few_tasks(denied, kind: str) -> None:
    for said in denied(kind, STARTS[kind], f"tasks_max = {24 if kind == 'node' else 4}"):
        assert "tasks_max in [sandbox]" in said


def test_a_port_of_the_host_is_not_the_sandboxs(denied) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = f"""
import socket
try: socket.create_connection(("127.0.0.1", {port}))
except OSError as error: raise SystemExit(f"127.0.0.1:{port}: {{error}}")
"""
        for said in denied("python", body):
            assert f"port {port} outside" in said


def test_a_namespace_of_its_own(denied) -> None:
    for said in denied("sh", "exec unshare --user true"):
        assert "refused in every sandbox" in said


def test_a_limit_that_ended_it_without_a_word(denied) -> None:
    body = "exec dd if=/dev/zero of=/tmp/big bs=1k count=64 2>/dev/null"
    for said in denied("sh", body, "file_size_max = 16_384"):
        assert "file_size_max in [sandbox]" in said


def test_what_is_effectds_own(daemon: Daemon, denied) -> None:
    for said in denied("sh", f"cat {daemon.handlers}/echo.toml"):
        assert "effectd's own" in said
        assert "add it to read" not in said
