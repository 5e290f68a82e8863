"""`effectctl operations note|continue|end`: operations whose client decides call by call."""

from __future__ import annotations

import uuid

import click

from supervisor.cli import ids
from supervisor.cli.documents import objects
from supervisor.cli.each import each, show
from supervisor.cli.exits import Exit
from supervisor.cli.output import Shared, several, shared
from supervisor.cli.talk import CommandError, Document

MANY = click.argument("operations", nargs=-1, required=True, metavar="OPERATION...")
REASONS = ("done", "time_limit", "error", "stop", "credential", "rate_limit")


@click.command()
@MANY
@shared
def note(given: Shared, /, *, operations: tuple[str, ...]) -> Exit:
    """What was done before, as text for a model; nothing when there is nothing to tell."""
    found = each(given, operations, lambda one: given.daemon.get("operations", one, "note"))
    text = "\n".join(str(one.get("note", "")).rstrip("\n") for one in found)
    named = [str(one["operation_id"]) for one in found]
    if text or given.form != "text":
        given.emit(several(found), lambda _: text, named)
    return Exit.DONE


@click.command("continue")
@MANY
@click.option("--request-id", metavar="ID", help="The request's own id (default: a fresh one).")
@shared
def continue_(given: Shared, /, *, operations: tuple[str, ...], request_id: str | None) -> Exit:
    """Open the next continuation of an open operation: its client may call again.

    An open continuation is ended by this. What was done before is not done again: an identical
    write is answered by the one before, as far as its contracts allow.
    """
    if request_id is not None and len(ids.given(operations)) > 1:
        raise CommandError("--request-id names one continuation, and there are several operations")

    def act(operation_id: str) -> Document:
        body = {
            "trigger": "manual",
            "after": _newest(given, operation_id),
            "request_id": request_id or f"effectctl-{uuid.uuid4().hex}",
        }
        return given.daemon.post("operations", operation_id, "continuations", body=body)

    show(given, each(given, operations, act))
    return Exit.DONE


@click.command()
@MANY
@click.option(
    "--reason", required=True, type=click.Choice(REASONS),
    help="Why; `stop` ends its running calls too, `done` finishes the operation.",
)  # fmt: skip
@shared
def end(given: Shared, /, *, operations: tuple[str, ...], reason: str) -> Exit:
    """End the open continuation of an open operation: nothing more is called in it."""

    def act(operation_id: str) -> Document:
        newest = _newest(given, operation_id)
        path = ("operations", operation_id, "continuations", str(newest), "end")
        return given.daemon.post(*path, body={"reason": reason})

    show(given, each(given, operations, act))
    return Exit.DONE


def _newest(given: Shared, operation_id: str) -> int:
    """The number of its last continuation; CommandError for an operation of another kind."""
    document = given.daemon.get("operations", operation_id)
    found = objects(document, "continuations")
    if not found:
        kind = document.get("kind", "?")
        raise CommandError(f"{operation_id} is a {kind} operation, and has no continuations")
    return len(found) - 1
