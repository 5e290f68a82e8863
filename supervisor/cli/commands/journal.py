"""`effectctl journal ...`: a journal's directory, with or without a daemon, read-only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_journal import VERIFY_EXITS, document, entry, verified
from supervisor.cli.talk import CommandError, Document

if TYPE_CHECKING:
    from supervisor.core.state import State

DIRECTORY = click.argument(
    "directory", required=False, type=click.Path(path_type=Path), metavar="[DIR]"
)


@click.group()
def journal() -> None:
    """Read a journal; needs no daemon, takes no lock, changes nothing.

    DIR is a journal's directory or a state directory (default: the configured one).
    """


def _place(source: Source, directory: Path | None) -> Path:
    from config.problems import ConfigError

    if directory is None:
        try:
            directory = source.load().state_dir
        except ConfigError as error:
            raise CommandError(str(error), "Name the journal's directory.") from error
    inner = directory / "journal"
    return inner if inner.is_dir() else directory


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

    place = _place(source, directory)
    report = prove(place)
    code = report.exit_code(require=require)
    given.emit(
        document(report, code, str(place)),
        lambda look: verified(report, code, str(place), look),
        [report.position],
    )
    return code


@journal.command()
@DIRECTORY
@shared
@configured
def dump(given: Shared, source: Source, /, *, directory: Path | None) -> int:
    """Every line with its file and offset, oldest first (exit 2: damaged, printed what is proven).

    A stream: -o json prints one document a line, as jsonl does.
    """
    from supervisor.journal.dump import dump as lines
    from supervisor.journal.errors import JournalCorrupt, JournalError

    try:
        for one in lines(_place(source, directory)):
            payload = one.payload.decode("utf-8", "backslashreplace")
            if given.form in {"text", "ids"}:
                given.emit(
                    None,
                    lambda look: entry(one.file, one.offset, one.position, payload, look),  # noqa: B023 - called at once
                    [one.position],
                )
                continue
            given.line(
                {
                    "file": one.file,
                    "offset": one.offset,
                    "position": one.position,
                    "attested": one.attested,
                    "payload": json.loads(payload),
                }
            )
    except JournalError as error:
        return _cannot_go_on(given, error, damaged=isinstance(error, JournalCorrupt))
    return Exit.DONE


@journal.command()
@DIRECTORY
@click.option("--operation", metavar="ID", help="Only this operation, whole.")
@shared
@configured
def replay(
    given: Shared, source: Source, /, *, directory: Path | None, operation: str | None
) -> int:
    """Fold the records into operations, as the daemon would; nothing outside is touched.

    (Exit 2: damaged; what is proven was folded.)
    """
    from supervisor.cli.render_operations import operation as shown
    from supervisor.cli.render_operations import operation_list

    state, problem = _fold(_place(source, directory))
    found = _views(state, operation)
    if operation is not None:
        if len(found) != 1:
            raise CommandError(
                f"{len(found)} operations have an id that begins with {operation}",
                exit_code=Exit.USAGE if found else Exit.NOT_FOUND,
            )
        [(whole, calls)] = found
        given.emit(whole, lambda look: shown(whole, calls, look), [whole["operation_id"]])
    else:
        items = [one for one, _ in found]
        given.emit(
            {"items": items},
            lambda look: operation_list(items, look),
            [one["operation_id"] for one in items],
        )
    if problem is None:
        return Exit.DONE
    return _cannot_go_on(given, problem, damaged=True)


def _fold(directory: Path) -> tuple[State, Exception | None]:
    """What the journal adds up to, as far as it can be proven, and what stopped it."""
    from supervisor.core.errors import IllegalTransition
    from supervisor.core.evolve import fold
    from supervisor.core.state import State
    from supervisor.journal.errors import JournalCorrupt, JournalError
    from supervisor.journal.read import read_frames
    from supervisor.journal.records import UnknownRecord, decode

    state = State()
    try:
        # What a later line does not attest yet is kept by the next start: it counts.
        for frame in read_frames(directory, unattested=True):
            state = fold(state, frame.position, decode(frame.payload))
    except (JournalCorrupt, UnknownRecord, IllegalTransition) as error:
        return state, error
    except JournalError as error:
        raise CommandError(str(error), error.fix, Exit.FAILED) from error
    return state, None


def _views(state: State, beginning: str | None) -> list[tuple[Document, list[Document]]]:
    """Operations with their calls, newest first, in the API's shape."""
    import time

    from sandbox.census import boot_id
    from supervisor.api.views import call_view, operation_view
    from supervisor.core.moment import Moment

    now = Moment(time.time_ns(), time.monotonic_ns(), boot_id())
    newest = sorted(state.operations.values(), key=lambda one: one.serial, reverse=True)
    return [
        (operation_view(one, now), [call_view(one, call, now) for call in one.ordered_calls()])
        for one in newest
        if beginning is None or one.operation_id.startswith(beginning)
    ]


def _cannot_go_on(given: Shared, error: Exception, *, damaged: bool) -> int:
    from supervisor.cli.render_problem import failure

    given.note(failure(str(error), str(getattr(error, "fix", "")), given.notes))
    return 2 if damaged else Exit.FAILED
