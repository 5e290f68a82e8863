"""Sessions and their messages: what is asked, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from frozen import frozen
from supervisor.api.command import Command, Page, page_of, wait_of
from supervisor.api.fields import Fields, Invalid, Query
from supervisor.core.checkpoint import canonical_digest
from supervisor.program import Program, parse
from supervisor.program.reading import NODE_ID
from supervisor.program.template import pointer

WORK = ("call", "program", "open")
FAULTS_MAX = 100
INPUTS_MAX = 64


@frozen
class CreateSession(Command):
    request_id: str | None
    labels: Mapping[str, str]


@frozen
class ListSessions(Command):
    page: Page


@frozen
class GetSession(Command):
    session_id: str
    page: Page


@frozen
class CallWork:
    """One call as the whole operation."""

    handler: str
    input: Any
    timeout_ms: int | None


@frozen
class OpenWork:
    """No work yet: the client asks for calls as it goes."""


@frozen
class ProgramWork:
    """A program that is valid, its input, and its raw inputs: those are never written down."""

    document: Any
    program: Program
    input: Any
    inputs: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)


@frozen
class SendMessage(Command):
    session_id: str
    message_id: str
    request_digest: str
    work: CallWork | OpenWork | ProgramWork
    max_run_ms: int
    labels: Mapping[str, str]
    wait_ms: int


def create(_: Sequence[str], __: Query, fields: Fields) -> Command:
    request_id = fields.client_id("request_id") if fields.has("request_id") else None
    return CreateSession(request_id, fields.labels("labels"))


def listed(_: Sequence[str], query: Query, __: Fields) -> Command:
    return ListSessions(page_of(query))


def one(path: Sequence[str], query: Query, _: Fields) -> Command:
    return GetSession(path[0], page_of(query))


def dispatch_digest(
    handler: str,
    value: Any,
    timeout_ms: int | None,
    max_run_ms: int | None,
    labels: Mapping[str, str],
) -> str:
    """Of one call as an operation: the same by whichever route it comes."""
    return canonical_digest(
        {
            "handler": handler,
            "input": value,
            "timeout_ms": timeout_ms,
            "max_run_ms": max_run_ms,
            "labels": labels,
        }
    )


def message(path: Sequence[str], _: Query, fields: Fields) -> Command:
    message_id = fields.client_id("message_id")
    max_run_ms = fields.integer("max_run_ms", least=1)
    labels = fields.labels("labels")
    given = [kind for kind in WORK if fields.has(kind)]
    if len(given) != 1:
        raise Invalid(f"one of {', '.join(map(repr, WORK))} must be given, and no other")
    if given == ["open"]:
        if fields.any("open") is not True:
            raise Invalid("'open' must be true", "/open")
        digest = canonical_digest({"open": True, "max_run_ms": max_run_ms, "labels": labels})
        wait_ms = wait_of(fields)
        return SendMessage(path[0], message_id, digest, OpenWork(), max_run_ms, labels, wait_ms)
    work: CallWork | ProgramWork
    if given == ["call"]:
        work = _call(Fields(fields.any("call"), "/call"))
        digest = dispatch_digest(work.handler, work.input, work.timeout_ms, max_run_ms, labels)
    else:
        work = _program(fields)
        digest = canonical_digest(
            {
                "program": work.document,
                "program_input": work.input,
                "max_run_ms": max_run_ms,
                "labels": labels,
                # Not their values: whoever holds the journal could try what gives this digest.
                **({"inputs": sorted(work.inputs)} if work.inputs else {}),
            }
        )
    return SendMessage(path[0], message_id, digest, work, max_run_ms, labels, wait_of(fields))


def _call(fields: Fields) -> CallWork:
    work = CallWork(
        fields.text("handler", most=64),
        fields.any("input"),
        fields.integer("timeout_ms", None, least=1),
    )
    fields.done()
    return work


def _program(fields: Fields) -> ProgramWork:
    """Every fault of the document is in `faults`; the first one is the answer's own."""
    document, inputs = fields.any("program"), _inputs(fields)
    found = parse(document, tuple(sorted(inputs)))
    if isinstance(found, Program):
        return ProgramWork(document, found, fields.any("program_input", None), inputs)
    faults = [{"pointer": f"/program{one.pointer}", "detail": one.detail} for one in found]
    first = faults[0]
    raise Invalid(first["detail"], first["pointer"], extra={"faults": faults[:FAULTS_MAX]})


def _inputs(fields: Fields) -> Mapping[str, Any]:
    """By name. Their names are written down, so they are kept to what expressions can say."""
    value = fields.any("inputs", {})
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    if members is None or len(members) > INPUTS_MAX:
        raise Invalid(f"'inputs' must be an object of at most {INPUTS_MAX} members", "/inputs")
    for name in members:
        if NODE_ID.fullmatch(name) is None:
            raise Invalid("a letter or _, then up to 63 of A-Za-z0-9_-", f"/inputs{pointer(name)}")
    return members
