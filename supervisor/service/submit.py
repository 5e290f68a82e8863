"""Messages: what a client asks for, checked before anything is decided."""

from __future__ import annotations

from typing import Any

from config.load import Handler
from supervisor.api import routes, sessions
from supervisor.core.access import Verb
from supervisor.core.decide.message import evicted_refusal
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, SessionId, default_session
from supervisor.core.state import Operation
from supervisor.core.step import Message, Opened, Submitted
from supervisor.dispatch.command import terms_of
from supervisor.dispatch.engine import new_id
from supervisor.dispatch.inputs import unfit
from supervisor.server import Response
from supervisor.service import programs
from supervisor.service.context import Caller, Context, Denied, json_response, problem_response


async def dispatch(context: Context, command: routes.Dispatch, caller: Caller) -> Response:
    """One call in the caller's default session."""
    context.permit(Verb.CREATE, caller, owner=None)
    session = default_session(caller.peer.uid)
    work = sessions.CallWork(command.handler, command.input, command.timeout_ms)
    known = _known(context, session, command.request_id, command.request_digest)
    event = _submitted(context, command, work, session, command.request_id, caller, known)
    if command.dry_run:
        return json_response(200, _dry_run(context, event, known))
    return await _decided(context, event, caller, command.wait_ms)


async def send(context: Context, command: sessions.SendMessage, caller: Caller) -> Response:
    """A message in a session of the caller's."""
    session = context.session(command.session_id, caller, Verb.DRIVE)
    command, inputs = await programs.with_raw_inputs(context, command)
    known = _known(context, session, command.message_id, command.request_digest)
    if isinstance(command.work, sessions.OpenWork):
        one, most = command.message_id, command.max_run_ms
        event: Message = Opened(**context.addressed(command, session, one, most, caller))
    elif isinstance(command.work, sessions.ProgramWork):
        event = await programs.submitted(context, command, command.work, session, caller, known)
    else:
        event = _submitted(
            context, command, command.work, session, command.message_id, caller, known
        )
    engine, made = context.engine, event.operation_id
    with engine.raw.offered(made, inputs, lambda: made in engine.state.operations):
        return await _decided(context, event, caller, command.wait_ms)


def _known(
    context: Context, session: SessionId, request_id: str, request_digest: str
) -> Operation | None:
    """The operation that this message named before. Raises Denied for one that is evicted, and
    for a new one while the daemon stops."""
    state = context.engine.state
    one = state.messages.get((session, request_id))
    evicted = None if one is not None else state.tombstones.of((session, request_id))
    if evicted is not None:
        raise Denied(evicted_refusal(evicted, request_id, request_digest))
    if one is None and context.engine.draining:
        raise Denied(Refusal("Draining", "the daemon is stopping"))
    return state.operations[one] if one is not None else None


async def _decided(context: Context, event: Message, caller: Caller, wait_ms: int) -> Response:
    await context.engine.make_room()
    decision = await context.engine.commit(event, caller.lent)
    if decision.refusal is not None:
        return problem_response(decision.refusal)
    assert decision.operation_id is not None
    return await context.acted(decision, decision.operation_id, wait_ms)


def _submitted(  # where it comes from, and whose it is
    context: Context,
    command: routes.Dispatch | sessions.SendMessage,
    work: sessions.CallWork,
    session: SessionId,
    request_id: str,
    caller: Caller,
    known: Operation | None,
) -> Submitted:
    """What is to be decided. A message that is known needs no handler any more."""
    config = context.engine.config
    if known is not None and known.call_order:
        first = next(known.ordered_calls())
        terms, timeout_ms = first.terms, first.timeout_ms
    else:
        handler = context.handler(work.handler)
        context.permit_handler(handler, caller)
        check_input(handler, work.input)
        terms = terms_of(handler)
        timeout_ms = timeout_of(handler, work.timeout_ms)
    default = max(config.default_max_run_ms, 2 * timeout_ms + config.budget_margin_ms + 1)
    max_run_ms = command.max_run_ms or default
    return Submitted(
        **context.addressed(command, session, request_id, max_run_ms, caller),
        call_id=CallId(new_id("call_")),
        terms=terms,
        input=work.input,
        timeout_ms=timeout_ms,
    )


def timeout_of(handler: Handler, asked: int | None) -> int:
    """What was asked for, at most what the manifest says; else that."""
    most = handler.manifest.timeout_ms
    if asked is not None and asked > most:
        detail = f"timeout_ms is at most the manifest's {most}"
        raise Denied(Refusal("InvalidInput", detail, pointer="/timeout_ms"))
    return asked or most


def check_input(handler: Handler, value: Any) -> None:
    """Against the handler's schema, if it has one; Denied with the pointer."""
    fault = unfit(handler, value)
    if fault is not None:
        raise Denied(Refusal("InvalidInput", fault.message, pointer=f"/input{fault.pointer}"))


def _dry_run(context: Context, event: Submitted, known: Operation | None) -> dict[str, Any]:
    return {
        "dry_run": True,
        "same_as": known.operation_id if known is not None else None,
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
