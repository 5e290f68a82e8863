"""Commands in, responses out: who may, what is decided, what the answer says.

Here the transport, the routes, the engine and the views meet; each command is one
function of the module that is named after its noun.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from config.access import roles
from supervisor.api import approvals as approving
from supervisor.api import open as continued
from supervisor.api import routes
from supervisor.api import sessions as asked
from supervisor.api.command import Command
from supervisor.core.errors import Refusal
from supervisor.dispatch import Engine, Unavailable
from supervisor.server import Peer, Request, Response
from supervisor.service import (
    approvals,
    calls,
    effects,
    events,
    operations,
    overview,
    sessions,
    submit,
)
from supervisor.service import open as open_
from supervisor.service.context import (
    Caller,
    Context,
    Denied,
    Lacking,
    Reload,
    problem_response,
)

_ANSWERS: Mapping[type[Command], Callable[[Context, Any, Caller], Awaitable[Response]]] = {
    routes.GetStatus: overview.get_status,
    routes.Reload: overview.reload,
    routes.ListHandlers: overview.list_handlers,
    routes.GetHandler: overview.get_handler,
    routes.Dispatch: submit.dispatch,
    asked.CreateSession: sessions.create,
    asked.ListSessions: sessions.list_sessions,
    asked.GetSession: sessions.get_session,
    asked.SendMessage: submit.send,
    routes.ListOperations: operations.list_operations,
    routes.GetOperation: operations.get_operation,
    routes.GetRecovery: operations.get_recovery,
    routes.GetCheckpoint: operations.get_checkpoint,
    routes.GetSchema: overview.get_schema,
    approving.ListApprovals: approvals.list_approvals,
    approving.AnswerApproval: approvals.answer,
    routes.Resume: operations.resume,
    routes.Cancel: operations.cancel,
    routes.Extend: operations.extend,
    routes.AcceptArtifacts: operations.accept_artifacts,
    continued.AskCall: open_.call,
    continued.GetNote: open_.get_note,
    continued.Continue: open_.go_on,
    continued.EndContinuation: open_.end,
    routes.GetCall: calls.get_call,
    routes.GetResult: calls.get_result,
    routes.GetOutput: calls.get_output,
    routes.AttestDead: calls.attest_dead,
    routes.ListEffects: effects.list_effects,
    routes.GetEffect: effects.get_effect,
    routes.Reconcile: effects.reconcile_effect,
    routes.Resolve: effects.resolve,
    routes.GetEvents: events.get_events,
}


class Service:
    """The API of one engine, as the function that the transport calls."""

    def __init__(
        self, engine: Engine, reload: Reload, *, started: int, damage: Refusal | None = None
    ) -> None:
        self._context = Context(engine, reload, started=started, damage=damage)

    async def app(self, request: Request) -> Response:
        """Every request; refusals of any kind become problem documents here."""
        context = self._context
        method = "GET" if request.method == "HEAD" else request.method
        command = routes.route(method, request.path, request.query, request.body)
        if isinstance(command, Refusal):
            return problem_response(command)
        if isinstance(command, routes.MethodNotAllowed):
            return _not_allowed(request.method, command)
        if method == "POST" and context.damage is not None:
            return problem_response(context.damage)
        try:
            caller = await _caller(context, request.peer)
            await context.engine.refresh()
            await context.unpacked(command)
            return await _ANSWERS[type(command)](context, command, caller)
        except (Unavailable, Denied) as refused:
            return problem_response(refused.refusal)
        except Lacking as lacking:
            return problem_response(await lacking.refusal(request.peer.uid))


def _not_allowed(method: str, allowed: routes.MethodNotAllowed) -> Response:
    allow = ", ".join(allowed.allow)
    detail = f"{method} is not a method of this path: {allow}"
    response = problem_response(Refusal("InvalidInput", detail))
    return Response(405, {**response.headers, "allow": allow}, response.body)


async def _caller(context: Context, peer: Peer) -> Caller:
    config, uid = context.engine.config, peer.uid
    own = peer.process_gids | {peer.gid}
    if "admin" in roles(config, uid, frozenset()):  # whatever its groups are
        return Caller(peer, own, roles(config, uid, own))
    listed = await context.engine.groups(uid)
    return Caller(peer, own | listed, roles(config, uid, own | listed), own - listed)
