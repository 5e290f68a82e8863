"""`effectctl calls ...`."""

from __future__ import annotations

import click

from supervisor.cli import ids
from supervisor.cli.exits import Exit, gravest, of_call
from supervisor.cli.follow import follow_call
from supervisor.cli.look import Look
from supervisor.cli.look_call import context_of
from supervisor.cli.output import Shared, several, shared
from supervisor.cli.render_calls import call, captured
from supervisor.cli.talk import Document, Problem, path_of
from supervisor.cli.text import json_text

MANY = click.argument("calls", nargs=-1, required=True, metavar="CALL...")
ONE = click.argument("call_id", metavar="CALL")


@click.group()
def calls() -> None:
    """Invocations of handlers. An id may be shortened; - reads ids from stdin."""


def _documents(given: Shared, words: tuple[str, ...]) -> list[Document]:
    named = [ids.resolve(given.daemon, "call", word) for word in ids.given(words)]
    return [given.daemon.get("calls", one) for one in named]


def _show(given: Shared, found: list[Document]) -> None:
    def one(document: Document) -> str:
        return call(document, given.look, context=context_of(given.daemon, document))

    given.emit(
        several(found),
        lambda _: "\n\n".join(one(document) for document in found),
        [str(document["call_id"]) for document in found],
    )


@calls.command()
@MANY
@shared
def show(given: Shared, /, *, calls: tuple[str, ...]) -> Exit:
    """One call whole: attempts, sandbox, effects, and why it was denied."""
    _show(given, _documents(given, calls))
    return Exit.DONE


@calls.command()
@MANY
@shared
def wait(given: Shared, /, *, calls: tuple[str, ...]) -> Exit:
    """Wait for the end; the exit code tells how it ended."""
    from supervisor.cli.watching import watching

    with watching(given) as watch:
        found = [follow_call(given.daemon, one, watch) for one in _documents(given, calls)]
    _show(given, found)
    return gravest(map(of_call, found))


@calls.command()
@ONE
@shared
def result(given: Shared, /, *, call_id: str) -> Exit:
    """The result as JSON; without one, the exit code tells why."""
    name = ids.resolve(given.daemon, "call", call_id)
    try:
        value = given.daemon.ask("GET", path_of("calls", name, "result"))
    except Problem as problem:
        # That there is no result is told as the call's ending wherever it has one.
        ended = given.daemon.get("calls", name)
        if problem.document.get("code") == "NotFound" and of_call(ended) is not Exit.DONE:
            given.note(f"effectctl: {name} has no result: it is {ended.get('state')}.")
            return of_call(ended)
        raise
    given.emit(
        value,
        lambda look: json_text(value, pretty=True, ascii_only=look.ascii_only),
        [name],
    )
    return Exit.DONE


@calls.command()
@ONE
@click.option("--attempt", type=click.IntRange(min=0), metavar="N", help="Not the newest but this.")
@click.option("--stdout", "only", flag_value="stdout", help="Only what it wrote to stdout.")
@click.option("--stderr", "only", flag_value="stderr", help="Only what it wrote to stderr.")
@shared
def output(given: Shared, /, *, call_id: str, attempt: int | None, only: str | None) -> Exit:
    """What the handler wrote. Control characters are spelled out; -o json has all of it."""
    name = ids.resolve(given.daemon, "call", call_id)
    document = given.daemon.get("calls", name, "output", attempt=attempt)
    streams = [only] if only else ["stdout", "stderr"]
    bodies = {stream: captured(document, stream).rstrip("\n") for stream in streams}

    def text(look: Look) -> str:
        if only:
            return bodies[only]
        return "\n".join(
            f"{look.paint(f'--- {stream}', 'quiet')}\n{body}"
            for stream, body in bodies.items()
            if body
        )

    given.emit(document, text, [name])
    return Exit.DONE


@calls.command("attest-dead")
@MANY
@click.option("--reason", required=True, help="How you know that its processes are gone.")
@shared
def attest_dead(given: Shared, /, *, calls: tuple[str, ...], reason: str) -> Exit:
    """State that an old attempt's processes are gone, where nothing else can prove it."""
    named = [ids.resolve(given.daemon, "call", word) for word in ids.given(calls)]
    for one in named:
        given.daemon.post("calls", one, "attest-dead", body={"reason": reason})
    _show(given, [given.daemon.get("calls", one) for one in named])
    return Exit.DONE
