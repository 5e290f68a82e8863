"""Requests about open operations: their calls, their note, their continuations."""

from __future__ import annotations

import sys
import traceback

from supervisor.api import open as asked
from supervisor.api.views import asked_view, operation_view
from supervisor.core.access import Verb
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId
from supervisor.core.note import note
from supervisor.core.standing import call_result
from supervisor.core.state import Operation
from supervisor.core.step import CallAsked, ContinueAsked, EndAsked
from supervisor.dispatch.command import terms_of
from supervisor.dispatch.engine import new_id
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, json_response, problem_response
from supervisor.service.submit import check_input, timeout_of


async def call(context: Context, command: asked.AskCall, caller: Caller) -> Response:
    """One call; answered with its operation and, in `call`, with what answers it."""
    operation = context.operation(command.operation_id, caller, Verb.DRIVE)
    one = operation.operation_id
    event = _asked(context, operation, command, caller)
    await context.engine.make_room()
    decision = await context.engine.commit(event, caller.lent)
    if decision.refusal is not None:
        return problem_response(decision.refusal)
    call_id = context.kept(one).requests[command.request_id].call_id
    final = await context.call_final(one, call_id, command.wait_ms)
    operation = context.kept(one)
    values = await context.values(operation, call_result(operation, operation.calls[call_id]))
    operation, now = context.kept(one), context.engine.now()
    answer = asked_view(operation, command.request_id, now, values)
    document = {**operation_view(operation, now), "call": answer}
    if final or decision.repeated:
        return json_response(200, document)
    return json_response(202, document, {"location": f"/v1/calls/{call_id}", "retry-after": "1"})


def _asked(
    context: Context, operation: Operation, command: asked.AskCall, caller: Caller
) -> CallAsked:
    """What is to be decided. A request that is known needs no handler any more."""
    known = operation.requests.get(command.request_id)
    if known is not None:
        of = operation.calls[known.call_id]
        terms, timeout_ms = of.terms, of.timeout_ms
    else:
        if context.engine.draining:
            raise Denied(Refusal("Draining", "the daemon is stopping"))
        handler = context.handler(command.handler)
        context.permit_handler(handler, caller)
        check_input(handler, command.input)
        terms, timeout_ms = terms_of(handler), timeout_of(handler, command.timeout_ms)
    return CallAsked(
        now=context.engine.now(),
        operation_id=operation.operation_id,
        call_id=CallId(new_id("call_")),
        by=caller.by,
        request_id=command.request_id,
        request_digest=command.request_digest,
        terms=terms,
        input=command.input,
        timeout_ms=timeout_ms,
        margin_ms=context.engine.config.budget_margin_ms,
        continuation=command.continuation,
    )


async def get_note(context: Context, command: asked.GetNote, caller: Caller) -> Response:
    """Best effort: a note that cannot be made is an empty one, and blocks nothing."""
    await context.read()
    operation = context.operation(command.operation_id, caller)
    try:
        text = note(context.engine.state, operation)
    except Exception:  # noqa: BLE001  # whatever it is, the prompt goes on without
        traceback.print_exc(file=sys.stderr)
        text = ""
    return json_response(200, {"operation_id": operation.operation_id, "note": text})


async def go_on(context: Context, command: asked.Continue, caller: Caller) -> Response:
    operation = context.driven(command.operation_id, caller)
    opened = {one.request_id for one in operation.continuations}
    if context.engine.draining and command.request_id not in opened:
        raise Denied(Refusal("Draining", "the daemon is stopping"))
    await context.engine.make_room()
    event = ContinueAsked(
        context.engine.now(),
        operation.operation_id,
        caller.by,
        command.trigger,
        command.after,
        command.request_id,
    )
    decision = await context.engine.commit(event, caller.lent)
    return await context.acted(decision, operation.operation_id)


async def end(context: Context, command: asked.EndContinuation, caller: Caller) -> Response:
    operation = context.driven(command.operation_id, caller)
    now = context.engine.now()
    event = EndAsked(now, operation.operation_id, caller.by, command.n, command.reason)
    decision = await context.engine.commit(event)
    return await context.acted(decision, operation.operation_id)
