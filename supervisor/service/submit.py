"""Dispatch: what a client asks for, checked before anything is decided."""

from __future__ import annotations

from typing import Any

from config.load import Handler
from supervisor.api import routes
from supervisor.core.access import Verb
from supervisor.core.decide.operation import evicted_refusal
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, OperationId, default_session
from supervisor.core.step import (
    Submitted,
)
from supervisor.dispatch.command import terms_of
from supervisor.dispatch.engine import new_id
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, json_response, problem_response


async def dispatch(context: Context, command: routes.Dispatch, caller: Caller) -> Response:
    engine = context.engine
    session = default_session(caller.peer.uid)
    context.permit(Verb.CREATE, caller, owner=None)
    known = engine.state.messages.get((session, command.request_id))
    if known is None and engine.draining:
        raise Denied(Refusal("Draining", "the daemon is stopping"))
    evicted = engine.state.tombstones.get(known) if known is not None else None
    if evicted is not None:
        raise Denied(evicted_refusal(evicted, command.request_id, command.request_digest))
    event = _submitted(context, command, caller, known)
    if command.dry_run:
        return json_response(200, _dry_run(context, event, known))
    await engine.make_room()
    decision = await engine.commit(event, caller.lent)
    if decision.refusal is not None:
        return problem_response(decision.refusal)
    assert decision.operation_id is not None
    return await context.acted(decision, decision.operation_id, command.wait_ms)


def _submitted(
    context: Context, command: routes.Dispatch, caller: Caller, known: OperationId | None
) -> Submitted:
    """What is to be decided. A message that is known needs no handler any more."""
    config = context.engine.config
    kept = context.engine.state.operations.get(known) if known is not None else None
    if kept is not None:
        first = next(kept.ordered_calls())
        terms, timeout_ms = first.terms, first.timeout_ms
    else:
        handler = context.handler(command.handler)
        context.permit_handler(handler, caller)
        _check_input(handler, command.input)
        terms = terms_of(handler)
        timeout_ms = _timeout(handler, command.timeout_ms)
    default = max(config.default_max_run_ms, 2 * timeout_ms + config.budget_margin_ms + 1)
    return Submitted(
        context.engine.now(),
        OperationId(new_id("op_")),
        CallId(new_id("call_")),
        default_session(caller.peer.uid),
        command.request_id,
        command.request_digest,
        caller.by,
        terms,
        command.input,
        timeout_ms,
        command.max_run_ms or default,
        command.labels,
        config.limits.operations_per_session,
        config.limits.operations_kept,
    )


def _timeout(handler: Handler, asked: int | None) -> int:
    most = handler.manifest.timeout_ms
    if asked is not None and asked > most:
        detail = f"timeout_ms is at most the manifest's {most}"
        raise Denied(Refusal("InvalidInput", detail, pointer="/timeout_ms"))
    return asked or most


def _check_input(handler: Handler, value: Any) -> None:
    if handler.input_schema is None:
        return
    # A fifth of the start-up time, and most handlers have no schema.
    from config.schemas import input_fault  # noqa: PLC0415

    fault = input_fault(handler.input_schema, value)
    if fault is not None:
        raise Denied(Refusal("InvalidInput", fault.message, pointer=f"/input{fault.pointer}"))


def _dry_run(context: Context, event: Submitted, known: OperationId | None) -> dict[str, Any]:
    return {
        "dry_run": True,
        "same_as": known,
        "handler": event.terms.handler,
        "digest": event.terms.digest,
        "timeout_ms": event.timeout_ms,
        "max_run_ms": event.max_run_ms,
        "admitted": event.timeout_ms + context.engine.config.budget_margin_ms < event.max_run_ms,
        "effects": [
            {"name": effect.name, "contract": effect.contract.value}
            for effect in event.terms.effects
        ],
    }
