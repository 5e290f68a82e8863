"""The daemon and its handlers."""

from __future__ import annotations

import contextlib

from config.problems import ConfigError
from supervisor.api import routes
from supervisor.api.counts import effects_by_need
from supervisor.core.access import Verb
from supervisor.core.errors import Refusal
from supervisor.dispatch import Unavailable
from supervisor.program.schema import SCHEMAS
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, apart, json_response
from supervisor.service.handler_view import handler_view, handlers_view
from supervisor.service.status import status_view


async def get_status(context: Context, _: routes.GetStatus, caller: Caller) -> Response:
    # A journal that failed is what it must be able to say.
    with contextlib.suppress(Unavailable):
        await context.read()
    engine, owner = context.engine, context.whose(caller)
    # Of each effect that is unknown: thousands, when a provider was away for long.
    needs = await apart(effects_by_need, engine.state, owner, engine.now())
    view = status_view(engine, owner, started=context.started, damage=context.damage, needs=needs)
    return json_response(200, view)


async def reload(context: Context, _: routes.Reload, caller: Caller) -> Response:
    context.permit(Verb.ADMIN, caller, owner=None)
    try:
        handlers = await context.reload()
    except ConfigError as error:
        texts = [problem.text for problem in error.problems]
        raise Denied(_not_reloaded(texts)) from error
    except OSError as error:
        raise Denied(_not_reloaded([str(error)])) from error
    warnings = (*context.engine.config.origin.warnings, *handlers.warnings)
    document = {
        "handlers": sorted(handlers),
        "warnings": [one.text for one in warnings],
    }
    return json_response(200, document)


def _not_reloaded(problems: list[str]) -> Refusal:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    detail = f"the old configuration stays in force: {problems[0]}{more}"
    return Refusal("ConfigurationRefused", detail, extra={"problems": problems})


async def list_handlers(context: Context, _: routes.ListHandlers, __: Caller) -> Response:
    return json_response(200, handlers_view(context.engine.handlers))


async def get_handler(context: Context, command: routes.GetHandler, _: Caller) -> Response:
    return json_response(200, handler_view(context.handler(command.name)))


async def get_schema(_: Context, command: routes.GetSchema, __: Caller) -> Response:
    if command.name not in SCHEMAS:
        known = ", ".join(sorted(SCHEMAS))
        raise Denied(Refusal("NotFound", f"no schema {command.name!r}; there is: {known}"))
    return json_response(200, SCHEMAS[command.name])
