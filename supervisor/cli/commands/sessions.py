"""`effectctl sessions ...`: containers of operations, and the messages sent to them."""

from __future__ import annotations

import os
import uuid
from typing import Any

import click

from supervisor.cli.each import show
from supervisor.cli.exits import Exit
from supervisor.cli.follow import exit_of, follow_operation
from supervisor.cli.given import json_value, labels
from supervisor.cli.output import Shared, several, shared
from supervisor.cli.render_sessions import session, session_list

LABEL = click.option("--label", "pairs", multiple=True, metavar="KEY=VALUE")


@click.group()
def sessions() -> None:
    """Containers of operations. Everybody has one that need not be created, uid:N."""


@sessions.command()
@click.option("--request-id", metavar="ID", help="Names this session for you (default: a new one).")
@LABEL
@shared
def create(given: Shared, /, *, request_id: str | None, pairs: tuple[str, ...]) -> Exit:
    """Create a session and print its id; the same request id makes no other one."""
    named = request_id or f"effectctl-{uuid.uuid4().hex}"
    made = given.daemon.post("sessions", body={"request_id": named, "labels": labels(pairs)})
    session_id = str(made["session_id"])
    given.emit(made, lambda _: session_id, [session_id])
    return Exit.DONE


@sessions.command("list")
@shared
def list_(given: Shared, /) -> Exit:
    """The sessions that were created, newest first."""
    found = list(given.daemon.items("sessions"))
    ids = [str(one["session_id"]) for one in found]
    given.emit({"items": found}, lambda look: session_list(found, look), ids)
    return Exit.DONE


@sessions.command("show")
@click.argument("names", nargs=-1, required=True, metavar="SESSION...")
@shared
def show_(given: Shared, /, *, names: tuple[str, ...]) -> Exit:
    """A session with the newest of its messages."""
    found = [given.daemon.get("sessions", one) for one in names]
    ids = [str(one["session_id"]) for one in found]
    given.emit(several(found), lambda look: "\n\n".join(session(one, look) for one in found), ids)
    return Exit.DONE


@sessions.command()
@click.argument("name", required=False, metavar="[SESSION]")
@click.option(
    "--program", required=True, metavar="JSON|@FILE|-", help="The program (effectd-program-v1)."
)
@click.option("--input", "input_", default="null", metavar="JSON|@FILE|-", help="Its input.")
@click.option(
    "--inputs", metavar="@FILE|-|JSON",
    help="Its raw inputs, an object: nothing writes them down, and it cannot be resumed.",
)  # fmt: skip
@click.option("--message-id", metavar="ID", help="Names this for ever (default: a fresh one).")
@click.option(
    "--max-run-ms", type=click.IntRange(min=1), default=600_000, show_default=True, metavar="N",
    help="The time budget of all its calls together.",
)  # fmt: skip
@LABEL
@click.option("-d", "--detach", is_flag=True, help="Do not wait; print the operation's id.")
@shared
def send(  # noqa: PLR0913 - one parameter an option
    given: Shared,
    /,
    *,
    name: str | None,
    program: str,
    input_: str,
    inputs: str | None,
    message_id: str | None,
    max_run_ms: int,
    pairs: tuple[str, ...],
    detach: bool,
) -> Exit:
    """Send a program to a session (default: your own), and wait until it ends or asks somebody.

    The message id makes this safe to send again: the same id is never run twice.
    """
    body: dict[str, Any] = {
        "message_id": message_id or f"effectctl-{uuid.uuid4().hex}",
        "max_run_ms": max_run_ms,
        "program": json_value(program, "--program"),
        "program_input": json_value(input_, "--input"),
        "labels": labels(pairs),
    }
    if inputs is not None:
        body["inputs"] = json_value(inputs, "--inputs")
    path = ("sessions", name or f"uid:{os.getuid()}", "messages")
    answer = given.daemon.post(*path, body=body)
    if detach:
        operation_id = str(answer["operation_id"])
        given.emit(answer, lambda _: operation_id, [operation_id])
        return Exit.DONE
    ended = follow_operation(given.daemon, answer)
    show(given, [ended])
    return exit_of(given.daemon, ended)
