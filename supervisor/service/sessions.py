"""Sessions: made, found, listed with their messages."""

from __future__ import annotations

from supervisor.api import sessions
from supervisor.api.listing import session_page, session_view
from supervisor.core.access import Verb
from supervisor.core.ids import SessionId
from supervisor.core.step import SessionAsked
from supervisor.dispatch.engine import new_id
from supervisor.server import Response
from supervisor.service.context import Caller, Context, apart, json_response, problem_response


async def create(context: Context, command: sessions.CreateSession, caller: Caller) -> Response:
    context.permit(Verb.CREATE, caller, owner=None)
    engine = context.engine
    session_id = SessionId(new_id("ses_"))
    await engine.make_room()
    decision = await engine.commit(
        SessionAsked(
            engine.now(),
            session_id,
            command.request_id or session_id,
            caller.by,
            command.labels,
            engine.config.limits.sessions,
        )
    )
    if decision.refusal is not None:
        return problem_response(decision.refusal)
    assert decision.session_id is not None
    document = session_view(engine.state, decision.session_id)
    headers = {"location": f"/v1/sessions/{decision.session_id}"}
    return json_response(200 if decision.repeated else 201, document, headers)


async def list_sessions(
    context: Context, command: sessions.ListSessions, caller: Caller
) -> Response:
    await context.read()
    page = session_page(context.engine.state, command.page, context.sees(caller))
    return json_response(200, page)


async def get_session(context: Context, command: sessions.GetSession, caller: Caller) -> Response:
    await context.read()
    session_id = context.session(command.session_id, caller, Verb.READ)
    page = await apart(session_view, context.engine.state, session_id, command.page)
    return json_response(200, page)
