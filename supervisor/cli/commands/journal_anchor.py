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
@click.option(
    "--syslog-socket",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="SOCKET",
    default=Path("/dev/log"),
    show_default=True,
    help="Where the system's log listens.",
)
@shared
@configured
def anchor(
    given: Shared,
    source: Source,
    /,
    *,
    directory: Path | None,
    out: Path | None,
    syslog: bool,
    syslog_socket: Path,
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
    if out is not None:
        _append(made, out)
        _remember(given, place, made, str(out.absolute()))
    if syslog:
        _send(made, syslog_socket)
        _remember(given, place, made, "syslog")
    given.emit({**made._asdict(), "anchor": made.text}, lambda _look: made.text, [made.position])
    return Exit.DONE


def _append(made: Anchor, out: Path) -> None:
    from supervisor.journal.durably import append_line

    try:
        append_line(out, made.text)
    except OSError as error:
        text = f"{out}: {error.strerror or error}"
        raise CommandError(text, "Name a file that can be written.", Exit.FAILED) from error


# The facility of daemons, a notice: what glibc's syslog(3) would send, which says nothing when
# nobody listens.
_PRIORITY = 3 << 3 | 5


def _send(made: Anchor, listening: Path) -> None:
    import os
    import socket
    import time

    at = time.strftime("%b %e %H:%M:%S")
    message = f"<{_PRIORITY}>{at} effectctl[{os.getpid()}]: {made.text}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.connect(str(listening))
            log.sendall(message.encode())
    except OSError as error:
        raise CommandError(
            f"the system's log at {listening} did not take it: {error.strerror or error}",
            "Start it, or name its socket with --syslog-socket; or use --out FILE.",
            Exit.FAILED,
        ) from error


def _remember(given: Shared, place: Path, made: Anchor, where: str) -> None:
    from supervisor.journal.anchor import EXPORTED, remember

    try:
        remember(place, made, where)
    except OSError as error:
        given.note(f"not noted in {EXPORTED} (the anchor is good): {error.strerror or error}")
