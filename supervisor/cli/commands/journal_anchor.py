"""`effectctl journal anchor`: the line to keep elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, cannot_go_on, place_of
from supervisor.cli.progress import bar
from supervisor.cli.talk import CommandError

if TYPE_CHECKING:
    from supervisor.journal.anchor import Anchor


@click.command()
@DIRECTORY
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Append it to this file, synced; best on another host's disk.",
)
@click.option("--syslog", is_flag=True, help="Send it to the system's log too.")
@shared
@configured
def anchor(
    given: Shared, source: Source, /, *, directory: Path | None, out: Path | None, syslog: bool
) -> int:
    """Prove the journal and print one line that vouches for it from elsewhere.

    It covers everything up to the newest decision that is proven durable. Keep it where
    whoever can write the journal cannot: `journal verify --anchor FILE` then finds a
    cut-off tail, a roll-back and a rewriting. (Exit 2: damaged, nothing was anchored.)
    """
    from supervisor.journal.anchor import newest
    from supervisor.journal.errors import JournalCorrupt, JournalError

    place = place_of(source, directory)
    try:
        with bar("proving") as progress:
            made = newest(place, progress)
    except JournalError as error:
        return cannot_go_on(given, error, damaged=isinstance(error, JournalCorrupt))
    for where in _export(made, out, syslog=syslog):
        _remember(given, place, made, where)
    given.emit({**made._asdict(), "anchor": made.text}, lambda _look: made.text, [made.position])
    return Exit.DONE


def _export(made: Anchor, out: Path | None, *, syslog: bool) -> list[str]:
    """Where it was sent to."""
    from supervisor.journal.durably import append_line

    exported: list[str] = []
    if out is not None:
        try:
            append_line(out, made.text)
        except OSError as error:
            text = f"{out}: {error.strerror or error}"
            raise CommandError(text, "Name a file that can be written.", Exit.FAILED) from error
        exported.append(str(out.absolute()))
    if syslog:
        import syslog as system_log

        system_log.openlog("effectctl", facility=system_log.LOG_DAEMON)
        system_log.syslog(system_log.LOG_NOTICE, made.text)
        exported.append("syslog")
    return exported


def _remember(given: Shared, place: Path, made: Anchor, where: str) -> None:
    from supervisor.journal.anchor import EXPORTED, remember

    try:
        remember(place, made, where)
    except OSError as error:
        given.note(f"not noted in {EXPORTED} (the anchor is good): {error.strerror or error}")
