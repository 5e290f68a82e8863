"""Results in files of their own, held against what the journal says is in them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from supervisor.cli.exits import Exit
from supervisor.cli.past import past
from supervisor.cli.talk import CommandError
from supervisor.core.moment import Moment
from supervisor.journal.blobs import DIRECTORY, Loss, read

# In a record and in a snapshot, and as no text inside of one: there its quotes are escaped.
_NAMES_ONE = b'"blob"'
_NOW = Moment(0, 0, "")


class LostResult(NamedTuple):
    """An operation names this file, and it is `missing` or `damaged`."""

    operation_id: str
    digest: str
    bytes: int
    why: str


class Results(NamedTuple):
    """How many files the journal names, and which of them are lost; None when there is no
    directory of them beside the journal, as beside a copy of the journal alone."""

    files: int
    lost: tuple[LostResult, ...] | None


def results_of(directory: Path) -> Results | None:
    """What became of the files that an intact journal names; None when it names none.

    Beside a daemon what it let go of meanwhile is not lost. Raises CommandError.
    """
    if not _names_any(directory):
        return None
    named, place = _named(directory), directory.parent / DIRECTORY
    if not named or not place.is_dir():
        return Results(len(named), None) if named else None
    lost = _lost(place, named)
    still = _named(directory) if lost else {}
    return Results(len(named), tuple(one for one in lost if one.digest in still))


def _names_any(directory: Path) -> bool:
    files = [*directory.glob("*.jnl"), *directory.glob("snap-*.json")]
    return any(_NAMES_ONE in _content(file) for file in files)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # let go of since it was listed
        return b""


def _named(directory: Path) -> dict[str, tuple[str, int]]:
    """By digest, an operation that names it and its size in bytes."""
    operations = past(directory, None, _NOW).state.operations.values()
    return {
        blob.digest: (one.operation_id, blob.bytes) for one in operations for blob in one.blobs()
    }


def _lost(place: Path, named: dict[str, tuple[str, int]]) -> list[LostResult]:
    found: list[LostResult] = []
    for digest, (operation_id, size) in sorted(named.items()):
        try:
            content = read(place, digest, size)
        except OSError as error:
            text = f"{place / digest}: {error.strerror or error}"
            raise CommandError(text, "Make it readable, then try again.", Exit.FAILED) from error
        if isinstance(content, Loss):
            found.append(LostResult(operation_id, digest, size, content.value))
    return found
