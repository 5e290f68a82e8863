"""`effectctl approvals ...`: what programs wait for, and the one answer."""

from __future__ import annotations

import click

from supervisor.cli import ids
from supervisor.cli.exits import Exit
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_sessions import approval, approval_list


@click.group()
def approvals() -> None:
    """Decisions of people that programs wait for."""


@approvals.command("list")
@shared
def list_(given: Shared, /) -> Exit:
    """Those that wait, the most urgent first, each with the command to type."""
    found = list(given.daemon.items("approvals"))
    named = [str(one["operation_id"]) for one in found]
    given.emit({"items": found}, lambda look: approval_list(found, look), named)
    return Exit.DONE


@approvals.command()
@click.argument("operation", metavar="OPERATION")
@click.argument("occurrence", metavar="NODE")
@click.option("--choice", required=True, metavar="WORD", help="One of the approval's choices.")
@click.option("--comment", metavar="TEXT", help="Kept with the answer, for the program to see.")
@shared
def answer(
    given: Shared, /, *, operation: str, occurrence: str, choice: str, comment: str | None
) -> Exit:
    """Answer, once: `reject` stops the program, any other choice lets it go on."""
    # Whoever may answer need not be one who may list the operation: a whole id needs no list.
    one = ids.resolve(given.daemon, "operation", operation)
    body = {"choice": choice, **({"comment": comment} if comment else {})}
    answered = given.daemon.post("operations", one, "approvals", occurrence, body=body)
    given.emit(answered, lambda look: approval(answered, look), [one])
    return Exit.DONE
