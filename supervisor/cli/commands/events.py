"""`effectctl events`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from supervisor.cli.exits import Exit
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_events import event
from supervisor.cli.talk import Document


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on as they happen; Ctrl-C ends.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="A position.")
@click.option("--operation", metavar="ID", help="Only those of this operation.")
@shared
def events(given: Shared, /, *, follow: bool, after: int, operation: str | None) -> Exit:
    """What happened, oldest first. One document a line with -o json and jsonl alike."""
    from supervisor.cli import ids

    wanted = ids.resolve(given.daemon, "operation", operation) if operation else None
    try:
        for one in _stream(given, after, follow=follow):
            if wanted is None or one.get("operation_id") == wanted:
                _print(given, one)
    except KeyboardInterrupt:
        if not follow:
            return Exit.INTERRUPTED
    return Exit.DONE


def _stream(given: Shared, after: int, *, follow: bool) -> Iterator[Document]:
    """The SDK's iterator: it reconnects by position, so that nothing is missed or seen twice."""
    for one in given.daemon.client.events(after=after, follow=follow):
        yield dict(one)


def _print(given: Shared, document: Document) -> None:
    if given.form == "ids":
        given.emit(document, lambda _: "", [str(document.get("position"))])
    elif given.form == "text":
        given.emit(document, lambda look: event(document, look))
    else:
        # A stream has no end that would close a JSON array, so it is NDJSON, as in the API.
        given.line(document)
