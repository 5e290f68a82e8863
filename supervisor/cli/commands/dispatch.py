"""`effectctl dispatch`: one call, waited for, whatever happens to the connection meanwhile."""

from __future__ import annotations

import uuid
from typing import Any

import click

from supervisor.cli.exits import Exit, is_final
from supervisor.cli.follow import Interrupted, Patience, follow_operation
from supervisor.cli.given import json_value, labels
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_problem import goes_on
from supervisor.cli.talk import WAIT_MS, Daemon, Document, Problem
from supervisor.cli.text import json_text


@click.command()
@click.argument("handler")
@click.option(
    "--input", "input_", default="{}", metavar="JSON|@FILE|-", help="The handler's input."
)
@click.option(
    "--request-id", metavar="ID", help="Names this request for ever (default: a fresh one)."
)
@click.option(
    "--timeout-ms", type=click.IntRange(min=1), metavar="N", help="At most the manifest's."
)
@click.option("--max-run-ms", type=click.IntRange(min=1), metavar="N", help="The time budget.")
@click.option("--label", "pairs", multiple=True, metavar="KEY=VALUE")
@click.option("--dry-run", is_flag=True, help="Check everything; journal and start nothing.")
@click.option("-d", "--detach", is_flag=True, help="Do not wait; print the operation's id.")
@shared
def dispatch(  # noqa: PLR0913 - one parameter an option
    given: Shared,
    /,
    *,
    handler: str,
    input_: str,
    request_id: str | None,
    timeout_ms: int | None,
    max_run_ms: int | None,
    pairs: tuple[str, ...],
    dry_run: bool,
    detach: bool,
) -> Exit:
    """Run one handler and print its result as JSON.

    The request id makes this safe to send again: the same id is never run twice. Ctrl-C stops
    the waiting, not the operation.
    """
    named = request_id or f"effectctl-{uuid.uuid4().hex}"
    optional = {"timeout_ms": timeout_ms, "max_run_ms": max_run_ms, "labels": labels(pairs) or None}
    body: dict[str, Any] = {
        "request_id": named,
        "handler": handler,
        "input": json_value(input_, "--input"),
        **({"dry_run": True} if dry_run else {}),
        **{key: value for key, value in optional.items() if value is not None},
    }
    if dry_run:
        return _dry_run(given, body)
    accepted: Document | None = None
    try:
        accepted = _send(given, body, wait_ms=0 if detach else min(WAIT_MS, 1000))
        if detach:
            return _detached(given, accepted)
        operation = _followed(given, accepted)
        calls = given.daemon.newest_calls_of(operation)
    except KeyboardInterrupt:
        return _interrupted(given, named, accepted)
    except Interrupted:
        raise
    except Exception as error:
        _say_what_stands(given, error, named, accepted)
        raise
    return finish(given, operation, calls)


def _send(given: Shared, body: dict[str, Any], *, wait_ms: int) -> Document:
    """Send until it is known to be accepted or refused: always under the same request id."""
    from effectd.errors import AnswerLost, Unreachable

    patience = Patience()
    while True:
        try:
            return given.daemon.post("dispatch", body=body, wait_ms=wait_ms)
        except Problem as problem:
            if problem.document.get("code") != "AcceptanceUnknown":
                raise
            _note_once(given, patience, "it is not known whether it was accepted")
            patience.spend(problem)
        except AnswerLost as error:
            _note_once(given, patience, "the connection was lost")
            patience.spend(error)
        except Unreachable as error:
            # Nothing was ever sent: a daemon that is not there is said at once.
            if not patience.begun:
                raise
            patience.spend(error)


def _note_once(given: Shared, patience: Patience, what: str) -> None:
    if not patience.begun:
        given.note(f"effectctl: {what}; asking again with the same request id")


def _followed(given: Shared, accepted: Document) -> Document:
    """The operation at its end; only one that takes a while loads what shows progress."""
    if is_final(accepted):
        return accepted
    from supervisor.cli.watching import watching

    with watching(given) as watch:
        return follow_operation(given.daemon, accepted, watch)


def _dry_run(given: Shared, body: dict[str, Any]) -> Exit:
    """What would be done; a refusal of it is the same problem that the dispatch would get."""
    document = given.daemon.post("dispatch", body=body)
    given.emit(document, lambda look: json_text(document, pretty=True, ascii_only=look.ascii_only))
    return Exit.DONE


def _detached(given: Shared, operation: Document) -> Exit:
    operation_id = str(operation["operation_id"])
    given.emit(operation, lambda _: operation_id, [operation_id])
    if given.form == "text":
        calls = operation.get("calls") or ()
        for call_id in calls:
            given.note(f"Wait for it: effectctl calls wait {call_id}")
    return Exit.DONE


def _interrupted(given: Shared, request_id: str, operation: Document | None) -> Exit:
    found = operation or _accepted_as(given, request_id)
    if found is not None:
        given.note(goes_on(str(found["operation_id"])))
        return Exit.INTERRUPTED
    given.note(
        "\nInterrupted before the daemon answered: it may have been accepted.\n"
        f"  find it: effectctl operations list --request-id {request_id}"
    )
    return Exit.INTERRUPTED


def _accepted_as(given: Shared, request_id: str) -> Document | None:
    """The operation of a request whose answer was not waited for, where that can be asked."""
    from effectd.errors import EffectdError

    # The connection that was interrupted is in the middle of an answer.
    fresh = Daemon(given.daemon.socket)
    try:
        return next(fresh.items("operations", limit=1, request_id=request_id), None)
    except (EffectdError, Problem, KeyboardInterrupt):
        return None
    finally:
        fresh.close()


def _say_what_stands(
    given: Shared, error: Exception, request_id: str, operation: Document | None
) -> None:
    """What was accepted stays accepted, whatever went wrong while waiting for it."""
    from effectd.errors import AnswerLost

    if operation is not None:
        given.note(f"effectctl: it was accepted and goes on: {operation['operation_id']}")
        return
    lost = isinstance(error, AnswerLost)
    later = isinstance(error, Problem) and error.document.get("retryable") is True
    if lost or later:
        said = "it may have been accepted" if lost else "nothing is known to be accepted"
        given.note(f"effectctl: {said}; the same request is named by --request-id {request_id}")


def finish(
    given: Shared, operation: Document, calls: list[Document], *, onward: bool = True
) -> Exit:
    """Print how it ended: the result to stdout, what a person must know to stderr."""
    from supervisor.cli.exits import of_operation
    from supervisor.cli.render_operations import result_text

    code = of_operation(operation, calls)
    if given.form != "text":
        given.emit(operation, lambda _: "", [str(operation["operation_id"])])
        return code
    call = calls[-1] if calls else {}
    if code is Exit.DONE:
        if call.get("result_available") is False:
            given.note("The call succeeded; its result is not available (it is not run again).")
        else:
            given.emit(None, lambda look: result_text(operation.get("result"), look))
        return code
    from supervisor.cli.look_call import context_of
    from supervisor.cli.render_calls import Context
    from supervisor.cli.render_ending import ending

    context = context_of(given.daemon, call) if call else Context()
    given.note(ending(operation, call, code, given.notes, context, onward=onward))
    return code
