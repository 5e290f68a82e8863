"""How installations are laid out on disk: prefixes, virtual environments, node packages.

Each question is answered with the directories that belong to a program, and never with one that
holds other people's things as well.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

_PARTS = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")
# A conda prefix is nobody's home: its OpenSSL has certificates in ssl, its programs data in share.
_CONDA_PARTS = ("etc", "share", "ssl")
_FINDER = re.compile(r"^import (__editable__[\w]*_finder)\b", re.MULTILINE)
_MAPPING = re.compile(r"^MAPPING(?::[^=]*)? = (\{.*\})$", re.MULTILINE)
_READ_MAX = 1 << 20


def prefix_parts(prefix: Path) -> list[Path]:
    """What a program in ``prefix/bin`` belongs to. Never the prefix itself: ~/.local, which is
    one, holds keyrings too."""
    names = _PARTS + (_CONDA_PARTS if (prefix / "conda-meta").is_dir() else ())
    return [prefix / name for name in names if (prefix / name).exists()]


def base_prefix(prefix: Path) -> Path | None:
    """The installation that a virtual environment at ``prefix`` is based on, as it says."""
    for key, value in _settings(prefix / "pyvenv.cfg"):
        if key == "home" and value.startswith("/"):
            return Path(os.path.normpath(value)).parent
    return None


def _settings(file: Path) -> Iterator[tuple[str, str]]:
    for line in _text(file).splitlines():
        key, _, value = line.partition("=")
        yield key.strip().lower(), value.strip()


def elsewhere(prefix: Path) -> Iterator[tuple[Path, Path]]:
    """Directories that a virtual environment's packages are found in although they do not lie in
    it: the file that says so, and the directory. Editable installations are made like that."""
    for site in sorted(prefix.glob("lib*/python3*/site-packages")):
        for file in sorted(site.glob("*.pth")):
            for target in _named(site, _text(file)):
                if target.exists() and not target.is_relative_to(prefix):
                    yield file, target


def _named(site: Path, text: str) -> Iterator[Path]:
    """The paths that a .pth file adds: a line each, or the mapping of a finder it imports."""
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", "import ", "import\t")):
            yield Path(os.path.normpath(site / line.strip()))
    for name in _FINDER.findall(text):
        for mapping in _MAPPING.findall(_text(site / f"{name}.py")):
            yield from (Path(place).parent for place in _values(mapping))


def _values(mapping: str) -> list[str]:
    try:
        found = ast.literal_eval(mapping)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if not isinstance(found, dict):
        return []
    values = cast("dict[object, object]", found).values()
    return [value for value in values if isinstance(value, str) and value.startswith("/")]


def user_base(program: Path) -> Path | None:
    """Where ``pip install --user`` put the packages of this script, beside the script's bin."""
    prefix = program.parent.parent
    if program.parent.name != "bin" or (prefix / "pyvenv.cfg").exists():
        return None
    own = prefix / "bin"
    has_python = any((own / name).exists() for name in ("python3", "python"))
    packages = next(prefix.glob("lib/python3*/site-packages"), None)
    return None if has_python or packages is None else prefix


def node_package(file: Path) -> list[Path]:
    """The package that a JavaScript file belongs to and the modules installed around it: what
    ``require`` looks for upwards from the file."""
    found: list[Path] = []
    package = next((one for one in file.parents if (one / "package.json").is_file()), None)
    if package is not None:
        found.append(package)
    outermost = [one for one in file.parents if one.name == "node_modules"]
    return [*found, *outermost[-1:]]


def _text(file: Path) -> str:
    """A small text file; empty when there is none, or none that can be read."""
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read(_READ_MAX)
    except OSError:
        return ""
