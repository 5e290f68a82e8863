"""Handlers that are tried for real, without a daemon: `effectctl handlers try` and `check`."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.__main__ import run

SHELLS = {
    "sh": "#!/bin/sh\n",
    "python": "#!/usr/bin/env -S python3 -I\n",
    "node": "#!/usr/bin/env node\n",
}
DENIED, ALLOWED = 1, 0


class Tried:
    """What one command line exited with and printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """What is printed, however it was broken into lines."""
        return " ".join(self.out.split())

    @property
    def sandbox(self) -> dict[str, Any]:
        """The suggested table; empty when nothing is suggested."""
        return tomllib.loads(self.document["manifest_patch"]).get("sandbox", {})

    @property
    def denials(self) -> list[dict[str, str]]:
        return [one for each in self.document["runs"] for one in each["denials"]]


class Workbench:
    """A directory of handlers that the handlers' user may enter, and nothing else of the host's."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self._capsys = base, capsys
        self.manifests, self.programs = base / "handlers.d", base / "bin"
        self.data = base / "data"
        for folder in (self.manifests, self.programs, self.data):
            folder.mkdir()
        self.data.chmod(0o777)

    def write(
        self, body: str, sandbox: str = "", *, kind: str = "sh", more: str = "", name: str = "tried"
    ) -> Path:
        """A read-only handler with this program and this ``[sandbox]`` table."""
        program = self.programs / name
        program.write_text(SHELLS[kind] + body + "\n")
        program.chmod(0o755)
        file = self.manifests / f"{name}.toml"
        table = f"[sandbox]\n{sandbox}\n" if sandbox else ""
        file.write_text(
            f'manifest = 1\ncommand = ["{program}"]\ntimeout_ms = 10_000\nread_only = true\n'
            f"{more}\n{table}"
        )
        return file

    def capture(self) -> str:
        """What was printed since the last time, on both streams."""
        said = self._capsys.readouterr()
        return said.out + said.err

    def ctl(self, *arguments: str) -> Tried:
        """One `effectctl` command on these handlers."""
        self._capsys.readouterr()
        where = ["--dev", "--state-dir", str(self.base / "state")]
        code = run([*arguments, *where, "--handlers-dir", str(self.manifests)])
        said = self._capsys.readouterr()
        return Tried(code, said.out, said.err)

    def try_(self, *arguments: str, form: str = "json") -> Tried:
        return self.ctl("handlers", "try", "tried", *arguments, "-o", form)

    def check(self, *arguments: str, form: str = "json") -> Tried:
        return self.ctl("handlers", "check", "tried", *arguments, "-o", form)

    def paste(self, tried: Tried) -> None:
        """Put the suggestion where it says: in place of the manifest's table."""
        file = self.manifests / "tried.toml"
        kept, _, table = file.read_text().partition("[sandbox]\n")
        suggested = tried.sandbox
        rest = {key: value for key, value in tomllib.loads(table).items() if key not in suggested}
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in rest.items())
        file.write_text(f"{kept}\n{tried.document['manifest_patch']}\n{lines}\n")


@pytest.fixture
def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workbench]:
    monkeypatch.setenv("EFFECTD_SOCKET", "/nowhere/effectd.sock")
    monkeypatch.setenv("COLUMNS", "80")
    # Not below /tmp, of which a handler has one of its own, and writes to it unseen. Nor pytest's
    # tmp_path: handlers of a root daemon run as nobody, who cannot look into it.
    place = "/srv" if os.access("/srv", os.W_OK) else pwd.getpwuid(os.getuid()).pw_dir
    if not os.access(place, os.W_OK) or os.path.realpath(place).startswith(("/tmp/", "/var/tmp/")):
        pytest.skip("neither /srv nor this user's home can hold files that a sandbox hides")
    base = Path(tempfile.mkdtemp(prefix="effectctl-tried-", dir=place))
    base.chmod(0o755)
    yield Workbench(base, capsys)
    shutil.rmtree(base)
