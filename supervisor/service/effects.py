"""Requests about effects."""

from __future__ import annotations

from supervisor.api import listing, routes
from supervisor.api.views import effect_view
from supervisor.core.access import Verb
from supervisor.core.errors import Refusal
from supervisor.core.state import Effect, Operation
from supervisor.core.step import (
    Decision,
    ResolveAsked,
)
from supervisor.dispatch.reconcile import reconcile
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, apart, json_response


async def list_effects(context: Context, command: routes.ListEffects, caller: Caller) -> Response:
    await context.read()
    engine = context.engine
    page = await apart(listing.effects, engine.state, command, context.whose(caller), engine.now())
    return json_response(200, page)


async def get_effect(context: Context, command: routes.GetEffect, caller: Caller) -> Response:
    await context.read()
    operation, effect = context.effect(command.effect_id, caller)
    values = await context.values(operation, effect.result)
    operation, effect = context.effect(command.effect_id, caller)
    return json_response(200, effect_view(operation, effect, context.engine.now(), values))


async def reconcile_effect(context: Context, command: routes.Reconcile, caller: Caller) -> Response:
    operation, effect = _reconcilable(context, command.effect_id, caller)
    if context.engine.draining:
        raise Denied(Refusal("Draining", "the daemon is stopping"))
    refusal = await reconcile(context.engine, effect.effect_id, caller.by)
    # The answer is durable now; whatever else the operation does is nobody's to wait for here.
    return await context.acted(Decision(refusal=refusal, repeated=True), operation.operation_id)


def _reconcilable(context: Context, effect_id: str, caller: Caller) -> tuple[Operation, Effect]:
    """Whoever may resolve may ask the provider first; an owner may as a driver."""
    operation_id = context.engine.operation_of_effect(effect_id)
    if operation_id is not None and "resolve" not in caller.roles:
        operation = context.engine.state.operations[operation_id]
        if operation.by.uid == caller.peer.uid:
            context.driven(operation_id, caller)
            return context.effect(effect_id, caller)
    return context.effect(effect_id, caller, Verb.SETTLE)


async def resolve(context: Context, command: routes.Resolve, caller: Caller) -> Response:
    operation, effect = context.effect(command.effect_id, caller, Verb.SETTLE)
    decision = await context.engine.commit(
        ResolveAsked(
            context.engine.now(),
            effect.effect_id,
            caller.by,
            command.applied,
            command.evidence,
            command.if_revision,
            command.result,
        )
    )
    return await context.acted(decision, operation.operation_id)
