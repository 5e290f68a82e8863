"""What every answer needs: finding, permitting, waiting. Holds no state of its own."""

from __future__ import annotations

import difflib
import pwd
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import attrs
import trio

from config.access import Denial, may_run, missing_role, missing_run
from config.load import Handler, Handlers, fresh
from config.schema import Role
from frozen import frozen
from sandbox import scarce
from sandbox.spec import SandboxUnavailable
from supervisor.api.command import Command
from supervisor.api.routes import Dispatch
from supervisor.api.sessions import SendMessage
from supervisor.api.views import Values, operation_view
from supervisor.api.wire import JSON, PROBLEM, dumps, problem
from supervisor.core.access import Verb
from supervisor.core.access import missing_role as core_missing_role
from supervisor.core.decide.message import expired
from supervisor.core.drawer import Packed
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId, default_session
from supervisor.core.matching import Class, class_of
from supervisor.core.record import By, Result
from supervisor.core.standing import FINAL, operation_result, operation_state
from supervisor.core.state import Call, Effect, Operation
from supervisor.core.step import Decision, Message
from supervisor.dispatch import Engine
from supervisor.dispatch.distant import look
from supervisor.dispatch.engine import new_id
from supervisor.journal.blobs import Loss
from supervisor.server import Peer, Response

# Of their own: look-ups that hang must not take the threads that others wait for.
_LOOKUPS = trio.CapacityLimiter(4)
# A packed operation with more bytes than this has some fifteen calls, and takes the loop
# milliseconds to unpack.
LARGE = 4_096
_Value = TypeVar("_Value")

Reload = Callable[[], Awaitable[Handlers]]
"""Puts configuration and manifests in force as they are on disk; ConfigError, OSError."""


class Denied(Exception):  # noqa: N818  # carries a refusal, is caught where answers are made
    """A refusal that was found on the way to an answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


class Lacking(Exception):  # noqa: N818  # says what is missing, is caught where answers are made
    """A grant is missing. The denial names the user, whose name may take a while to look up."""

    def __init__(self, denial: Callable[[str], Denial]) -> None:
        super().__init__("a grant is missing")
        self.denial = denial

    async def refusal(self, uid: int) -> Refusal:
        name = await trio.to_thread.run_sync(
            _user_name, uid, abandon_on_cancel=True, limiter=_LOOKUPS
        )
        denial = self.denial(name)
        return Refusal("AccessDenied", denial.detail, fix=denial.fix, needs=denial.needs)


@frozen
class Caller:
    """Who asks, with the groups of the process and of the user together.

    `lent` are those that the process has and the host's database does not know.
    """

    peer: Peer
    gids: frozenset[int]
    roles: frozenset[Role]
    lent: frozenset[int] = frozenset()

    @property
    def by(self) -> By:
        return By(self.peer.uid, self.peer.pid)


def json_response(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, {"content-type": JSON, **(headers or {})}, dumps(document))


def problem_response(refusal: Refusal) -> Response:
    status, document = problem(refusal)
    return Response(status, {"content-type": PROBLEM}, dumps(document))


def _user_name(uid: int) -> str:
    """The user's name where the host knows one. It may ask a directory service, and wait."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


async def apart(function: Callable[..., _Value], *arguments: Any) -> _Value:
    """What a function makes of values that do not change; in a thread, because it may take long.
    Where none can be started it takes the loop's time."""
    try:
        return await scarce.in_thread(function, *arguments)
    except OSError:
        return function(*arguments)


class Context:
    """One engine's service. `damage` makes it read-only and says why."""

    def __init__(
        self, engine: Engine, reload: Reload, *, started: int, damage: Refusal | None = None
    ) -> None:
        self.engine = engine
        self.reload = reload
        self.started = started
        self.damage = damage

    def permit(self, verb: Verb, caller: Caller, *, owner: int | None) -> None:
        lacking = core_missing_role(verb, caller.roles, owns=owner == caller.peer.uid)
        if lacking is not None:
            config = self.engine.config
            raise Lacking(lambda user: missing_role(config, cast("Role", lacking), user))

    def permit_handler(self, handler: Handler, caller: Caller) -> None:
        held: Any = caller.roles
        if not may_run(handler.manifest, caller.peer.uid, caller.gids, held):
            raise Lacking(lambda user: missing_run(handler.manifest, user))

    def operation(self, operation_id: str, caller: Caller, verb: Verb = Verb.READ) -> Operation:
        """Found and permitted. Whoever may neither read it nor do that is not told of it."""
        operation = self.engine.state.operations.get(OperationId(operation_id))
        if operation is None or not any(
            self.may(one, caller, operation.by.uid) for one in (Verb.READ, verb)
        ):
            self._gone(OperationId(operation_id), caller)
            raise Denied(Refusal("NotFound", f"no operation {operation_id}"))
        self.permit(verb, caller, owner=operation.by.uid)
        return operation

    def may(self, verb: Verb, caller: Caller, owner: int) -> bool:
        return core_missing_role(verb, caller.roles, owns=owner == caller.peer.uid) is None

    def _gone(self, operation_id: OperationId, caller: Caller) -> None:
        """Whoever could have read an operation is told that it was evicted."""
        state = self.engine.state
        tombstone = state.tombstones.get(operation_id)
        if tombstone is None or not state.has_session(tombstone.session_id):
            return
        if self.may(Verb.READ, caller, tombstone.uid):
            raise Denied(expired(operation_id))

    def session(self, session_id: str, caller: Caller, verb: Verb) -> SessionId:
        """Found and permitted, as `operation`. Everybody has a default session."""
        one = SessionId(session_id)
        known = self.engine.state.sessions.get(one)
        own = one == default_session(caller.peer.uid)
        owner = known.by.uid if known is not None else caller.peer.uid if own else None
        if owner is None or (owner != caller.peer.uid and not self.sees(caller)(owner)):
            raise Denied(Refusal("NotFound", f"no session {session_id}"))
        self.permit(verb, caller, owner=owner)
        return one

    def addressed(
        self,
        command: Dispatch | SendMessage,
        session: SessionId,
        request_id: str,
        max_run_ms: int,
        caller: Caller,
    ) -> dict[str, Any]:
        """The members that every message is decided with, whatever it asks for."""
        limits = self.engine.config.limits
        message = Message(
            now=self.engine.now(),
            operation_id=OperationId(new_id("op_")),
            session_id=session,
            request_id=request_id,
            request_digest=command.request_digest,
            by=caller.by,
            max_run_ms=max_run_ms,
            labels=command.labels,
            operations_max=limits.operations_per_session,
            operations_kept=limits.operations_kept,
        )
        return attrs.asdict(message, recurse=False)

    def driven(self, operation_id: str, caller: Caller) -> Operation:
        """An operation that the caller may move on, its handlers' own lists included."""
        operation = self.operation(operation_id, caller, Verb.DRIVE)
        for name in operation.tally.handlers:
            handler = self.engine.handlers.get(name)
            if handler is not None:
                self.permit_handler(handler, caller)
        return operation

    def call(self, call_id: str, caller: Caller, verb: Verb = Verb.READ) -> tuple[Operation, Call]:
        operation_id = self.engine.operation_of_call(call_id)
        if operation_id is None:
            raise Denied(Refusal("NotFound", f"no call {call_id}"))
        operation = self.operation(operation_id, caller, verb)
        return operation, operation.calls[CallId(call_id)]

    def effect(
        self, effect_id: str, caller: Caller, verb: Verb = Verb.READ
    ) -> tuple[Operation, Effect]:
        operation_id = self.engine.operation_of_effect(effect_id)
        if operation_id is None:
            raise Denied(Refusal("NotFound", f"no effect {effect_id}"))
        operation = self.operation(operation_id, caller, verb)
        return operation, operation.effects[EffectId(effect_id)]

    def whose(self, caller: Caller) -> int | None:
        """Whose operations the caller may read: one uid's, or with None everybody's."""
        everything = core_missing_role(Verb.READ, caller.roles, owns=False) is None
        return None if everything else caller.peer.uid

    def sees(self, caller: Caller) -> Callable[[int], bool]:
        """Whether the caller may read what belongs to a uid."""
        whose = self.whose(caller)
        return lambda uid: whose in {None, uid}

    def visible(self, caller: Caller) -> Callable[[Operation], bool]:
        sees = self.sees(caller)
        return lambda operation: sees(operation.by.uid)

    def handler(self, name: str) -> Handler:
        handler = self.engine.handlers.get(name)
        if handler is not None:
            return handler
        broken = self.engine.handlers.broken.get(name)
        if broken is not None:
            fix = f"effectctl handlers check {name}"
            raise Denied(Refusal("UnknownHandler", f"its manifest is broken: {broken}", fix=fix))
        near = difflib.get_close_matches(name, self.engine.handlers.good, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise Denied(Refusal("UnknownHandler", f"no handler {name!r} is loaded{meant}"))

    async def digests(self, operation: Operation) -> dict[str, str | None]:
        found = {name: self.engine.handlers.get(name) for name in operation.tally.handlers}
        try:
            return {
                name: await look(one, fresh, one) if one is not None else None
                for name, one in found.items()
            }
        except (SandboxUnavailable, OSError) as unavailable:
            raise Denied(Refusal("SandboxUnavailable", str(unavailable))) from unavailable

    async def unpacked(self, command: Command) -> None:
        """See that looking at the operation that a command names does not stop the loop: a large
        one that is packed is unpacked in a thread, and remembered for a moment."""
        engine = self.engine
        one = getattr(command, "operation_id", None)
        if one is None and (call_id := getattr(command, "call_id", None)) is not None:
            one = engine.operation_of_call(call_id)
        if one is None and (effect_id := getattr(command, "effect_id", None)) is not None:
            one = engine.operation_of_effect(effect_id)
        held = engine.state.operations.as_held(OperationId(one)) if one is not None else None
        if isinstance(held, Packed) and len(held.content) > LARGE:
            await apart(held.unpack, held)

    async def read(self) -> None:
        """Reads show what is durable: they wait for what is being written."""
        if self.damage is None:
            await self.engine.settled()

    async def final(self, operation_id: OperationId, wait_ms: int) -> bool:
        """Wait until nothing of it runs or queues, at most so long; whether it is so."""
        return await self._until(operation_id, wait_ms, lambda one: operation_state(one) in FINAL)

    async def call_final(self, operation_id: OperationId, call_id: CallId, wait_ms: int) -> bool:
        """The same of one call, whatever else its operation does."""
        return await self._until(
            operation_id,
            wait_ms,
            lambda one: class_of(one, one.calls[call_id]) is not Class.OPEN,
        )

    async def _until(
        self, operation_id: OperationId, wait_ms: int, final: Callable[[Operation], bool]
    ) -> bool:
        engine = self.engine
        with trio.move_on_after(wait_ms / 1000):
            while True:
                await self.read()
                changed = engine.events.change_of(operation_id)
                if final(self.kept(operation_id)):
                    return True
                await changed.wait()
        return final(self.kept(operation_id))

    def kept(self, operation_id: OperationId) -> Operation:
        """The operation, unless it was evicted while somebody waited for it."""
        operation = self.engine.state.operations.get(operation_id)
        if operation is None:
            raise Denied(expired(operation_id))
        return operation

    async def values(self, operation: Operation, result: Result | None) -> Values:
        """What a view of the result needs: its value, where that is in a blob and is whole."""
        if result is None or result.blob is None:
            return {}
        found = await self.engine.value_of(operation.operation_id, result.blob)
        return {} if isinstance(found, Loss) else {result.blob.digest: found.value}

    async def shown(self, operation_id: OperationId) -> dict[str, Any]:
        """The operation with its result, as it is now."""
        operation = self.kept(operation_id)
        values = await self.values(operation, operation_result(operation))
        return operation_view(self.kept(operation_id), self.engine.now(), values)

    async def acted(self, decision: Decision, operation_id: str, wait_ms: int = 0) -> Response:
        """The operation as it is now, after a request about it was decided."""
        if decision.refusal is not None:
            return problem_response(decision.refusal)
        final = await self.final(OperationId(operation_id), wait_ms)
        document = await self.shown(OperationId(operation_id))
        if final or decision.repeated:
            return json_response(200, document)
        headers = {"location": f"/v1/operations/{operation_id}", "retry-after": "1"}
        return json_response(202, document, headers)
