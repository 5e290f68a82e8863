"""`effectctl journal export`: a journal for other programs, or as a page for a post-mortem."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.exits import Exit
from supervisor.cli.look import of_stream, write
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, plain
from supervisor.cli.place import DIRECTORY, cannot_go_on, place_of
from supervisor.cli.talk import CommandError

if TYPE_CHECKING:
    from supervisor.cli.report.gather import Report

# A page is read by people; a browser and its reader give up long before a journal ends.
PAGE_OPERATIONS = 500


@click.command()
@DIRECTORY
@click.option(
    "--format",
    "form",
    type=click.Choice(("jsonl", "html")),
    default="jsonl",
    show_default=True,
    help="jsonl: events, one a line, as the API has them; html: one page that needs no other file.",
)
@click.option("--operation", metavar="ID", multiple=True, help="Only this; may be repeated.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="-",
    metavar="FILE",
    help="Written whole or not at all, readable by you alone. Default: stdout.",
)
@plain
@configured
def export(
    given: Shared,
    source: Source,
    /,
    *,
    directory: Path | None,
    form: str,
    operation: tuple[str, ...],
    output: Path,
) -> int:
    """Write the journal out, as far as it is proven (exit 2: damaged, written up to there)."""
    place = place_of(source, directory)
    wanted = _wanted(place, operation)
    made = _page(place, wanted) if form == "html" else _Lines(place, wanted)
    _put(output, made)
    if made.problem is None:
        return Exit.DONE
    return cannot_go_on(given, made.problem, damaged=True)


def _wanted(place: Path, beginnings: tuple[str, ...]) -> frozenset[str] | None:
    from supervisor.cli.commands.journal_dump import ids_in
    from supervisor.cli.ids import among, only
    from supervisor.journal.errors import JournalError
    from supervisor.journal.select import OPERATION

    if not beginnings:
        return None
    try:
        known = list(ids_in(place, OPERATION))
    except JournalError as error:
        raise CommandError(str(error), error.fix, Exit.FAILED) from error
    whole = [among("operation", one, lambda: known) for one in beginnings]
    return frozenset(only("operation", one, [i for i in known if i == one]) for one in whole)


class _Lines:
    """Events as JSON lines; `problem` is known when they have been taken."""

    def __init__(self, place: Path, wanted: frozenset[str] | None) -> None:
        self._place, self._wanted = place, wanted
        self.problem: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        from supervisor.cli.report.gather import facts
        from supervisor.cli.text import json_text
        from supervisor.journal.errors import JournalCorrupt, JournalError

        try:
            for one in facts(self._place, self._wanted):
                yield json_text(one, pretty=False) + "\n"
        except JournalCorrupt as error:
            self.problem = error
        except JournalError as error:
            raise CommandError(str(error), error.fix, Exit.FAILED) from error


class _Page:
    """The page; `problem` is what stopped the reading."""

    def __init__(self, report: Report, problem: Exception | None) -> None:
        self._report, self.problem = report, problem

    def __iter__(self) -> Iterator[str]:
        from supervisor.cli.report.page import page

        yield from page(self._report)


def _page(place: Path, wanted: frozenset[str] | None) -> _Page:
    from sandbox.census import boot_id
    from supervisor.cli.report.gather import gather
    from supervisor.core.moment import Moment

    report = gather(place, wanted, Moment(time.time_ns(), time.monotonic_ns(), boot_id()))
    if len(report.cases) > PAGE_OPERATIONS:
        raise CommandError(
            f"{len(report.cases)} operations are too many for one page ({PAGE_OPERATIONS})",
            "Name some with --operation ID, or use --format jsonl.",
        )
    return _Page(report, report.problem)


def _put(output: Path, texts: Iterable[str]) -> None:
    from supervisor.cli.atomic import write_file

    if str(output) != "-":
        write_file(output, texts)
        return
    look = of_stream(sys.stdout, time.time_ns())
    for text in texts:
        write(text, look)
