"""What a script's first line makes the kernel start, and what that starts in turn."""

from __future__ import annotations

import shlex
from pathlib import Path

_HEAD = 4_096
_KERNEL = 256  # as much of the first line as the kernel reads
# The options of env(1) that take a word of their own.
_WITH_WORD = frozenset({"-u", "--unset", "-C", "--chdir"})


def interpreters(file: Path, search_path: str) -> list[Path]:
    """The program that a ``#!`` line names; with env(1) also the one that it finds on
    ``search_path``. Raises OSError when ``file`` cannot be read."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
    line = head[:_KERNEL].partition(b"\n")[0]
    if not line.startswith(b"#!"):
        return []
    words = line[2:].decode("utf-8", "surrogateescape").strip().split(None, 1)
    if not words or not words[0].startswith("/"):
        return []
    found = [Path(words[0])]
    if found[0].name == "env" and len(words) > 1:
        found += _by_env(words[1], search_path)
    return [*found, *_by_sh(head)]


def _by_env(argument: str, search_path: str) -> list[Path]:
    """The kernel passes one argument; only with -S does env split it."""
    words = [argument]
    for option in ("--split-string=", "-vS", "-S"):
        if argument.startswith(option):
            try:
                words = shlex.split(argument.removeprefix(option))
            except ValueError:
                return []
            break
    while words and (words[0].startswith("-") or "=" in words[0]):
        if words[0].startswith("PATH="):
            search_path = words[0].removeprefix("PATH=")
        words = words[2 if words[0] in _WITH_WORD else 1 :]
    if not words:
        return []
    if words[0].startswith("/"):
        return [Path(words[0])]
    folders = (Path(folder) for folder in search_path.split(":") if folder.startswith("/"))
    return [folder / words[0] for folder in folders if (folder / words[0]).is_file()][:1]


def _by_sh(head: bytes) -> list[Path]:
    """Where the interpreter's path has blanks or is too long for the kernel, installers of Python
    packages write a shell script that is Python as well: its second line starts the interpreter."""
    lines = head.splitlines()
    if len(lines) < 2 or not lines[1].startswith(b"'''exec' "):
        return []
    try:
        words = shlex.split(lines[1].decode("utf-8", "surrogateescape").removeprefix("'''exec' "))
    except ValueError:
        return []
    return [Path(words[0])] if words and words[0].startswith("/") else []
