"""Reading the files of a configuration: bounded, never hanging, with errors for people."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from config.problems import WrongValueError

MAX_FILE_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
# tomllib takes quadratic time for a key of many dots: minutes for one as long as a file.
MAX_LINE: Final = 8_192
# Opening a FIFO or a terminal for reading would wait for its other end; O_NONBLOCK does not.
OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_TOO_DEEP: Final = (f"it is nested more than {MAX_DEPTH} deep", "no key needs that: flatten it")
# What ProtectHome= of a systemd unit puts something else over.
HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> int:
    """A descriptor of a regular file, links followed; `WrongValueError` for all else."""
    try:
        # Opening a device can act on it, so its kind is asked first; a swap in between
        # is caught by the second look.
        _require_regular(path.stat(), path)
        fd = os.open(path, OPEN_FLAGS)
    except OSError as error:
        raise explained(error, path) from None
    try:
        _require_regular(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_regular(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The whole content of a regular file of at most `limit` bytes."""
    fd = open_regular(path)
    with os.fdopen(fd, "rb") as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise explained(error, path) from None
    if len(content) > limit:
        raise WrongValueError(
            f"{path} has more than {limit:_} bytes", "this is hardly the right file: name another"
        )
    return content


def read_text(path: Path) -> str:
    """A small UTF-8 file as text."""
    raw = read_regular(path)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise WrongValueError(
            f"{path} is not UTF-8: byte 0x{raw[error.start]:02x} in line {line}",
            "save it as UTF-8",
        ) from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain values. The error names line and column."""
    text = read_text(path)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            raise WrongValueError(
                f"line {number} has {len(line):_} characters, and {MAX_LINE:_} are allowed",
                'break it up; texts of many lines stand between """',
            )
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise WrongValueError(*_TOO_DEEP) from None
    except tomllib.TOMLDecodeError as error:
        raise WrongValueError(f"it is not TOML: {error}", "correct that line") from None
    except ValueError:
        # Python refuses to convert thousands of digits, and tomllib lets that through.
        raise WrongValueError(
            "it holds an endless number or a date that is none", "correct it"
        ) from None
    _require_shallow(document)
    return document


def _require_shallow(document: dict[str, Any]) -> None:
    """Whatever walks a document later may recurse: `[a.a.a...]` parses at any depth."""
    level: list[object] = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise WrongValueError(*_TOO_DEEP)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def require_private_writing(path: Path) -> None:
    """Refuse a file or directory that everybody can write: whoever does decides what runs."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise explained(error, path) from None
    if mode & stat.S_IWOTH:
        raise WrongValueError(
            f"everybody can write {path}, and whoever does decides what runs here",
            f"chmod o-w {path}",
        )


def present(path: Path) -> bool:
    """Whether something has that name. One that cannot be looked at counts, so that reading
    it says why, instead of something else being taken in its place."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def explained(error: OSError, path: Path) -> WrongValueError:
    """What an errno means for the person who named `path`.

    Raises it instead when it says nothing of the path: there is no descriptor to look with.
    """
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        raise error
    home = next((one for one in HOMES if path.is_relative_to(one)), None)
    if home is not None and _is_hidden(home):
        return WrongValueError(
            f"{path} is hidden from the service, whose unit has ProtectHome=",
            "move it to /opt; or systemctl edit effectd.service: [Service] ProtectHome=tmpfs and"
            " BindReadOnlyPaths= with what the handler needs",
        )
    match error.errno:
        case errno.ENOENT:
            return WrongValueError(f"{path} does not exist", "create it or correct the path")
        case errno.EACCES | errno.EPERM:
            return WrongValueError(
                f"effectd (uid {os.geteuid()}) may not read {path}",
                "let that user read the file and search its directories (chmod, chgrp)",
            )
        case errno.ELOOP:
            return WrongValueError(
                f"{path} is a loop of symbolic links", "point the link at a file"
            )
        case errno.ENOTDIR:
            return WrongValueError(
                f"a part of {path} before its last is no directory", "correct the path"
            )
        case _:
            return WrongValueError(
                f"{path} cannot be read ({error.strerror})", "correct the path or the file system"
            )


def _is_hidden(home: Path) -> bool:
    """Whether systemd closed it to us: ProtectHome=yes mounts a directory without any
    permission over it, tmpfs an empty one."""
    try:
        closed = stat.S_IMODE(home.stat().st_mode) == 0
        return home.is_mount() and (closed or not any(home.iterdir()))
    except OSError:
        return False


def _require_regular(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a file")
        raise WrongValueError(f"{path} is {kind}, not a regular file", "name a regular file")
