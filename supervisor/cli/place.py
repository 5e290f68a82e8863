"""Where a journal is: the argument that every `journal` command takes."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source
from supervisor.cli.output import Shared
from supervisor.cli.talk import CommandError

DAMAGED = 2

DIRECTORY = click.argument(
    "directory", required=False, type=click.Path(path_type=Path), metavar="[DIR]"
)


def place_of(source: Source, directory: Path | None) -> Path:
    """The journal's own directory, given it or a state directory, or nothing."""
    from config.problems import ConfigError

    if directory is None:
        try:
            directory = source.load().state_dir
        except ConfigError as error:
            raise CommandError(str(error), "Name the journal's directory.") from error
    inner = directory / "journal"
    return inner if inner.is_dir() else directory


def cannot_go_on(given: Shared, error: Exception, *, damaged: bool) -> int:
    """Say on stderr where proof ends and why; the exit code for it."""
    from supervisor.cli.render_problem import failure

    given.note(failure(str(error), str(getattr(error, "fix", "")), given.notes))
    return DAMAGED if damaged else Exit.FAILED
