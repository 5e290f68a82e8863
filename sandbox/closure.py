"""What must be visible for a command to start, when nothing is declared: the closure of argv[0].

Its symbolic links and ``#!`` interpreters are followed; what lies outside the system directories is
exposed by the directory it stands in, never by a directory that holds other people's things.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from sandbox.plan import SYSTEM
from sandbox.spec import DEFAULT_ENVIRONMENT

_BROAD = frozenset(
    {"/", "/home", "/root", "/srv", "/var", "/mnt", "/media", "/tmp", "/run", "/var/tmp"}  # noqa: S108
)
_PREFIX_PARTS = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")
_CHAIN_MAX = 40  # as many links as the kernel follows


@attrs.frozen
class Closure:
    """``chain``: every path that exec touches, the command first (what a digest and a staleness
    check cover). ``paths``: what to expose for it. ``warnings``: for the person who declared it."""

    chain: tuple[str, ...]
    paths: tuple[str, ...]
    warnings: tuple[str, ...]


def closure(command: str, *, home: str | None = None) -> Closure:
    """The closure of an absolute ``command``. Reads the file system; a missing part is a warning.

    ``home`` is a directory that is never exposed as a whole (default: the caller's).
    """
    broad = _BROAD | {home if home is not None else str(Path.home())}
    chain, warnings = _chain(Path(command))
    paths: set[Path] = set()
    for path in chain:
        for folder in {path.parent, path.parent.resolve()}:
            if _is_system(folder):
                continue
            if str(folder) in broad or folder.parent == Path("/home"):
                paths.add(path)
                warnings.append(
                    f"{path}: only this file is visible to the handler, not {folder}:"
                    " put it in a folder of its own if it needs what lies beside it"
                )
            elif folder.name == "bin":
                paths |= _prefix(folder.parent)
            else:
                paths.add(folder)
    return Closure(tuple(map(str, chain)), tuple(sorted(map(str, paths))), tuple(warnings))


def _chain(command: Path) -> tuple[list[Path], list[str]]:
    """Each path that exec looks at, and what is wrong with them."""
    seen: list[Path] = []
    warnings: list[str] = []
    waiting = [command]
    while waiting and len(seen) < _CHAIN_MAX:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.append(path)
        try:
            if path.is_symlink():
                # normpath, so that `..` is taken off by the letter as the paths to expose are.
                waiting.append(Path(os.path.normpath(path.parent / path.readlink())))
            else:
                waiting += _interpreters(path)
        except OSError as error:
            warnings.append(f"{path}: {error.strerror}")
    return seen, warnings


def _interpreters(path: Path) -> list[Path]:
    """What a ``#!`` line names; with env(1), also the program that it will find."""
    with path.open("rb") as file:
        line = file.read(256).partition(b"\n")[0]
    words = line[2:].decode("utf-8", "surrogateescape").split()
    if not line.startswith(b"#!") or not words:
        return []
    found = [Path(words[0])]
    names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if found[0].name == "env" and names:
        folders = [Path(folder) for folder in DEFAULT_ENVIRONMENT["PATH"].split(":")]
        found += [folder / names[0] for folder in folders if (folder / names[0]).exists()][:1]
    return found


def _prefix(prefix: Path) -> set[Path]:
    """The parts of an installation prefix, and of the interpreter that a venv in it is based on."""
    paths = _parts(prefix)
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return paths
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home":
            home = Path(value.strip())
            for base in {home.parent, home.resolve().parent}:
                paths |= set() if _is_system(base) else _parts(base)
    return paths


def _parts(prefix: Path) -> set[Path]:
    return {prefix / part for part in _PREFIX_PARTS if (prefix / part).exists()}


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(root) for root in SYSTEM)
