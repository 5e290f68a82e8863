"""What starting a command touches: its links, its own file, the interpreters behind `#!`.

Looked up as the kernel does, one component at a time, so that the error names the link
or interpreter that is missing and not only "No such file or directory".
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Final

from config.load.files import OPEN_FLAGS, explained
from config.problems import WrongValueError
from frozen import frozen

# The kernel's own bounds: 40 links in one look-up, 5 programs in one exec, 256 bytes of #!.
MAX_LINKS: Final = 40
MAX_INTERPRETERS: Final = 5
HEAD_BYTES: Final = 256
FIXED_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_MAGIC: Final = (b"\x7fELF", b"#!")


@frozen
class Chain:
    """`own` is the command's file behind all links; `touched` every link and file that
    exec opens, in order, interpreters included. `doubt` is why exec may still fail."""

    own: Path
    touched: tuple[Path, ...]
    doubt: str | None = None


def located(word: str, base: Path) -> Path:
    """A command's first word as an absolute path: with a slash relative to `base`, else
    searched on the fixed PATH."""
    if "/" in word:
        return Path(os.path.normpath(base / word))
    found = _search(word, FIXED_PATH)
    if found is not None:
        return found
    hint = f'write "./{word}" for the one beside the manifest'
    raise WrongValueError(
        f"no program {word!r} on {FIXED_PATH}",
        hint if (base / word).exists() else "install it, or write its path from the root",
    )


def chain_of(command: Path, search_path: str = FIXED_PATH) -> Chain:
    """The chain of an absolute command, or `WrongValueError`. `search_path` is the PATH
    that `/usr/bin/env` in a script's first line will see."""
    own, touched = _walk(command, "")
    head = _require_program(own, "")
    doubt = None
    if not head.startswith(_MAGIC):
        doubt = f'{own} starts neither with "#!" nor as an ELF program'
    file = own
    for _ in range(MAX_INTERPRETERS):
        if not head.startswith(b"#!"):
            return Chain(own, tuple(touched), doubt)
        asked = f", which the first line of {file} asks for"
        words = _shebang(head, file)
        file, links = _walk(Path(words[0]), asked)
        head = _require_program(file, asked)
        touched += links
        if file.name == "env" and len(words) > 1:
            program = _env_program(words[1])
            if program is not None:
                file, links = _walk(_on_path(program, search_path, asked), asked)
                head = _require_program(file, asked)
                touched += links
    raise WrongValueError(
        f"{command} needs more than {MAX_INTERPRETERS} interpreters, one through the other",
        "name a program as the interpreter",
    )


def _walk(path: Path, asked: str) -> tuple[Path, list[Path]]:
    """`path` without links, and what was touched: each link, then the file itself."""
    links: list[Path] = []
    todo = list(reversed(path.parts[1:]))
    here = Path("/")
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        step = here / part
        try:
            target = step.readlink() if stat.S_ISLNK(step.lstat().st_mode) else None
        except OSError as error:
            fault = explained(error, step)
            via = f", on the way to {path}" if step != path else ""
            if links:
                via = f", to which the link {links[-1]} leads"
            raise WrongValueError(f"{fault.message}{via}{asked}", fault.fix) from None
        if target is None:
            here = step
            continue
        links.append(step)
        if len(links) > MAX_LINKS:
            raise WrongValueError(
                f"{path} is a loop of symbolic links{asked}", "point the link at a file"
            )
        if target.is_absolute():
            here = Path("/")
        todo += reversed([part for part in target.parts if part != "/"])
    return here, [*links, here]


def _require_program(file: Path, asked: str) -> bytes:
    """The first bytes of a file that can be executed."""
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise WrongValueError(f"{file} is a directory{asked}", "name the program in it")
        if not stat.S_ISREG(mode):
            raise WrongValueError(f"{file} is no regular file{asked}", "name a program")
        if not mode & 0o111:
            raise WrongValueError(f"{file} is not executable{asked}", f"chmod +x {file}")
        if os.statvfs(file).f_flag & os.ST_NOEXEC:
            raise WrongValueError(
                f"{file} is on a file system mounted noexec{asked}", "install it elsewhere"
            )
        fd = os.open(file, OPEN_FLAGS)
    except OSError as error:
        fault = explained(error, file)
        raise WrongValueError(fault.message + asked, fault.fix) from None
    with os.fdopen(fd, "rb") as opened:
        return opened.read(HEAD_BYTES)


def _shebang(head: bytes, file: Path) -> list[str]:
    """The interpreter and its one argument, as the kernel splits the first line."""
    line, newline, _ = head[2:].partition(b"\n")
    if line.endswith(b"\r"):
        raise WrongValueError(
            f"the first line of {file} ends in a carriage return, which the kernel takes for a"
            " part of the interpreter's name",
            f"save it with Unix line ends (sed -i 's/\\r$//' {file})",
        )
    words = [os.fsdecode(word) for word in line.strip(b" \t\0").split(None, 1)]
    if not newline and len(head) == HEAD_BYTES and len(words) < 2:
        raise WrongValueError(
            f"the first line of {file} is longer than the {HEAD_BYTES} bytes the kernel reads",
            "put the interpreter under a shorter path",
        )
    if not words or not words[0].startswith("/"):
        raise WrongValueError(
            f"the first line of {file} names no interpreter from the root",
            "write #!/usr/bin/env NAME or #!/path/to/interpreter",
        )
    return words


def _env_program(argument: str) -> str | None:
    """The program that `env ARGUMENT` starts; None when only env itself could say."""
    words = [argument]
    for option in ("-S", "--split-string=", "-vS"):
        if argument.startswith(option):
            try:
                words = shlex.split(argument.removeprefix(option))
            except ValueError:
                return None
            break
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    return None if not words or words[0].startswith("-") else words[0]


def _on_path(program: str, search_path: str, asked: str) -> Path:
    if program.startswith("/"):
        return Path(program)
    found = _search(program, search_path)
    if found is not None:
        return found
    first = program.partition(" ")[0]
    if first != program and _search(first, search_path) is not None:
        raise WrongValueError(
            f"no program {program!r} on {search_path}{asked}: env takes its whole argument for"
            " one name",
            f"write #!/usr/bin/env -S {program}",
        )
    raise WrongValueError(
        f"no program {program!r} on {search_path}{asked}",
        "install it, or write the interpreter's path from the root",
    )


def _search(word: str, search_path: str) -> Path | None:
    for directory in search_path.split(":"):
        place = Path(directory, word)
        if directory.startswith("/") and place.is_file() and os.access(place, os.X_OK):
            return place
    return None
