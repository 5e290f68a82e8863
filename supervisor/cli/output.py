"""What a command hands out: one place that knows `-o text|json|jsonl|ids`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, cast

import click

from supervisor.cli.look import Look, of_stream, write
from supervisor.cli.talk import Daemon
from supervisor.cli.text import json_text

Form = Literal["text", "json", "jsonl", "ids"]
P = ParamSpec("P")


class ReaderLeft(Exception):  # noqa: N818 - not an error: `effectctl ... | head`
    """Whoever reads stdout has closed it."""


class Shared(NamedTuple):
    """What every command is given: the form of its output, the daemon, and how to show text."""

    form: Form
    daemon: Daemon
    look: Look
    notes: Look  # of stderr

    def emit(
        self, document: Any, text: Callable[[Look], str], ids: Iterable[str | int] = ()
    ) -> None:
        """Print a document in the form that was asked for; `text` is called only for text."""
        if self.form == "text":
            write(text(self.look), self.look)
        elif self.form == "json":
            write(json_text(document, pretty=True, ascii_only=self.look.ascii_only), self.look)
        elif self.form == "jsonl":
            for item in _items(document):
                self.line(item)
        else:
            for one in ids:
                write(str(one), self.look)

    def line(self, document: Any) -> None:
        """One document on one line."""
        write(json_text(document, pretty=False, ascii_only=self.look.ascii_only), self.look)

    def note(self, text: str) -> None:
        """Words for a person, on stderr: a script that reads stdout never sees them."""
        write(text, self.notes, sys.stderr)


def _items(document: Any) -> Iterable[Any]:
    if isinstance(document, dict):
        items = cast("dict[str, Any]", document).get("items")
        if isinstance(items, list):
            return list(cast("Iterable[Any]", items))
    return [document]


def several(documents: list[dict[str, Any]]) -> Any:
    """One document as it is, several as a list has them."""
    return documents[0] if len(documents) == 1 else {"items": documents}


def plain(function: Callable[Concatenate[Shared, P], int]) -> Callable[P, int]:
    """Pass a command how to show text; its `-o` is its own, and it asks no daemon."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> int:
        now_ns = time.time_ns()
        looks = of_stream(sys.stdout, now_ns), of_stream(sys.stderr, now_ns)
        try:
            return function(Shared("text", Daemon(None), *looks), *args, **kwargs)
        except BrokenPipeError as error:
            raise ReaderLeft from error

    return wrapper


def shared(function: Callable[Concatenate[Shared, P], int]) -> Callable[P, int]:
    """Give a command `-o` and `--socket`, and pass it what they mean."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> int:
        form = cast("Form", kwargs.pop("form"))
        root = click.get_current_context().find_root().params
        socket = cast("str | None", kwargs.pop("socket") or root.get("socket"))
        now_ns = time.time_ns()
        shown = Shared(
            form, Daemon(socket), of_stream(sys.stdout, now_ns), of_stream(sys.stderr, now_ns)
        )
        try:
            return function(shown, *args, **kwargs)
        except BrokenPipeError as error:
            # click would end with 1 here; a reader that has what it wanted is no failure.
            raise ReaderLeft from error
        finally:
            shown.daemon.close()

    with_socket = click.option(
        "--socket", envvar="EFFECTD_SOCKET", metavar="PATH", help="The daemon's socket."
    )(wrapper)
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(("text", "json", "jsonl", "ids")),
        default="text",
        help="json is the API's shape, one document.",
    )(with_socket)
