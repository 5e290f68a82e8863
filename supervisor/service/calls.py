"""Requests about calls."""

from __future__ import annotations

import trio

from supervisor.api import routes
from supervisor.api.views import call_view
from supervisor.core.access import Verb
from supervisor.core.errors import Refusal
from supervisor.core.standing import CallState, call_result, call_state
from supervisor.core.step import (
    Decision,
    ProvenDead,
)
from supervisor.dispatch import output
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, json_response


async def get_call(context: Context, command: routes.GetCall, caller: Caller) -> Response:
    operation, _ = context.call(command.call_id, caller)
    await context.final(operation.operation_id, command.wait_ms)
    operation, call = context.call(command.call_id, caller)
    document = call_view(operation, call, context.engine.now())
    live = context.engine.live
    progress = next(
        (one.progress for key, one in live.items() if key.call_id == call.call_id), None
    )
    if progress is not None:
        thousandths, message = progress
        document["progress"] = {"thousandths": thousandths, "message": message}
    return json_response(200, document)


async def get_result(context: Context, command: routes.GetResult, caller: Caller) -> Response:
    await context.read()
    operation, call = context.call(command.call_id, caller)
    state = call_state(operation, call)
    result = call_result(operation, call)
    if state is not CallState.SUCCEEDED or result is None:
        detail = f"{command.call_id} is {state.value} and has no result"
        raise Denied(Refusal("NotFound", detail, fix="Look at the call: it says why."))
    if not result.available:
        detail = f"the result of {command.call_id} is not available: {result.unavailable}"
        raise Denied(Refusal("EffectResultUnavailable", detail, call_id=call.call_id))
    return json_response(200, result.value)


async def get_output(context: Context, command: routes.GetOutput, caller: Caller) -> Response:
    await context.read()
    operation, call = context.call(command.call_id, caller)
    call = operation.newest(call) if command.attempt is None else call
    number = len(call.attempts) - 1 if command.attempt is None else command.attempt
    empty = {"head": "", "tail": "", "bytes": 0, "omitted": 0}
    kept = None
    if number >= 0:
        directory = context.engine.config.state_dir / "output"
        kept = await trio.to_thread.run_sync(output.load, directory, call.call_id, number)
    document = {"stdout": empty, "stderr": empty, **(kept or {})}
    return json_response(200, {"call_id": call.call_id, "attempt": number, **document})


async def attest_dead(context: Context, command: routes.AttestDead, caller: Caller) -> Response:
    operation, call = context.call(command.call_id, caller, Verb.SETTLE)
    doubted = [a.number for a in call.attempts if not a.live and not a.dead]
    decision = Decision(repeated=True)
    for number in doubted:
        decision = await context.engine.commit(
            ProvenDead(
                context.engine.now(), call.call_id, number, "attested", caller.by, command.reason
            )
        )
    if not doubted and call.live is not None:
        decision = await context.engine.commit(
            ProvenDead(
                context.engine.now(),
                call.call_id,
                call.live.number,
                "attested",
                caller.by,
                command.reason,
            )
        )
    return await context.acted(decision, operation.operation_id)
