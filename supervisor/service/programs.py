"""A program as a message: each handler that it calls is looked at before anything is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from config.load import Handler
from sandbox import scarce
from supervisor.api import sessions
from supervisor.core.errors import Refusal
from supervisor.core.ids import SessionId
from supervisor.core.state import Operation
from supervisor.core.step_programs import ProgramSubmitted
from supervisor.dispatch.command import terms_of
from supervisor.dispatch.inputs import unfit
from supervisor.program import Place, Program, template
from supervisor.service.context import Caller, Context, Denied, Lacking


async def submitted(
    context: Context,
    command: sessions.SendMessage,
    work: sessions.ProgramWork,
    session: SessionId,
    caller: Caller,
    known: Operation | None,
) -> ProgramSubmitted:
    """What is to be decided; Denied with every fault. A message that is known has none any more."""
    handlers = {} if known is not None else await _reachable(context, work.program, caller)
    return ProgramSubmitted(
        **context.addressed(command, session, command.message_id, command.max_run_ms, caller),
        document=work.document,
        input=work.input,
        terms=tuple(terms_of(one) for _, one in sorted(handlers.items())),
        not_resumable=tuple(_not_resumable(handlers, work)),
        inputs=tuple(sorted(work.inputs)),
    )


def _not_resumable(handlers: Mapping[str, Handler], work: sessions.ProgramWork) -> Iterator[str]:
    for name, one in sorted(handlers.items()):
        if not one.manifest.eligible_for_resume:
            yield f"handler {name!r} declares no contracts"
    for name in sorted(work.inputs):
        yield f"input {name!r} is raw: it is never written down"


async def with_raw_inputs(
    context: Context, command: sessions.SendMessage
) -> tuple[sessions.SendMessage, Mapping[str, Any]]:
    """The message whose digest tells its raw inputs from others, and those."""
    work = command.work
    if not isinstance(work, sessions.ProgramWork) or not work.inputs:
        return command, {}
    digest, inputs = command.request_digest, work.inputs
    try:
        keyed = await scarce.in_thread(context.engine.raw.digest, digest, inputs)
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}; it is needed for raw inputs"
        raise Denied(Refusal("JournalUnavailable", detail)) from error
    return attrs.evolve(command, request_digest=keyed), inputs


async def _reachable(context: Context, program: Program, caller: Caller) -> dict[str, Handler]:
    """The handlers of its calls, by name; Denied, as the first fault says, with all of them."""
    found: dict[str, Handler] = {}
    faults: list[Refusal] = []
    for place in program.calls():
        try:
            handler = context.handler(place.node.handler)
            context.permit_handler(handler, caller)
        except Denied as denied:
            faults.append(_at(place, "/handler", denied.refusal))
        except Lacking as lacking:
            faults.append(_at(place, "/handler", await lacking.refusal(caller.peer.uid)))
        else:
            found[place.node.handler] = handler
            faults += [_at(place, *fault) for fault in _unfit(handler, place)]
    if not faults:
        return found
    listed = [
        {"pointer": one.pointer, "code": one.code, "detail": one.detail}
        for one in faults[: sessions.FAULTS_MAX]
    ]
    raise Denied(attrs.evolve(faults[0], extra={"faults": listed}))


def _at(place: Place, member: str, refusal: Refusal) -> Refusal:
    detail = f"node {place.path!r}: {refusal.detail}"
    pointer = f"/program{place.pointer}{member}"
    return attrs.evolve(refusal, detail=detail, pointer=pointer)


def _unfit(handler: Handler, place: Place) -> Iterator[tuple[str, Refusal]]:
    """What does not fit the handler, as far as that can be said before anything has a value."""
    most = handler.manifest.timeout_ms
    if place.node.timeout_ms is not None and place.node.timeout_ms > most:
        yield "/timeout_ms", Refusal("InvalidInput", f"timeout_ms is at most the manifest's {most}")
    fault = unfit(handler, place.node.input) if _is_literal(place.node.input) else None
    if fault is not None:
        detail = f"handler {handler.name!r} does not take this input: {fault.message}"
        yield f"/input{fault.pointer}", Refusal("InvalidInput", detail)


def _is_literal(value: Any) -> bool:
    return next(template.expressions(value, ""), None) is None
