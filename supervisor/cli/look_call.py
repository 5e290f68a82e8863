"""What `calls show` and a failed dispatch add to a call's document: stderr tails and hints."""

from __future__ import annotations

import os

from supervisor.cli.documents import objects, part, texts
from supervisor.cli.hints import SYSTEM, Policy, hints
from supervisor.cli.talk import Daemon, Document, Problem

MOST = 3
GOOD = frozenset({"succeeded", None})


def tails_and_hints(daemon: Daemon, call: Document) -> tuple[dict[int, str], list[str]]:
    """The stderr of the attempts that did not succeed, and why the last one may have been denied.

    Output that is no longer kept, or not the caller's to read, is simply absent: the call's own
    document says how it ended.
    """
    attempts = objects(call, "attempts")
    failed = [int(one["attempt"]) for one in attempts if one.get("outcome") not in GOOD]
    if not failed:
        return {}, []
    found = {one: stderr_of(daemon, call, one) for one in failed[-MOST:]}
    tails = {one: text for one, text in found.items() if text}
    last = tails.get(failed[-1], "")
    if not last:
        return tails, []
    return tails, hints(last, _policy(daemon, call), os.path.lexists, SYSTEM)


def stderr_of(daemon: Daemon, call: Document, attempt: int) -> str:
    """What is kept of an attempt's stderr; empty when nothing is."""
    try:
        output = daemon.get("calls", str(call["call_id"]), "output", attempt=attempt)
    except Problem:
        return ""
    stream = part(output, "stderr")
    return str(stream.get("head") or "") + str(stream.get("tail") or "")


def _policy(daemon: Daemon, call: Document) -> Policy:
    """The sandbox of the call's handler as it is loaded now."""
    try:
        handler: Document = daemon.get("handlers", str(call["handler"]))
    except Problem:
        handler = {}
    sandbox = part(handler, "sandbox")
    return Policy(
        network=str(sandbox.get("network") or "none"),
        visible=(*texts(sandbox, "read"), *_closure(texts(handler, "command"))),
        writable=tuple(texts(sandbox, "write")),
    )


def _closure(command: list[str]) -> tuple[str, ...]:
    """What the command's own files make visible; nothing where this user cannot tell."""
    from sandbox.closure import closure

    return closure(command[0]).paths if command else ()
