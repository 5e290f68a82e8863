"""Acting on every operation that a command line names, and showing them as they are then."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.cli import ids
from supervisor.cli.look import Look
from supervisor.cli.output import Shared, several
from supervisor.cli.render_operations import operation
from supervisor.cli.talk import Document


def each(given: Shared, words: tuple[str, ...], act: Callable[[str], Document]) -> list[Document]:
    """Act on every operation named, in order."""
    return [act(ids.resolve(given.daemon, "operation", word)) for word in ids.given(words)]


def show(given: Shared, found: list[Document]) -> None:
    """Hand out operations whole."""
    given.emit(
        several(found),
        lambda look: "\n\n".join(_whole(given, one, look) for one in found),
        [str(one["operation_id"]) for one in found],
    )


def _whole(given: Shared, one: Document, look: Look) -> str:
    daemon = given.daemon
    history = daemon.history_of(str(one["operation_id"]))
    return operation(one, daemon.calls_of(one), look, history=history)
