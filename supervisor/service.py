"""Commands in, responses out: who may, what is decided, what the answer says.

This is where the transport, the routes, the engine and the views meet; each request is
one function here, and none of them holds state of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import attrs
import jsonschema
import trio

from config.access import may_run, missing_role, missing_run, roles
from config.load import Handler, fresh
from supervisor.api import listing, routes
from supervisor.api.recovery_view import recovery_view
from supervisor.api.views import call_view, effect_view, operation_view
from supervisor.api.wire import JSON, NDJSON, PROBLEM, dumps, problem, time_text
from supervisor.core.access import Verb
from supervisor.core.access import missing_role as core_missing_role
from supervisor.core.decide.attempt import admission
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId, OperationId, default_session
from supervisor.core.projection import project
from supervisor.core.record import KIND_OF, By, OperationRecord
from supervisor.core.standing import FINAL, CallState, call_result, call_state, operation_state
from supervisor.core.state import Call, Effect, Operation
from supervisor.core.step import (
    ArtifactsAsked,
    CancelAsked,
    Decision,
    ExtendAsked,
    ProvenDead,
    ResolveAsked,
    ResumeAsked,
    Submitted,
)
from supervisor.dispatch import Engine, Event, Unavailable, output
from supervisor.dispatch.command import terms_of
from supervisor.dispatch.engine import new_id, now
from supervisor.dispatch.reconcile import reconcile
from supervisor.handler_view import handler_view, handlers_view
from supervisor.journal.records import to_document
from supervisor.server import Peer, Request, Response, groups_of
from supervisor.status import status_view

_IDLE_S = 15


class Denied(Exception):  # noqa: N818  # carries a refusal, is caught where answers are made
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


@attrs.frozen
class Caller:
    """Who asks, with the groups of the process and of the user together."""

    peer: Peer
    gids: frozenset[int]
    roles: frozenset[str]

    @property
    def by(self) -> By:
        return By(self.peer.uid, self.peer.pid)


def _json(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, {"content-type": JSON, **(headers or {})}, dumps(document))


def _problem(refusal: Refusal) -> Response:
    status, document = problem(refusal)
    return Response(status, {"content-type": PROBLEM}, dumps(document))


class Service:
    """The API of one engine. `damage` makes it read-only and says why."""

    def __init__(self, engine: Engine, *, started: int, damage: Refusal | None = None) -> None:
        self.engine = engine
        self.started = started
        self.damage = damage
        self._validators: dict[str, jsonschema.Draft202012Validator] = {}

    async def app(self, request: Request) -> Response:
        """Every request; refusals of any kind become problem documents here."""
        method = "GET" if request.method == "HEAD" else request.method
        command = routes.route(method, request.path, request.query, request.body)
        if isinstance(command, Refusal):
            return _problem(command)
        if isinstance(command, routes.MethodNotAllowed):
            return self._not_allowed(request.method, command)
        if method == "POST" and self.damage is not None:
            return _problem(self.damage)
        try:
            return await self._answer(command, await self._caller(request.peer))
        except (Unavailable, Denied) as refused:
            return _problem(refused.refusal)

    def _not_allowed(self, method: str, allowed: routes.MethodNotAllowed) -> Response:
        allow = ", ".join(allowed.allow)
        detail = f"{method} is not a method of this path: {allow}"
        response = _problem(Refusal("InvalidInput", detail))
        return Response(405, {**response.headers, "allow": allow}, response.body)

    async def _caller(self, peer: Peer) -> Caller:
        gids = peer.process_gids | {peer.gid}
        config = self.engine.config
        held = roles(config, peer.uid, gids)
        if "admin" not in held:
            gids |= await groups_of(peer.uid, peer.gid)
            held = roles(config, peer.uid, gids)
        return Caller(peer, gids, frozenset(held))

    async def _answer(self, command: routes.Command, caller: Caller) -> Response:
        answer = self._ANSWERS[type(command)]
        return await answer(self, command, caller)

    # --- finding and permitting -------------------------------------------------------

    def _permit(self, verb: Verb, caller: Caller, *, owner: int | None) -> None:
        lacking = core_missing_role(verb, caller.roles, owns=owner == caller.peer.uid)
        if lacking is not None:
            denial = missing_role(self.engine.config, lacking, _name(caller.peer.uid))  # type: ignore[arg-type]  # one of the four roles
            raise Denied(
                Refusal("AccessDenied", denial.detail, fix=denial.fix, needs=denial.needs)
            )

    def _operation(
        self, operation_id: str, caller: Caller, verb: Verb = Verb.READ
    ) -> Operation:
        operation = self.engine.state.operations.get(OperationId(operation_id))
        readable = operation is not None and (
            core_missing_role(Verb.READ, caller.roles, owns=operation.by.uid == caller.peer.uid)
            is None
        )
        if operation is None or not (readable or verb is Verb.SETTLE):
            raise Denied(Refusal("NotFound", f"no operation {operation_id}"))
        self._permit(verb, caller, owner=operation.by.uid)
        return operation

    def _call(
        self, call_id: str, caller: Caller, verb: Verb = Verb.READ
    ) -> tuple[Operation, Call]:
        operation_id = self.engine.operation_of_call(call_id)
        if operation_id is None:
            raise Denied(Refusal("NotFound", f"no call {call_id}"))
        operation = self._operation(operation_id, caller, verb)
        return operation, operation.calls[CallId(call_id)]

    def _effect(
        self, effect_id: str, caller: Caller, verb: Verb = Verb.READ
    ) -> tuple[Operation, Effect]:
        operation_id = self.engine.operation_of_effect(effect_id)
        if operation_id is None:
            raise Denied(Refusal("NotFound", f"no effect {effect_id}"))
        operation = self._operation(operation_id, caller, verb)
        return operation, operation.effects[EffectId(effect_id)]

    def _visible(self, caller: Caller) -> Callable[[Operation], bool]:
        everything = core_missing_role(Verb.READ, caller.roles, owns=False) is None
        return lambda operation: everything or operation.by.uid == caller.peer.uid

    async def _read(self) -> None:
        """Reads show what is durable: they wait for what is being written."""
        if self.damage is None:
            await self.engine.settled()

    # --- waiting ----------------------------------------------------------------------

    async def _final(self, operation_id: OperationId, wait_ms: int) -> bool:
        """Wait until nothing of it runs or queues, at most so long; whether it is so."""
        engine = self.engine
        with trio.move_on_after(wait_ms / 1000):
            while True:
                await self._read()
                changed = engine.events.change_of(operation_id)
                if operation_state(engine.state.operations[operation_id]) in FINAL:
                    return True
                await changed.wait()
        return operation_state(engine.state.operations[operation_id]) in FINAL

    async def _acted(self, decision: Decision, operation_id: str, wait_ms: int = 0) -> Response:
        """The operation as it is now, after a request about it was decided."""
        if decision.refusal is not None:
            return _problem(decision.refusal)
        final = await self._final(OperationId(operation_id), wait_ms)
        operation = self.engine.state.operations[OperationId(operation_id)]
        document = operation_view(operation, now())
        if final or decision.repeated:
            return _json(200, document)
        headers = {"location": f"/v1/operations/{operation_id}", "retry-after": "1"}
        return _json(202, document, headers)

    # --- the daemon and its handlers --------------------------------------------------

    async def _get_status(self, _: routes.GetStatus, caller: Caller) -> Response:
        await self._read()
        return _json(
            200,
            status_view(self.engine, self._visible(caller), started=self.started, damage=self.damage),
        )

    async def _list_handlers(self, _: routes.ListHandlers, __: Caller) -> Response:
        return _json(200, handlers_view(self.engine.handlers))

    async def _get_handler(self, command: routes.GetHandler, _: Caller) -> Response:
        return _json(200, handler_view(self._handler(command.name)))

    def _handler(self, name: str) -> Handler:
        handler = self.engine.handlers.get(name)
        if handler is not None:
            return handler
        broken = self.engine.handlers.broken.get(name)
        if broken is not None:
            fix = f"effectctl handlers check {name}"
            raise Denied(Refusal("UnknownHandler", f"its manifest is broken: {broken}", fix=fix))
        raise Denied(Refusal("UnknownHandler", f"no handler {name!r} is loaded"))

    # --- dispatch ---------------------------------------------------------------------

    async def _dispatch(self, command: routes.Dispatch, caller: Caller) -> Response:
        engine = self.engine
        session = default_session(caller.peer.uid)
        self._permit(Verb.CREATE, caller, owner=None)
        known = engine.state.messages.get((session, command.request_id))
        if known is None and engine.draining:
            raise Denied(Refusal("Draining", "the daemon is stopping"))
        event = self._submitted(command, caller, known)
        if command.dry_run:
            return _json(200, self._dry_run(event, known))
        await engine.make_room()
        decision = await engine.commit(event)
        if decision.refusal is not None:
            return _problem(decision.refusal)
        assert decision.operation_id is not None
        return await self._acted(decision, decision.operation_id, command.wait_ms)

    def _submitted(
        self, command: routes.Dispatch, caller: Caller, known: OperationId | None
    ) -> Submitted:
        """What is to be decided. A message that is known needs no handler any more."""
        config = self.engine.config
        if known is not None:
            first = next(self.engine.state.operations[known].ordered_calls())
            terms, timeout_ms = first.terms, first.timeout_ms
        else:
            handler = self._handler(command.handler)
            self._permit_handler(handler, caller)
            self._check_input(handler, command.input)
            terms = terms_of(handler)
            timeout_ms = self._timeout(handler, command.timeout_ms)
        default = max(config.default_max_run_ms, 2 * timeout_ms + config.budget_margin_ms + 1)
        return Submitted(
            now(),
            OperationId(new_id("op_")),
            CallId(new_id("call_")),
            default_session(caller.peer.uid),
            command.request_id,
            command.request_digest,
            caller.by,
            terms,
            command.input,
            timeout_ms,
            command.max_run_ms or default,
            command.labels,
            config.limits.operations_per_session,
        )

    def _permit_handler(self, handler: Handler, caller: Caller) -> None:
        held: Any = caller.roles
        if not may_run(handler.manifest, caller.peer.uid, caller.gids, held):
            denial = missing_run(handler.manifest, _name(caller.peer.uid))
            raise Denied(
                Refusal("AccessDenied", denial.detail, fix=denial.fix, needs=denial.needs)
            )

    def _timeout(self, handler: Handler, asked: int | None) -> int:
        most = handler.manifest.timeout_ms
        if asked is not None and asked > most:
            detail = f"timeout_ms is at most the manifest's {most}"
            raise Denied(Refusal("InvalidInput", detail, pointer="/timeout_ms"))
        return asked or most

    def _check_input(self, handler: Handler, value: Any) -> None:
        if handler.input_schema is None:
            return
        validator = self._validators.get(handler.digest)
        if validator is None:
            validator = jsonschema.Draft202012Validator(dict(handler.input_schema))
            self._validators[handler.digest] = validator
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            pointer = "".join(f"/{part}" for part in ("input", *error.absolute_path))
            raise Denied(Refusal("InvalidInput", error.message[:500], pointer=pointer))

    def _dry_run(self, event: Submitted, known: OperationId | None) -> dict[str, Any]:
        return {
            "dry_run": True,
            "same_as": known,
            "handler": event.terms.handler,
            "digest": event.terms.digest,
            "timeout_ms": event.timeout_ms,
            "max_run_ms": event.max_run_ms,
            "admitted": event.timeout_ms + self.engine.config.budget_margin_ms < event.max_run_ms,
            "effects": [
                {"name": effect.name, "contract": effect.contract.value}
                for effect in event.terms.effects
            ],
        }

    # --- operations -------------------------------------------------------------------

    async def _list_operations(
        self, command: routes.ListOperations, caller: Caller
    ) -> Response:
        await self._read()
        page = listing.operations(self.engine.state, command, self._visible(caller), now())
        return _json(200, page)

    async def _get_operation(self, command: routes.GetOperation, caller: Caller) -> Response:
        operation = self._operation(command.operation_id, caller)
        await self._final(operation.operation_id, command.wait_ms)
        operation = self._operation(command.operation_id, caller)
        return _json(200, operation_view(operation, now()))

    async def _get_recovery(self, command: routes.GetRecovery, caller: Caller) -> Response:
        await self._read()
        operation = self._operation(command.operation_id, caller)
        moment = now()
        projection = project(
            operation,
            moment,
            margin_ms=self.engine.config.budget_margin_ms,
            digests=self._digests(operation),
        )
        return _json(200, recovery_view(operation, projection, moment))

    def _digests(self, operation: Operation) -> dict[str, str | None]:
        names = {call.terms.handler for call in operation.ordered_calls()}
        found = {name: self.engine.handlers.get(name) for name in names}
        return {name: fresh(one) if one is not None else None for name, one in found.items()}

    async def _resume(self, command: routes.Resume, caller: Caller) -> Response:
        operation = self._operation(command.operation_id, caller, Verb.DRIVE)
        for call in operation.ordered_calls():
            handler = self.engine.handlers.get(call.terms.handler)
            if handler is not None:
                self._permit_handler(handler, caller)
        if self.engine.draining and command.resume_request_id not in operation.resumes:
            raise Denied(Refusal("Draining", "the daemon is stopping"))
        await self.engine.make_room()
        decision = await self.engine.commit(
            ResumeAsked(
                now(),
                operation.operation_id,
                caller.by,
                command.resume_request_id,
                command.revision,
                command.digest,
                CallId(new_id("call_")),
                self.engine.config.budget_margin_ms,
            )
        )
        return await self._acted(decision, operation.operation_id, command.wait_ms)

    async def _cancel(self, command: routes.Cancel, caller: Caller) -> Response:
        operation = self._operation(command.operation_id, caller, Verb.DRIVE)
        decision = await self.engine.commit(
            CancelAsked(now(), operation.operation_id, caller.by, command.reason)
        )
        return await self._acted(decision, operation.operation_id, command.wait_ms)

    async def _extend(self, command: routes.Extend, caller: Caller) -> Response:
        operation = self._operation(command.operation_id, caller, Verb.DRIVE)
        decision = await self.engine.commit(
            ExtendAsked(
                now(), operation.operation_id, caller.by, command.max_run_ms, command.reason
            )
        )
        return await self._acted(decision, operation.operation_id)

    async def _accept_artifacts(
        self, command: routes.AcceptArtifacts, caller: Caller
    ) -> Response:
        operation = self._operation(command.operation_id, caller, Verb.ADMIN)
        digests = {k: v for k, v in self._digests(operation).items() if v is not None}
        decision = await self.engine.commit(
            ArtifactsAsked(
                now(), operation.operation_id, caller.by, digests, command.reason
            )
        )
        return await self._acted(decision, operation.operation_id)

    # --- calls ------------------------------------------------------------------------

    async def _get_call(self, command: routes.GetCall, caller: Caller) -> Response:
        operation, _ = self._call(command.call_id, caller)
        await self._final(operation.operation_id, command.wait_ms)
        operation, call = self._call(command.call_id, caller)
        document = call_view(operation, call, now())
        live = self.engine.live
        progress = next((one.progress for key, one in live.items() if key.call_id == call.call_id), None)
        if progress is not None:
            thousandths, message = progress
            document["progress"] = {"thousandths": thousandths, "message": message}
        return _json(200, document)

    async def _get_result(self, command: routes.GetResult, caller: Caller) -> Response:
        await self._read()
        operation, call = self._call(command.call_id, caller)
        state = call_state(operation, call)
        result = call_result(operation, call)
        if state is not CallState.SUCCEEDED or result is None:
            detail = f"{command.call_id} is {state.value} and has no result"
            raise Denied(Refusal("NotFound", detail, fix="Look at the call: it says why."))
        if not result.available:
            detail = f"the result of {command.call_id} is not available: {result.unavailable}"
            raise Denied(Refusal("EffectResultUnavailable", detail, call_id=call.call_id))
        return _json(200, result.value)

    async def _get_output(self, command: routes.GetOutput, caller: Caller) -> Response:
        await self._read()
        operation, call = self._call(command.call_id, caller)
        call = operation.newest(call) if command.attempt is None else call
        number = len(call.attempts) - 1 if command.attempt is None else command.attempt
        empty = {"head": "", "tail": "", "bytes": 0, "omitted": 0}
        kept = None
        if number >= 0:
            directory = self.engine.config.state_dir / "output"
            kept = await trio.to_thread.run_sync(output.load, directory, call.call_id, number)
        document = {"stdout": empty, "stderr": empty, **(kept or {})}
        return _json(200, {"call_id": call.call_id, "attempt": number, **document})

    async def _attest_dead(self, command: routes.AttestDead, caller: Caller) -> Response:
        operation, call = self._call(command.call_id, caller, Verb.SETTLE)
        doubted = [a.number for a in call.attempts if not a.live and not a.dead]
        decision = Decision(repeated=True)
        for number in doubted:
            decision = await self.engine.commit(
                ProvenDead(
                    now(), call.call_id, number, "attested", caller.by, command.reason
                )
            )
        if not doubted and call.live is not None:
            decision = await self.engine.commit(
                ProvenDead(now(), call.call_id, call.live.number, "attested", caller.by, command.reason)
            )
        return await self._acted(decision, operation.operation_id)

    # --- effects ----------------------------------------------------------------------

    async def _list_effects(self, command: routes.ListEffects, caller: Caller) -> Response:
        await self._read()
        page = listing.effects(self.engine.state, command, self._visible(caller), now())
        return _json(200, page)

    async def _get_effect(self, command: routes.GetEffect, caller: Caller) -> Response:
        await self._read()
        operation, effect = self._effect(command.effect_id, caller)
        return _json(200, effect_view(operation, effect, now()))

    async def _reconcile(self, command: routes.Reconcile, caller: Caller) -> Response:
        operation, effect = self._effect(command.effect_id, caller, Verb.SETTLE if "resolve" in caller.roles else Verb.DRIVE)
        if self.engine.draining:
            raise Denied(Refusal("Draining", "the daemon is stopping"))
        refusal = await reconcile(self.engine, effect.effect_id, caller.by)
        return await self._acted(
            Decision(refusal=refusal, repeated=True), operation.operation_id, command.wait_ms
        )

    async def _resolve(self, command: routes.Resolve, caller: Caller) -> Response:
        operation, effect = self._effect(command.effect_id, caller, Verb.SETTLE)
        decision = await self.engine.commit(
            ResolveAsked(
                now(),
                effect.effect_id,
                caller.by,
                command.applied,
                command.evidence,
                command.if_revision,
                command.result,
            )
        )
        return await self._acted(decision, operation.operation_id)

    # --- events -----------------------------------------------------------------------

    async def _get_events(self, command: routes.GetEvents, caller: Caller) -> Response:
        await self._read()
        events = self.engine.events
        if not events.complete and command.after + 1 < events.earliest:
            extra = {"earliest": events.earliest}
            detail = f"events are kept from position {events.earliest}"
            raise Denied(Refusal("EventsExpired", detail, extra=extra))
        everything = core_missing_role(Verb.READ, caller.roles, owns=False) is None
        uid = None if everything else caller.peer.uid
        return Response(200, {"content-type": NDJSON}, self._stream(command, uid))

    async def _stream(
        self, command: routes.GetEvents, uid: int | None
    ) -> AsyncIterator[bytes]:
        """Each frame's facts once; an empty line when nothing happens for a while."""
        position = command.after
        while True:
            lines = b""
            for event in self.engine.events.after(position):
                position = event.position
                if uid is None or event.owner in {uid, None}:
                    lines += _event_lines(event)
            if lines:
                yield lines
            elif not command.follow:
                return
            else:
                with trio.move_on_after(_IDLE_S) as idle:
                    await self.engine.events.changed()
                if idle.cancelled_caught:
                    yield b"\n"

    _ANSWERS: Mapping[type[routes.Command], Callable[[Service, Any, Caller], Awaitable[Response]]]


Service._ANSWERS = {  # noqa: SLF001  # the table of the class itself
    routes.GetStatus: Service._get_status,  # noqa: SLF001
    routes.ListHandlers: Service._list_handlers,  # noqa: SLF001
    routes.GetHandler: Service._get_handler,  # noqa: SLF001
    routes.Dispatch: Service._dispatch,  # noqa: SLF001
    routes.ListOperations: Service._list_operations,  # noqa: SLF001
    routes.GetOperation: Service._get_operation,  # noqa: SLF001
    routes.GetRecovery: Service._get_recovery,  # noqa: SLF001
    routes.Resume: Service._resume,  # noqa: SLF001
    routes.Cancel: Service._cancel,  # noqa: SLF001
    routes.Extend: Service._extend,  # noqa: SLF001
    routes.AcceptArtifacts: Service._accept_artifacts,  # noqa: SLF001
    routes.GetCall: Service._get_call,  # noqa: SLF001
    routes.GetResult: Service._get_result,  # noqa: SLF001
    routes.GetOutput: Service._get_output,  # noqa: SLF001
    routes.AttestDead: Service._attest_dead,  # noqa: SLF001
    routes.ListEffects: Service._list_effects,  # noqa: SLF001
    routes.GetEffect: Service._get_effect,  # noqa: SLF001
    routes.Reconcile: Service._reconcile,  # noqa: SLF001
    routes.Resolve: Service._resolve,  # noqa: SLF001
    routes.GetEvents: Service._get_events,  # noqa: SLF001
}


def _name(uid: int) -> str:
    """The user's name where the host knows one."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _event_lines(event: Event) -> bytes:
    lines: list[bytes] = []
    for record in event.records:
        document = to_document(record)
        document.pop("k")
        at = document.pop("at")
        head = {"position": event.position, "at": time_text(at), "type": KIND_OF[type(record)]}
        if not isinstance(record, OperationRecord):
            head["operation_id"] = None
        lines.append(dumps({**head, **document}) + b"\n")
    return b"".join(lines)


__all__ = ["Service", "admission"]
