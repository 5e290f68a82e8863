"""`effectctl journal ...`: a journal's directory, with or without a daemon, read-only."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.commands.journal_dump import dump, tail
from supervisor.cli.commands.journal_export import export
from supervisor.cli.commands.journal_replay import replay
from supervisor.cli.commands.journal_stats import stats
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, place_of
from supervisor.cli.render_journal import VERIFY_EXITS, document, verified


@click.group()
def journal() -> None:
    """Read a journal; needs no daemon, takes no lock, changes nothing.

    DIR is a journal's directory or a state directory (default: the configured one).
    """


@journal.command(epilog=VERIFY_EXITS)
@DIRECTORY
@click.option(
    "--require",
    type=click.Choice(("anchor", "chain")),
    default="anchor",
    show_default=True,
    help="What is enough for exit 0.",
)
@shared
@configured
def verify(given: Shared, source: Source, /, *, directory: Path | None, require: str) -> int:
    """Prove every link of the chain, and say what that does not prove."""
    from supervisor.journal.verify import verify as prove

    place = place_of(source, directory)
    report = prove(place)
    code = report.exit_code(require=require)
    given.emit(
        document(report, code, str(place)),
        lambda look: verified(report, code, str(place), look),
        [report.position],
    )
    return code


for _verb in (dump, tail, replay, export, stats):
    journal.add_command(_verb)
