"""A daemon with a configuration file, and other users of the host who talk to it.

The users have uids that no host knows: their rights come from the configuration and from the
groups that their processes have.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.e2e.support.api import Answer, Api
from tests.e2e.support.daemon import START_S, Daemon, interpreter
from tests.e2e.support.processes import wait_until


def needs_root(reason: str) -> pytest.MarkDecorator:
    """For what an ordinary user cannot try."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=reason)


READER, OWNER, RESOLVER, ADMIN, GRANTLESS, DAEMON_UID = range(61_001, 61_007)
CLIENTS, BILLING = 62_001, 62_002

GRANTS = {
    "read": f'["uid:{READER}"]',
    "run": f'["uid:{OWNER}", "gid:{CLIENTS}"]',
    "resolve": f'["uid:{RESOLVER}"]',
    "admin": f'["uid:{ADMIN}"]',
}

# One request a line on standard input, one answer a line on standard output.
CLIENT = """
import http.client, json, socket, sys
for line in sys.stdin:
    method, target, body = json.loads(line)
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(sys.argv[1])
    connection.request(method, target, body)
    response = connection.getresponse()
    heads = {name.lower(): value for name, value in response.getheaders()}
    print(json.dumps([response.status, heads, response.read().decode()]), flush=True)
    connection.close()
"""


class AsUser(Api):
    """The API as a process of another user asks it."""

    def __init__(self, socket_path: str, uid: int, groups: Collection[int] = ()) -> None:
        super().__init__(socket_path)
        self._process = subprocess.Popen(
            [interpreter(), "-IS", "-c", CLIENT, socket_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=uid,
            group=uid,
            extra_groups=list(groups),
            cwd="/",
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        timeout_s: float = 0,
    ) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        target = f"/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        text = json.dumps(body) if body is not None else None
        self._process.stdin.write(json.dumps([method, target, text]) + "\n")
        self._process.stdin.flush()
        status, headers, text = json.loads(self._process.stdout.readline())
        one = headers["content-type"].endswith("json") and "ndjson" not in headers["content-type"]
        return Answer(status, json.loads(text) if one else text.encode(), headers)

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


class Service(Daemon):
    """A daemon with a configuration file, whose socket every user of the host can reach.

    `uid` is the daemon's own, when it is not the test's.
    """

    def __init__(self, base: Path, uid: int | None = None, tables: str = "") -> None:
        super().__init__(base, "")
        self._tables = tables
        run = base / "run"
        run.mkdir()
        self.api = Api(str(run / "effectd.sock"))
        self._prefix = () if uid is None else _as_uid(base, uid)
        if uid is not None:
            for path in (base, run, self.handlers):
                os.chown(path, uid, uid)
        self._clients = contextlib.ExitStack()
        self.handler_user = "nobody" if os.geteuid() == 0 and uid is None else ""
        self.grant()

    def grant(self, more: str = "", **changed: str) -> None:
        """Say who holds which role, for the next start or reload."""
        access = "\n".join(f"{role} = {whom}" for role, whom in {**GRANTS, **changed}.items())
        self._config = (
            f'witness_dir = "{self.base}/witness"\nsecrets_dir = "{self.base}/secrets"\n{more}\n'
            f'[access]\n{access}\n[sandbox]\nhandler_user = "{self.handler_user}"\n{self._tables}\n'
        )
        (self.base / "effectd.toml").write_text(self._config)

    def start(self, within_s: float = START_S) -> Daemon:
        super().start(within_s)
        Path(self.api.socket_path).chmod(0o666)
        return self

    def _command(self) -> list[str]:
        return [*self._prefix, *super()._command()]

    def reload(self, says: str = "effectd: reloaded: ") -> str:
        """Have configuration and manifests read again; the line that the daemon says of it."""
        before = len(self.log)
        os.kill(self.pid, signal.SIGHUP)
        wait_until(lambda: says in self.log[before:], 60, f"it says {says!r}")
        return next(line for line in self.log[before:].splitlines() if says in line)

    def client(self, uid: int, *groups: int) -> AsUser:
        client = AsUser(self.api.socket_path, uid, groups)
        self._clients.callback(client.close)
        return client

    def close(self) -> None:
        self._clients.close()
        super().close()


# What lies in a closed home is put where everybody can see it, in a mount namespace that ends
# with the daemon: closed directory, stage, what to keep of it, --, command.
_OPENED = """
set -e
closed=$1 stage=$2 n=0
shift 2
mkdir "$stage"
while [ "$1" != -- ]; do
  n=$((n + 1))
  mkdir "$stage/$n"
  mount --bind "$1" "$stage/$n"
  eval "kept$n=\\$1"
  shift
done
shift
mount -t tmpfs -o mode=755 tmpfs "$closed"
umask 022
while [ "$n" -gt 0 ]; do
  eval "to=\\$kept$n"
  mkdir -p "$to"
  mount --move "$stage/$n" "$to"
  n=$((n - 1))
done
exec "$@"
"""
_CHECKOUT = Path(__file__).parents[3]


def closed_above(path: Path) -> Path | None:
    """The outermost directory on the way to `path`, itself included, that others cannot enter."""
    places = [*reversed(path.parents), path]
    return next((one for one in places if not one.stat().st_mode & stat.S_IXOTH), None)


def _as_uid(base: Path, uid: int) -> tuple[str, ...]:
    """What starts a command as that user."""
    drop = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    needed = [Path(sys.base_prefix), _CHECKOUT]
    shut = {path: closed for path in needed if (closed := closed_above(path)) is not None}
    if not shut:
        return drop
    if len(set(shut.values())) > 1 or set(shut) & set(shut.values()):
        pytest.skip(f"another user cannot be let into {', '.join(map(str, shut))}")
    (closed,) = set(shut.values())
    opened = ("sh", "-c", _OPENED, "sh", str(closed), str(base / "stage"), *map(str, shut), "--")
    return ("unshare", "--mount", *opened, *drop)


@contextlib.contextmanager
def new_service(uid: int | None = None, tables: str = "") -> Iterator[Service]:
    """Not started yet. `uid` is the daemon's own, when it is not the test's; `tables` are more
    tables of the configuration file."""
    base = Path(tempfile.mkdtemp(prefix="effectd-e2e-"))
    base.chmod(0o755)
    service = Service(base, uid, tables)
    try:
        yield service
    finally:
        service.close()
