"""Requests about operations."""

from __future__ import annotations

from supervisor.api import listing, routes
from supervisor.api.recovery_view import recovery_view
from supervisor.core.access import Verb
from supervisor.core.checkpoint import canonical_digest, checkpoint
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId
from supervisor.core.projection import project
from supervisor.core.step import (
    ArtifactsAsked,
    CancelAsked,
    ExtendAsked,
    ResumeAsked,
)
from supervisor.dispatch.engine import new_id
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, apart, json_response


async def list_operations(
    context: Context, command: routes.ListOperations, caller: Caller
) -> Response:
    await context.read()
    engine = context.engine
    page = await apart(
        listing.operations, engine.state, command, context.whose(caller), engine.now()
    )
    return json_response(200, page)


async def get_operation(context: Context, command: routes.GetOperation, caller: Caller) -> Response:
    operation = context.operation(command.operation_id, caller)
    await context.final(operation.operation_id, command.wait_ms)
    operation = context.operation(command.operation_id, caller)
    return json_response(200, await context.shown(operation.operation_id))


async def get_recovery(context: Context, command: routes.GetRecovery, caller: Caller) -> Response:
    await context.read()
    operation = context.operation(command.operation_id, caller)
    moment = context.engine.now()
    projection = project(
        operation,
        moment,
        margin_ms=context.engine.config.budget_margin_ms,
        digests=await context.digests(operation),
    )
    return json_response(200, recovery_view(operation, projection, moment))


async def get_checkpoint(
    context: Context, command: routes.GetCheckpoint, caller: Caller
) -> Response:
    await context.read()
    operation = context.operation(command.operation_id, caller)
    pinned = checkpoint(operation)
    return json_response(200, {**pinned, "digest": canonical_digest(pinned)})


async def resume(context: Context, command: routes.Resume, caller: Caller) -> Response:
    operation = context.driven(command.operation_id, caller)
    if context.engine.draining and command.resume_request_id not in operation.resumes:
        raise Denied(Refusal("Draining", "the daemon is stopping"))
    await context.engine.make_room()
    decision = await context.engine.commit(
        ResumeAsked(
            context.engine.now(),
            operation.operation_id,
            caller.by,
            command.resume_request_id,
            command.revision,
            command.digest,
            CallId(new_id("call_")),
            context.engine.config.budget_margin_ms,
        ),
        caller.lent,
    )
    return await context.acted(decision, operation.operation_id, command.wait_ms)


async def cancel(context: Context, command: routes.Cancel, caller: Caller) -> Response:
    operation = context.driven(command.operation_id, caller)
    decision = await context.engine.commit(
        CancelAsked(context.engine.now(), operation.operation_id, caller.by, command.reason)
    )
    return await context.acted(decision, operation.operation_id, command.wait_ms)


async def extend(context: Context, command: routes.Extend, caller: Caller) -> Response:
    operation = context.driven(command.operation_id, caller)
    decision = await context.engine.commit(
        ExtendAsked(
            context.engine.now(),
            operation.operation_id,
            caller.by,
            command.max_run_ms,
            command.reason,
        )
    )
    return await context.acted(decision, operation.operation_id)


async def accept_artifacts(
    context: Context, command: routes.AcceptArtifacts, caller: Caller
) -> Response:
    operation = context.operation(command.operation_id, caller, Verb.ADMIN)
    digests = {k: v for k, v in (await context.digests(operation)).items() if v is not None}
    decision = await context.engine.commit(
        ArtifactsAsked(
            context.engine.now(), operation.operation_id, caller.by, digests, command.reason
        )
    )
    return await context.acted(decision, operation.operation_id)
