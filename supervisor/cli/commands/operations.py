"""`effectctl operations ...`."""

from __future__ import annotations

import uuid
from functools import partial

import click

from supervisor.cli import ids
from supervisor.cli.commands.operations_open import continue_, end, note
from supervisor.cli.documents import part
from supervisor.cli.each import each, show
from supervisor.cli.exits import Exit, gravest, of_cancel
from supervisor.cli.follow import follow_operation
from supervisor.cli.output import Shared, several, shared
from supervisor.cli.render_operations import operation_list, recovery
from supervisor.cli.talk import WAIT_MS, CommandError, Document
from supervisor.cli.text import json_text

MANY = click.argument("operations", nargs=-1, required=True, metavar="OPERATION...")
REASON = click.option("--reason", required=True, help="Why; it is written to the journal.")


@click.group()
def operations() -> None:
    """What clients asked for. An id may be shortened; - reads ids from stdin."""


@operations.command("list")
@click.option("--state", metavar="STATE", help="Only those in this state.")
@click.option("--handler", metavar="NAME", help="Only those of this handler.")
@click.option("--request-id", metavar="ID", help="Only that of this request.")
@click.option(
    "--needs", metavar="WHOM", help="Only those that wait for: person, reconciler, client."
)
@click.option("--since", metavar="TIME", help="Only those accepted since (RFC 3339).")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest N.")
@shared
def list_(given: Shared, /, *, limit: int, everything: bool, **filters: str | None) -> Exit:
    """The newest operations."""
    most = None if everything else limit + 1
    found = list(given.daemon.items("operations", limit=most, **filters))
    shown = found if everything else found[:limit]
    given.emit(
        {"items": shown},
        lambda look: operation_list(shown, look),
        [str(one["operation_id"]) for one in shown],
    )
    if len(found) > len(shown) and given.form == "text":
        given.note("There are more: --limit N, or --all.")
    return Exit.DONE


@operations.command("show")
@MANY
@shared
def show_(given: Shared, /, *, operations: tuple[str, ...]) -> Exit:
    """One operation whole, with its timeline."""
    show(given, each(given, operations, lambda one: given.daemon.get("operations", one)))
    return Exit.DONE


@operations.command()
@MANY
@REASON
@shared
def cancel(given: Shared, /, *, operations: tuple[str, ...], reason: str) -> Exit:
    """End it: what runs is ended, nothing new is started.

    Cancelling does not undo: an effect that was applied stays applied, one whose outcome is
    unknown stays unknown (exit 6).
    """

    def act(operation_id: str) -> Document:
        body = {"reason": reason}
        answer = given.daemon.post("operations", operation_id, "cancel", body=body, wait_ms=WAIT_MS)
        return follow_operation(given.daemon, answer)

    found = each(given, operations, act)
    show(given, found)
    return gravest(map(of_cancel, found))


@operations.command("recovery")
@MANY
@shared
def recovery_(given: Shared, /, *, operations: tuple[str, ...]) -> Exit:
    """What may be done with an interrupted or unknown operation, and what may not."""
    named = [ids.resolve(given.daemon, "operation", word) for word in ids.given(operations)]
    found = [given.daemon.get("operations", one, "recovery") for one in named]
    given.emit(
        several(found),
        lambda look: "\n\n".join(
            recovery(document, one, look) for one, document in zip(named, found, strict=True)
        ),
        named,
    )
    return Exit.DONE


@operations.command()
@MANY
@click.option("--request-id", metavar="ID", help="The resume's own id (default: a fresh one).")
@click.option("-d", "--detach", is_flag=True, help="Do not wait for its end.")
@shared
def resume(
    given: Shared, /, *, operations: tuple[str, ...], request_id: str | None, detach: bool
) -> Exit:
    """Go on with an interrupted operation, as far as its effects' contracts allow.

    Recovery is read first; what has changed since refuses the resume.
    """
    from supervisor.cli.follow import exit_of

    if request_id is not None and len(ids.given(operations)) > 1:
        raise CommandError("--request-id names one resume, and there are several operations")
    act = partial(_resume, given, request_id=request_id, detach=detach)
    found = each(given, operations, act)
    show(given, found)
    return Exit.DONE if detach else gravest(exit_of(given.daemon, one) for one in found)


def _resume(given: Shared, operation_id: str, *, request_id: str | None, detach: bool) -> Document:
    checkpoint = part(given.daemon.get("operations", operation_id, "recovery"), "checkpoint")
    body = {
        "schema_version": "effectd-operation-resume-request-v1",
        "operation_id": operation_id,
        "checkpoint_revision": checkpoint.get("revision"),
        "checkpoint_digest": checkpoint.get("digest"),
        "resume_request_id": request_id or f"effectctl-{uuid.uuid4().hex}",
    }
    wait_ms = None if detach else WAIT_MS
    answer = given.daemon.post("operations", operation_id, "resume", body=body, wait_ms=wait_ms)
    if detach:
        return answer
    from supervisor.cli.watching import watching

    with watching(given) as watch:
        return follow_operation(given.daemon, answer, watch)


@operations.command()
@MANY
@click.option(
    "--max-run-ms", type=click.IntRange(min=1), required=True, metavar="N",
    help="The new limit, above the present one.",
)  # fmt: skip
@REASON
@shared
def extend(given: Shared, /, *, operations: tuple[str, ...], max_run_ms: int, reason: str) -> Exit:
    """Raise the time budget."""
    body = {"max_run_ms": max_run_ms, "reason": reason}
    show(
        given,
        each(
            given,
            operations,
            lambda one: given.daemon.post("operations", one, "extend", body=body),
        ),
    )
    return Exit.DONE


@operations.command("accept-artifacts")
@MANY
@REASON
@shared
def accept_artifacts(given: Shared, /, *, operations: tuple[str, ...], reason: str) -> Exit:
    """Accept that the handler is not what it was (after HandlerArtifactChanged; admins)."""
    body = {"reason": reason}
    show(
        given,
        each(
            given,
            operations,
            lambda one: given.daemon.post("operations", one, "accept-artifacts", body=body),
        ),
    )
    return Exit.DONE


@operations.command()
@MANY
@shared
def checkpoint(given: Shared, /, *, operations: tuple[str, ...]) -> Exit:
    """What a resume pins: the operation's replayed state, with its digest, as JSON."""
    found = each(given, operations, lambda one: given.daemon.get("operations", one, "checkpoint"))
    given.emit(
        several(found),
        lambda look: "\n".join(
            json_text(one, pretty=True, ascii_only=look.ascii_only) for one in found
        ),
        [str(one["operation_id"]) for one in found],
    )
    return Exit.DONE


for one in (note, continue_, end):
    operations.add_command(one)
