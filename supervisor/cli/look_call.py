"""What `calls show` and a failed dispatch add to a call's document: stderr tails and hints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.cli.denials.values import Policy, is_broad
from supervisor.cli.documents import number, objects, part, texts
from supervisor.cli.hints import hints
from supervisor.cli.render_calls import Context
from supervisor.cli.talk import Daemon, Document, Problem

MOST = 3
GOOD = frozenset({"succeeded", None})
# Layers that only some deployments have; `doctor` tells about them.
OPTIONAL = frozenset({"cgroup", "uid"})
# Where the daemon keeps its own when nobody says otherwise: no handler sees it, so no hint names a
# key for it.
OWN = (
    "/etc/effectd",
    "/run/effectd",
    "/run/effectd-private",
    "/var/lib/effectd",
    "/var/lib/effectd-witness",
)


def context_of(daemon: Daemon, call: Document) -> Context:
    """What is known beside the document: sandbox, stderr of failed attempts, and why.

    Output that is no longer kept, or not the caller's to read, is simply absent: the call's own
    document says how it ended.
    """
    attempts = objects(call, "attempts")
    failed = [number(one, "attempt") for one in attempts if one.get("outcome") not in GOOD]
    if not failed:
        return Context()
    handler = _handler(daemon, call)
    sandbox = part(handler, "sandbox")
    said = {one: stderr_of(daemon, call, one) for one in failed[-MOST:]}
    last = said.get(failed[-1], "")
    return Context(
        tails={one: text for one, text in said.items() if text},
        policies={
            number(one, "attempt"): {**sandbox, "missing": _missing(one, sandbox)}
            for one in attempts
        },
        hints=hints(last, _policy(daemon, handler), signal=_signal(attempts, failed[-1])),
    )


def _missing(attempt: Mapping[str, Any], sandbox: Mapping[str, Any]) -> list[str]:
    """The layers of a sandbox of this level that the attempt did not have."""
    from sandbox.spec import LAYERS

    had = texts(attempt, "layers")
    if not had or sandbox.get("level") != "strict":
        return []
    shared = {"network"} if sandbox.get("network") == "host" else set[str]()
    return [one for one in LAYERS if one not in had and one not in shared | OPTIONAL]


def stderr_of(daemon: Daemon, call: Document, attempt: int) -> str:
    """What is kept of an attempt's stderr; empty when nothing is."""
    try:
        output = daemon.get("calls", str(call["call_id"]), "output", attempt=attempt)
    except Problem:
        return ""
    stream = part(output, "stderr")
    return str(stream.get("head") or "") + str(stream.get("tail") or "")


def _handler(daemon: Daemon, call: Document) -> Document:
    """The call's handler as it is loaded now; empty when it is gone."""
    try:
        return daemon.get("handlers", str(call["handler"]))
    except Problem:
        return {}


def _signal(attempts: Sequence[Mapping[str, Any]], which: int) -> int:
    """The number of the signal that ended an attempt; 0 for none."""
    ended = next(one for one in attempts if number(one, "attempt") == which)
    return number(part(ended, "exit"), "signal")


def _policy(daemon: Daemon, handler: Document) -> Policy:
    sandbox = part(handler, "sandbox")
    file = handler.get("file")
    own = [os.path.dirname(path) for path in (file, daemon.socket) if isinstance(path, str)]  # noqa: PTH120 - by the letter
    return Policy(
        network=str(sandbox.get("network") or "none"),
        visible=(*texts(sandbox, "read"), *_closure(texts(handler, "command"))),
        writable=tuple(texts(sandbox, "write")),
        unix=tuple(texts(sandbox, "unix")),
        hidden=(*OWN, *(one for one in own if not is_broad(one))),
    )


def _closure(command: list[str]) -> tuple[str, ...]:
    """What the command's own files make visible; nothing where this user cannot tell."""
    from sandbox.closure import closure

    return closure(command[0]).paths if command else ()
