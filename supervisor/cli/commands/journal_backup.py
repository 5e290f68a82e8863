"""`effectctl journal backup`: a consistent copy, beside a running daemon."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.exits import Exit
from supervisor.cli.look import Look, escape
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, cannot_go_on, place_of


@click.command()
@click.argument("target", type=click.Path(path_type=Path), metavar="TARGET")
@DIRECTORY
@shared
@configured
def backup(given: Shared, source: Source, /, *, target: Path, directory: Path | None) -> int:
    """Copy the journal to TARGET, a directory that is new; the daemon may run.

    The copy is proven and synced before it has its name, with its anchor inside. What
    restoring one means stands in docs/backup.md: effects since then are forgotten.
    (Exit 2: damaged, nothing was copied.)
    """
    from supervisor.journal.backup import backup as copy
    from supervisor.journal.errors import JournalCorrupt, JournalError

    try:
        made = copy(place_of(source, directory), target)
    except JournalError as error:
        return cannot_go_on(given, error, damaged=isinstance(error, JournalCorrupt))

    def text(look: Look) -> str:
        size = f"{made.files} files, {made.bytes} bytes"
        lines = [
            f"{look.mark('ok')} {escape(made.place)}: {size}, up to {made.anchor.position}",
            *(f"  {look.mark('warning')} also copied: {escape(one)}" for one in made.unknown),
            "  Keep this line elsewhere; it vouches for the copy:",
            made.anchor.text,
        ]
        return "\n".join(lines)

    document = {
        "place": str(made.place),
        "files": made.files,
        "bytes": made.bytes,
        "unknown": list(made.unknown),
        "anchor": made.anchor.text,
        "position": made.anchor.position,
    }
    given.emit(document, text, [made.anchor.position])
    return Exit.DONE
