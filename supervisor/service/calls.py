"""Requests about calls."""

from __future__ import annotations

import trio

from supervisor.api import routes
from supervisor.api.views import call_view, result_view
from supervisor.core.access import Verb
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId
from supervisor.core.standing import CallState, call_result, call_state
from supervisor.core.state import Call, Operation
from supervisor.core.step import Decision, ProvenDead, ReconcilerProvenDead
from supervisor.dispatch import output
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, json_response


async def get_call(context: Context, command: routes.GetCall, caller: Caller) -> Response:
    operation, _ = context.call(command.call_id, caller)
    await context.call_final(operation.operation_id, CallId(command.call_id), command.wait_ms)
    operation, call = context.call(command.call_id, caller)
    values = await context.values(operation, call_result(operation, call))
    operation, call = context.call(command.call_id, caller)
    document = call_view(operation, call, context.engine.now(), values)
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
    values = await context.values(operation, call_result(operation, call))
    operation, call = context.call(command.call_id, caller)
    state, result = call_state(operation, call), call_result(operation, call)
    if state is not CallState.SUCCEEDED or result is None:
        detail = f"{command.call_id} is {state.value} and has no result"
        raise Denied(Refusal("NotFound", detail, fix="Look at the call: it says why."))
    if not result.available:
        detail = f"the result of {command.call_id} is not available: {result.unavailable}"
        raise Denied(Refusal("EffectResultUnavailable", detail, call_id=call.call_id))
    if result.blob is not None and result.blob.digest not in values:  # nothing can be recorded
        detail = f"the result of {command.call_id} is lost, and the journal is read-only"
        raise Denied(Refusal("EffectResultUnavailable", detail, call_id=call.call_id))
    return json_response(200, result_view(result, values)["result"])


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
    """An operator knows that the call's old attempts, and its reconcilers, are gone."""
    operation, call = context.call(command.call_id, caller, Verb.SETTLE)
    decision = Decision(repeated=True)
    for event in _doubted(context, operation, call, caller, command.reason):
        decision = await context.engine.commit(event)
    return await context.acted(decision, operation.operation_id)


def _doubted(
    context: Context, operation: Operation, call: Call, caller: Caller, reason: str
) -> list[ProvenDead | ReconcilerProvenDead]:
    """What is in doubt; without any, the live attempt, so that the refusal names it."""
    said = ("attested", caller.by, reason)
    now = context.engine.now()
    numbers = [a.number for a in call.attempts if not a.live and not a.dead]
    found: list[ProvenDead | ReconcilerProvenDead] = [
        ProvenDead(now, call.call_id, number, *said) for number in numbers
    ]
    found += [
        ReconcilerProvenDead(now, effect.effect_id, *said)
        for effect in operation.lineage(call)
        if effect.reconciling is not None and effect.reconciling.survivor
    ]
    if not found and call.live is not None:
        found.append(ProvenDead(now, call.call_id, call.live.number, *said))
    return found
