"""Open operations: calls, notes and continuations, as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frozen import frozen
from supervisor.api.command import Command, wait_of
from supervisor.api.fields import Fields, Invalid, Query
from supervisor.core.checkpoint import canonical_digest
from supervisor.core.record import Ending, Trigger

# What a client may give as the reason; the others are the daemon's to find.
REASONS = (
    *(Ending.DONE, Ending.TIME_LIMIT, Ending.ERROR),
    *(Ending.STOP, Ending.CREDENTIAL, Ending.RATE_LIMIT),
)


@frozen
class AskCall(Command):
    operation_id: str
    request_id: str
    request_digest: str
    handler: str
    input: Any
    timeout_ms: int | None
    continuation: int | None
    wait_ms: int


@frozen
class GetNote(Command):
    operation_id: str


@frozen
class Continue(Command):
    operation_id: str
    trigger: Trigger
    after: int
    request_id: str


@frozen
class EndContinuation(Command):
    operation_id: str
    n: int
    reason: Ending


def call(path: Sequence[str], _: Query, fields: Fields) -> Command:
    request_id = fields.client_id("request_id")
    handler = fields.text("handler", most=64)
    value = fields.any("input")
    timeout_ms = fields.integer("timeout_ms", None, least=1)
    # Where it is meant for is no part of it: the same request finds its call from anywhere.
    digest = canonical_digest({"handler": handler, "input": value, "timeout_ms": timeout_ms})
    continuation = fields.integer("continuation", None)
    wait_ms = wait_of(fields)
    return AskCall(path[0], request_id, digest, handler, value, timeout_ms, continuation, wait_ms)


def note(path: Sequence[str], _: Query, __: Fields) -> Command:
    return GetNote(path[0])


def go_on(path: Sequence[str], _: Query, fields: Fields) -> Command:
    trigger = Trigger(fields.one_of("trigger", Trigger.AUTO.value, Trigger.MANUAL.value))
    return Continue(path[0], trigger, fields.integer("after"), fields.client_id("request_id"))


def end(path: Sequence[str], _: Query, fields: Fields) -> Command:
    reason = Ending(fields.one_of("reason", *(one.value for one in REASONS)))
    return EndContinuation(path[0], _number(path[1]), reason)


def _number(segment: str) -> int:
    """A continuation's number in a path; what is none names no continuation."""
    if not (segment.isascii() and segment.isdigit() and len(segment) < 10):
        raise Invalid(f"{segment!r} is not a continuation's number", code="NotFound")
    return int(segment)
