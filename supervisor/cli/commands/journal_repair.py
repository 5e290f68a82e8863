"""`effectctl journal repair`: say what is lost; give it up only when exactly that is accepted."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, place_of
from supervisor.cli.talk import CommandError


def _positions(_context: object, _option: object, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    first, dots, last = value.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal() and len(first + last) < 38):
        raise click.BadParameter(f"{value!r} is not FIRST..LAST, as in 17..20")
    return int(first), int(last)


@click.command()
@DIRECTORY
@click.option(
    "--accept-loss",
    "loss",
    callback=_positions,
    metavar="FIRST..LAST",
    help="Give up these positions.",
)
@click.option("--reason", help="Why, for whoever reads the journal later.")
@shared
@configured
def repair(
    given: Shared,
    source: Source,
    /,
    *,
    directory: Path | None,
    loss: tuple[int, int] | None,
    reason: str | None,
) -> int:
    """Say what a damaged journal lost (exit 2); with --accept-loss, give exactly that up.

    Everything from the damage on is copied to quarantine/ and given up. What was unfinished
    there becomes unknown and is not run again.
    """
    from supervisor.cli.repairing import look_at, repair_it
    from supervisor.journal.errors import JournalError

    if loss is not None and not reason:
        raise CommandError("--accept-loss needs --reason TEXT", exit_code=Exit.USAGE)
    try:
        place = place_of(source, directory)
        return (
            look_at(given, place) if loss is None else repair_it(given, place, loss, reason or "")
        )
    except JournalError as error:
        raise CommandError(str(error), error.fix, Exit.FAILED) from error
