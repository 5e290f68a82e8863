"""The daemon and its handlers."""

from __future__ import annotations

import contextlib

from supervisor.api import routes
from supervisor.core.errors import Refusal
from supervisor.dispatch import Unavailable
from supervisor.program.schema import SCHEMAS
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, json_response
from supervisor.service.handler_view import handler_view, handlers_view
from supervisor.service.status import status_view


async def get_status(context: Context, _: routes.GetStatus, caller: Caller) -> Response:
    # A journal that failed is what it must be able to say.
    with contextlib.suppress(Unavailable):
        await context.read()
    return json_response(
        200,
        status_view(
            context.engine, context.visible(caller), started=context.started, damage=context.damage
        ),
    )


async def list_handlers(context: Context, _: routes.ListHandlers, __: Caller) -> Response:
    return json_response(200, handlers_view(context.engine.handlers))


async def get_handler(context: Context, command: routes.GetHandler, _: Caller) -> Response:
    return json_response(200, handler_view(context.handler(command.name)))


async def get_schema(_: Context, command: routes.GetSchema, __: Caller) -> Response:
    if command.name not in SCHEMAS:
        known = ", ".join(sorted(SCHEMAS))
        raise Denied(Refusal("NotFound", f"no schema {command.name!r}; there is: {known}"))
    return json_response(200, SCHEMAS[command.name])
