"""`effectctl journal verify`: what a journal proves, and what only an anchor can."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, place_of
from supervisor.cli.progress import bar
from supervisor.cli.render_journal import VERIFY_EXITS, document, verified
from supervisor.cli.talk import CommandError


@click.command(epilog=VERIFY_EXITS)
@DIRECTORY
@click.option(
    "--anchor",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Check against every anchor in it; may be repeated.",
)
@click.option(
    "--require",
    type=click.Choice(("anchor", "chain")),
    default="anchor",
    show_default=True,
    help="What is enough for exit 0.",
)
@shared
@configured
def verify(
    given: Shared,
    source: Source,
    /,
    *,
    directory: Path | None,
    files: tuple[Path, ...],
    require: str,
) -> int:
    """Prove every link of the chain, and say what that does not prove.

    Results that are files of their own, in blobs/ beside the journal, are held against the
    digests that the chain has of them.
    """
    from supervisor.cli.results import results_of
    from supervisor.journal.anchor import read_anchors
    from supervisor.journal.errors import JournalError
    from supervisor.journal.verify import EXIT_DAMAGED, EXIT_ROLLED_BACK, INTACT, ROLLED_BACK
    from supervisor.journal.verify import verify as prove

    place = place_of(source, directory)
    try:
        anchors = [one for file in files for one in read_anchors(file)]
    except JournalError as error:
        raise CommandError(str(error), error.fix, Exit.FAILED) from error
    with bar("verifying") as progress:
        report = prove(place, progress, anchors=anchors)
    results = results_of(place) if report.verdict in {INTACT, ROLLED_BACK} else None
    code = report.exit_code(require=require)
    if results is not None and results.lost and code != EXIT_ROLLED_BACK:
        code = EXIT_DAMAGED
    given.emit(
        document(report, results, code, str(place)),
        lambda look: verified(report, results, code, str(place), look),
        [report.position],
    )
    return code
