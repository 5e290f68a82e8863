"""A host in a directory: manifests, programs, state and secrets, each in its own place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

from config.load import Handler, Handlers, load_config, load_handler, load_handlers
from config.problems import ConfigError
from config.schema import Config

ENVIRON: Mapping[str, str] = {"HOME": "/nonexistent"}


@attrs.frozen
class Host:
    root: Path
    config: Config

    @property
    def manifests(self) -> Path:
        return self.root / "handlers.d"

    def program(self, name: str, content: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
        path = self.root / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        return path

    def manifest(self, name: str, text: str = "", *, command: str | None = None) -> Path:
        """A manifest that runs `command`, by default a program that exists."""
        if command is None:
            own = self.root / "bin" / name
            command = f'["{own if own.exists() else self.program(name)}"]'
        path = self.manifests / f"{name}.toml"
        path.write_text(f"manifest = 1\ncommand = {command}\ntimeout_ms = 1_000\n{text}\n")
        return path

    def raw(self, name: str, text: str) -> Path:
        path = self.manifests / f"{name}.toml"
        path.write_text(text)
        return path

    def load(self, name: str) -> Handler:
        return load_handler(self.config, self.manifests / f"{name}.toml")

    def load_all(self) -> Handlers:
        return load_handlers(self.config)

    def complaints(self, name: str) -> list[str]:
        """What loading says of a broken manifest, without the file's name."""
        with pytest.raises(ConfigError) as caught:
            self.load(name)
        file = str(self.manifests / f"{name}.toml")
        assert {problem.file for problem in caught.value.problems} == {file}
        return [
            problem.text.removeprefix(f"{file}: ").replace(str(self.root), "ROOT")
            for problem in caught.value.problems
        ]


@pytest.fixture
def host() -> Iterator[Host]:
    # Not pytest's own directory: others may search this one, as on a real host.
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="effectd-config-")))
    root.chmod(0o755)
    (root / "handlers.d").mkdir()
    (root / "secrets").mkdir()
    config = load_config(
        dev=True,
        overrides={
            "state_dir": root / "state",
            "handlers_dir": root / "handlers.d",
            "secrets_dir": root / "secrets",
            "socket": root / "run" / "effectd.sock",
        },
        environ=ENVIRON,
    )
    yield Host(root, config)
    shutil.rmtree(root)
