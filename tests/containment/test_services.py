"""Real programs that talk to real servers: HTTPS, git over ssh, PostgreSQL, name resolution."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC221

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from sandbox.spec import Spec
from tests.containment.support import PYTHON, Programs, needs_root, open_directory
from tests.containment.test_everyday import needed, said, shell
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, wait_until

# --- HTTPS


@attrs.frozen
class Secure:
    """A server whose certificate is signed by a CA that only ``ca`` names."""

    port: int
    ca: Path


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "7")
        self.end_headers()
        self.wfile.write(b"secure\n")

    def log_message(self, *_: Any) -> None:
        """Not on the test's standard error."""


@pytest.fixture(scope="module")
def secure(open_folder: Path) -> Iterator[Secure]:
    needed("openssl")
    folder = open_directory(open_folder, 0o755)
    _openssl(
        folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=CA -keyout ca.key -out ca"
    )
    _openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key -out request")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    _openssl(folder, "x509 -req -in request -CA ca -CAkey ca.key -days 1 -extfile names -out cert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield Secure(server.server_port, folder / "ca")
        server.shutdown()
        thread.join()


def _openssl(folder: Path, words: str) -> None:
    subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)


async def test_curl_over_https(secure: Secure) -> None:
    needed("curl")
    url = f"https://localhost:{secure.port}/"
    spec = Spec(network="host", read=(str(secure.ca),))
    argv = ("/usr/bin/curl", "-sS", "--noproxy", "*", "--cacert", str(secure.ca), url)
    assert await said(argv, spec) == "secure\n"
    script = f"curl -sS --noproxy '*' {url} 2>&1 || echo refused $?"
    assert (await said(shell(script), spec)).endswith("refused 60\n"), "an unknown CA is no CA"


async def test_python_over_https_with_the_systems_trust_in_sight(secure: Secure) -> None:
    code = (
        "import ssl, urllib.request as r\n"
        "opener = r.build_opener(r.ProxyHandler({}), r.HTTPSHandler())\n"
        f"print(opener.open('https://localhost:{secure.port}/').read().decode(), end='')\n"
        "context = ssl.create_default_context()\n"
        "assert ssl.get_default_verify_paths()\n"
    )
    env = {"PATH": "/usr/bin:/bin", "SSL_CERT_FILE": str(secure.ca)}
    spec = Spec(network="host", read=(str(secure.ca),))
    assert await said((PYTHON, "-I", "-c", code), spec, env=env) == "secure\n"


# --- git over ssh


@attrs.frozen
class Forge:
    """An ssh server for the test's own user, with one repository."""

    url: str
    key: bytes
    known_hosts: bytes


@pytest.fixture(scope="module")
def forge(open_folder: Path) -> Iterator[Forge]:
    needed("git", "ssh", "ssh-keygen")
    server = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if server is None:
        pytest.skip("not installed here: sshd (openssh-server)")
    folder = open_directory(open_folder, 0o755)
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
        subprocess.run(command, check=True)
    repository = folder / "repository.git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    (folder / "client.pub").rename(folder / "authorized")
    port = _free_port()
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    with contextlib.ExitStack() as stack:
        if os.getuid() == 0 and not Path("/run/sshd").exists():
            Path("/run/sshd").mkdir(mode=0o755)  # where it drops its privileges to
            stack.callback(Path("/run/sshd").rmdir)
        process = subprocess.Popen([server, "-D", "-e", "-f", folder / "config"])
        stack.callback(process.wait)
        stack.callback(process.terminate)
        wait_until(lambda: _listens(port), 20)
        public = (folder / "host.pub").read_text()
        user = getpass.getuser()
        yield Forge(
            f"ssh://{user}@127.0.0.1:{port}{repository}",
            (folder / "client").read_bytes(),
            f"[127.0.0.1]:{port} {public}".encode(),
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


SSH: Final = (
    "ssh -i $CREDENTIALS_DIRECTORY/key -o IdentitiesOnly=yes -o BatchMode=yes"
    " -o UserKnownHostsFile=$CREDENTIALS_DIRECTORY/known_hosts -o StrictHostKeyChecking=yes"
)


async def test_git_pushes_and_clones_over_ssh(forge: Forge) -> None:
    """Key and host key are secrets of the handler; nothing else is declared but the network."""
    script = (
        f'export GIT_SSH_COMMAND="{SSH}"; cd /tmp;'
        " git config --global user.name n; git config --global user.email e@example.org;"
        " git init -q -b main work; cd work; echo x > f; git add f; git commit -q -m first;"
        f" git push -q {forge.url} main; cd ..; git clone -q -b main {forge.url} copy;"
        " git -C copy log --format=%s"
    )
    secrets = {"key": forge.key, "known_hosts": forge.known_hosts}
    assert await said(shell(script), Spec(network="host"), secrets=secrets) == "first\n"


async def test_an_unknown_host_key_is_still_refused(forge: Forge) -> None:
    secrets = {"key": forge.key, "known_hosts": b"\n"}
    script = f'export GIT_SSH_COMMAND="{SSH}"; git ls-remote {forge.url} 2>&1 || echo refused'
    out = await said(shell(script), Spec(network="host"), secrets=secrets)
    assert "Host key verification failed" in out
    assert out.endswith("refused\n")


# --- PostgreSQL over a declared socket


@attrs.frozen
class Database:
    """A server that listens on one Unix socket and nowhere else."""

    folder: Path
    programs: Path

    @property
    def socket(self) -> str:
        return str(self.folder / ".s.PGSQL.5432")


@pytest.fixture(scope="module")
def database(open_folder: Path) -> Iterator[Database]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("not installed here: postgres (postgresql)")
    programs = found[-1].parent
    folder = open_directory(open_folder, 0o755)
    data, sockets = folder / "data", folder / "sockets"
    sockets.mkdir()
    # It refuses to run as root; the handlers' user is as good as any other.
    identity: dict[str, Any] = {}
    if os.getuid() == 0:
        identity = {"user": HANDLER_UID, "group": HANDLER_GID, "extra_groups": []}
        for path in (folder, sockets):
            os.chown(path, HANDLER_UID, HANDLER_GID)
    options: dict[str, Any] = {"cwd": "/", **identity}
    initdb = [programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync"]
    subprocess.run([*initdb, "--no-instructions"], check=True, capture_output=True, **options)
    settings = ("listen_addresses=", f"unix_socket_directories={sockets}", "fsync=off")
    command = [programs / "postgres", "-D", data, *(w for s in settings for w in ("-c", s))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, **options)
    try:
        made = Database(sockets, programs)
        ready = [programs / "pg_isready", "-q", "-h", sockets]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, 30)
        yield made
    finally:
        process.terminate()
        process.wait(60)


async def test_psql_over_a_declared_socket(database: Database) -> None:
    psql = f"{database.programs}/psql -h {database.folder} -U tester -d postgres -At"
    query = (
        "create table t (n int); insert into t select generate_series(1, 6);"
        " select sum(n) * 2 from t; drop table t"
    )
    for network in ("none", "host"):
        spec = Spec(unix=(database.socket,), network=network)
        out = await said(shell(f'{psql} -q -c "{query}"'), spec)
        assert out == "42\n", network


async def test_psql_without_the_declaration_finds_no_socket(database: Database) -> None:
    psql = f"{database.programs}/psql -h {database.folder} -U tester -d postgres -c 'select 1'"
    out = await said(shell(f"{psql} 2>&1 || echo failed $?"), Spec())
    assert "Address family not supported" in out or "No such file" in out, out
    assert out.endswith("failed 2\n")


# --- names


async def test_names_are_resolved_with_the_hosts_network(programs: Programs) -> None:
    code = (
        "import socket\n"
        "print(sorted({a[4][0] for a in socket.getaddrinfo('localhost', 80)}))\n"
        "print(socket.getservbyname('https'))\n"
    )
    inside = await said((PYTHON, "-I", "-c", code), Spec(network="host"))
    argv = (PYTHON, "-I", "-c", code)
    outside = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert inside == outside.stdout


async def test_without_a_network_a_name_fails_and_does_not_hang() -> None:
    code = (
        "import socket\n"
        "try: socket.getaddrinfo('name.invalid', 80)\n"
        "except socket.gaierror as error: print(error.errno == socket.EAI_AGAIN)\n"
    )
    assert await said((PYTHON, "-I", "-c", code), Spec()) == "True\n"


# In a mount namespace of its own: /etc/resolv.conf becomes a link into /run, as systemd-resolved
# and NetworkManager make it.
RESOLVED: Final = """
set -e
upper=$1 checkout=$2 python=$3
mkdir "$upper/etc" "$upper/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$upper/etc,workdir=$upper/work" /etc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/resolver
echo "nameserver 192.0.2.53" > /run/resolver/stub.conf
echo private > /run/other
ln -sf ../run/resolver/stub.conf /etc/resolv.conf
cd "$checkout"
exec "$python" -c "$4"
"""
LOOKS: Final = """
import trio
from sandbox.spec import Spec
from tests.sandbox.support import launched, run_to_end
script = (
    "cat /etc/resolv.conf; ls /run /run/resolver; test ! -w /run/resolver/stub.conf;"
    " getent ahostsv4 localhost > /dev/null && echo resolved"
)
async def main():
    async with launched() as launcher:
        spec = Spec(network="host")
        _, out, err = await run_to_end(launcher, ("/bin/sh", "-c", script), spec=spec)
        print(out.decode(), err.decode(), sep="", end="")
trio.run(main)
"""


@needs_root
def test_a_resolv_conf_that_is_a_link_into_run_is_followed(open_folder: Path) -> None:
    stage = open_directory(open_folder, 0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", stage], check=True)
    try:
        checkout = str(Path(__file__).parents[2])
        words = ("sh", str(stage), checkout, sys.executable, textwrap.dedent(LOOKS))
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", RESOLVED, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        subprocess.run(["umount", stage], check=True)
    if "overlay" in done.stderr:
        pytest.skip(f"no overlay can be mounted here: {done.stderr.strip()}")
    lines = done.stdout.split()
    assert lines[:2] == ["nameserver", "192.0.2.53"], done
    assert set(lines[2:-1]) == {"/run:", "credentials", "resolver", "/run/resolver:", "stub.conf"}
    assert lines[-1] == "resolved"


def test_the_handlers_user_has_a_name() -> None:
    """ssh and git refuse a user without an entry: the unit's sysusers file makes one."""
    assert pwd.getpwuid(HANDLER_UID).pw_name
