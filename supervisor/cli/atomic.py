"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from supervisor.cli.exits import Exit
from supervisor.cli.talk import CommandError


def write_file(target: Path, texts: Iterable[str]) -> None:
    """Write texts one after another; only its owner can read it, what was there is replaced.

    Raises CommandError, and leaves what was there, when it cannot be written whole.
    """
    try:
        fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _cannot(target, error) from error
    try:
        with open(fd, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123 - a descriptor
            file.writelines(texts)
            file.flush()
            os.fsync(fd)
        Path(temporary).replace(target)
    except OSError as error:
        _remove(temporary)
        raise _cannot(target, error) from error
    except BaseException:
        _remove(temporary)
        raise


def _remove(temporary: str) -> None:
    with contextlib.suppress(OSError):
        Path(temporary).unlink()


def _cannot(target: Path, error: OSError) -> CommandError:
    why = f"{target}: cannot be written: {error.strerror}"
    return CommandError(why, "Name a file in a directory that you may write to.", Exit.FAILED)
