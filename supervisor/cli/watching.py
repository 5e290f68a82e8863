"""A line that moves while somebody waits at a terminal: how long, and what the handler reports."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Mapping
from typing import Any

from supervisor.cli.documents import number, part, texts
from supervisor.cli.follow import Watch
from supervisor.cli.look import escape
from supervisor.cli.output import Shared
from supervisor.cli.talk import Document


@contextlib.contextmanager
def watching(given: Shared) -> Generator[Watch | None]:
    """What to call with each operation or call that comes while it runs; None shows nothing.

    Nothing is shown where stderr is no terminal, where it cannot move the cursor or show the
    bar's characters, and where a program reads the output.
    """
    if given.form != "text" or given.notes.ascii_only or not sys.stderr.isatty():
        yield None
        return
    if not given.notes.colour and not _cursor():
        yield None
        return
    with _bar(given) as watch:
        yield watch


def _cursor() -> bool:
    """Whether the terminal can rewrite a line; NO_COLOR alone does not forbid it."""
    import os

    return os.environ.get("TERM", "dumb") != "dumb"


@contextlib.contextmanager
def _bar(given: Shared) -> Generator[Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, no_color=not given.notes.colour, highlight=False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("waiting", total=None)

        def watch(document: Mapping[str, Any]) -> None:
            call = _call(given, document)
            reported = part(call, "progress")
            words = [str(call.get("handler") or "waiting"), str(reported.get("message") or "")]
            done = reported.get("thousandths")
            progress.update(
                task,
                description=escape(" ".join(word for word in words if word))[:60],
                total=1000 if isinstance(done, int) else None,
                completed=number(reported, "thousandths"),
            )

        yield watch


def _call(given: Shared, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The running call: only its own document carries progress."""
    if "call_id" in document:
        return document
    names = texts(document, "calls")
    found: Document = given.daemon.get("calls", names[-1]) if names else {}
    return found
