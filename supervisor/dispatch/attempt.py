"""One attempt's life: durable start, last look, gate, conversation, proven end.

Whatever ends it (exit, deadline, cancel, shutdown, a limit), the same ladder runs, and
nothing is said of its end before its whole tree is proven dead.
"""

from __future__ import annotations

import time

import attrs
import trio

from config.load import Handler, fresh
from config.problems import ConfigError
from sandbox import group
from sandbox.cgroups import Cgroup, Used
from sandbox.slot import Sandbox
from sandbox.spec import (
    Ended,
    LauncherLost,
    Lost,
    NotStarted,
    SandboxUnavailable,
    Unkillable,
)
from supervisor.core.decide.attempt import artifact_refusal
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey
from supervisor.core.record import Exit, Identity, Outcome
from supervisor.core.step import Decision, Exited, Input, OpenGate
from supervisor.core.step import Lost as LostEvent
from supervisor.dispatch.authority import authority
from supervisor.dispatch.command import Secrets, command_of, secrets_of, spec_of
from supervisor.dispatch.conversation import Conversation
from supervisor.dispatch.distant import look
from supervisor.dispatch.ending import judge, killed_with_init, usage_of
from supervisor.dispatch.engine import Engine, Live, Unavailable, spill
from supervisor.dispatch.inputs import Given, given_to

RETRY_S = 0.25
# The ladder itself waits five seconds for what cannot be killed, and sees it die meanwhile.
UNKILLABLE_RETRY_S = 0.25
LAUNCHER_TRIES = 20
_NS_PER_MS = 1_000_000


async def prepare(engine: Engine, handler: Handler, *, writes: bool) -> Sandbox:
    """A waiting sandbox; a launcher that is being replaced is waited for.

    SandboxUnavailable; OSError when there is no descriptor to look at the handler's files with.
    """
    try:
        spec = await look(handler, lambda: spec_of(engine.config, handler, writes=writes))
    except ValueError as error:
        remedy = f"Correct the [sandbox] table of {handler.file}."
        raise SandboxUnavailable("manifest", str(error), remedy) from error
    for _ in range(LAUNCHER_TRIES):
        try:
            return await engine.launcher.prepare(spec)
        except LauncherLost:
            await trio.sleep(RETRY_S)
    remedy = "Look at the daemon's messages; it starts a new one."
    raise SandboxUnavailable("launcher", "the launcher ends again and again", remedy)


def identity_of(sandbox: Sandbox) -> Identity:
    known = sandbox.identity
    return Identity(known.init_pid, known.start_time, known.boot_id, known.cgroup)


class Attempt:
    """From the durable start to the durable end."""

    def __init__(
        self,
        engine: Engine,
        handler: Handler,
        sandbox: Sandbox,
        gate: OpenGate,
        lent: frozenset[int],
    ) -> None:
        self._engine = engine
        self._handler = handler
        self._sandbox = sandbox
        self._gate = gate
        self._lent = lent
        self._key = AttemptKey(gate.call_id, gate.attempt)
        self._stopped = trio.Event()
        self._reason = ""
        self._live = Live(self._stop)
        self._cgroup = Cgroup.recorded(sandbox.identity.cgroup)

    def _stop(self, reason: str) -> None:
        """End it for `reason`: cancel, shutdown or limit. The first one counts."""
        if not self._stopped.is_set():
            self._reason = reason
            self._stopped.set()

    async def run(self) -> None:
        # Registered before the first look at what may have changed, so that a cancel is
        # either seen by that look or arrives here.
        self._engine.live[self._key] = self._live
        try:
            await self._checked()
        finally:
            self._engine.live.pop(self._key, None)
            self._engine.unkillable.pop(self._key, None)

    async def _checked(self) -> None:
        """Cancellation, authority, artifacts and secrets once more, right before the spawn."""
        try:
            looked = await self._changed() or self._handed()
        except (ConfigError, SandboxUnavailable, OSError) as error:  # nothing to look with, or at
            looked = Refusal("SandboxUnavailable", str(error), call_id=self._key.call_id)
        if isinstance(looked, Refusal):
            await self._sandbox.discard()
            await self._record(self._not_started(looked.code, looked.detail))
            return
        await self._opened(*looked)

    def _handed(self) -> tuple[Secrets, Given] | Refusal:
        """What is in no record: the secrets as they are now, and the input with its raw inputs."""
        operation = self._engine.state.operation_of(self._key.call_id)
        given = given_to(self._engine.raw, operation, operation.calls[self._key.call_id])
        if isinstance(given, Refusal):
            return given
        return secrets_of(self._engine.config, self._handler), given

    async def _changed(self) -> Refusal | None:
        uid = self._engine.state.operation_of(self._key.call_id).requester.uid
        loaded = self._engine.handlers.get(self._handler.name)
        denial = await authority(self._engine, loaded or self._handler, uid, self._lent)
        digest = await look(self._handler, fresh, self._handler)
        # Nothing is waited for from here to the spawn.
        operation = self._engine.state.operation_of(self._key.call_id)
        if self._reason == "shutdown":
            return Refusal("Draining", "the daemon stopped before it was started")
        call = operation.calls[self._key.call_id]
        if operation.cancel_requested or call.stopped or self._stopped.is_set():
            return Refusal("OperationCancelled", "it was cancelled before it was started")
        if denial is not None:
            return denial
        if loaded is None or loaded.digest != self._handler.digest:
            detail = f"the manifest of {self._handler.name!r} changed while it was being started"
            return Refusal("HandlerArtifactChanged", detail)
        return artifact_refusal(operation, call, digest)

    def _not_started(self, code: str | None, detail: str) -> Exited:
        key = self._key
        # Whatever the reason, none of its code ran: that settles its whole-call effect too.
        outcome = Outcome.NOT_STARTED
        return Exited(
            self._engine.now(), key.call_id, key.attempt, outcome, 0, code=code, detail=detail
        )

    async def _opened(self, secrets: Secrets, given: Given) -> None:
        one = self._engine.state.calls[self._key.call_id]
        effect_id = self._gate.effect_id
        command = command_of(self._handler, one, self._key, effect_id, secrets, given.value)
        before_us = self._cgroup.cpu_us() if self._cgroup is not None else None
        deadline = trio.current_time() + self._gate.timeout_ms / 1000
        answer = await self._sandbox.dispatch(command)
        if isinstance(answer, NotStarted):
            await self._sandbox.discard()
            detail = f"not started ({answer.stage}): {answer.detail}"
            await self._record(self._not_started(None, detail))
            return
        most = self._handler.manifest.output.output_max_bytes
        hidden = (*secrets.values, *given.hidden)
        talk = Conversation(self._engine, self._key, self._sandbox, hidden, self._stop, most)
        cause, end = await self._supervised(talk, deadline)
        used = self._cgroup.used() if self._cgroup is not None else Used()
        if cause == "exit" and isinstance(end, Lost) and used.out_of_memory:
            end = killed_with_init(end, answer.gate_ns, time.monotonic_ns())
        await talk.keep_output()
        if isinstance(end, Lost):
            await self._lost(end)
        else:
            await self._over(talk, cause, end, before_us, used)

    # --- while it runs ----------------------------------------------------------------

    async def _supervised(self, talk: Conversation, deadline: float) -> tuple[str, Ended | Lost]:
        async with trio.open_nursery() as nursery:
            talk.start(nursery)
            self._live.progress = None
            cause = await self._first_to_happen(deadline)
            if cause != "exit":
                talk.close("RunTimeBudgetExceeded" if cause == "deadline" else "OperationCancelled")
            end = await self._end(ask=cause != "exit")
            talk.died()
            await talk.read_to_end()
            nursery.cancel_scope.cancel()
        return cause, end

    async def _first_to_happen(self, deadline: float) -> str:
        """exit, deadline, or the reason of a stop: whichever is seen first."""
        seen = "deadline"
        with trio.move_on_at(deadline):
            async with trio.open_nursery() as nursery:

                async def leader() -> None:
                    nonlocal seen
                    await self._sandbox.leader_exited()
                    seen = "exit"
                    nursery.cancel_scope.cancel()

                async def stopped() -> None:
                    nonlocal seen
                    await self._stopped.wait()
                    seen = self._reason
                    nursery.cancel_scope.cancel()

                nursery.start_soon(leader)
                nursery.start_soon(stopped)
        return seen

    async def _end(self, *, ask: bool) -> Ended | Lost:
        """The ladder, until death is proven; what cannot be killed is shown as that."""
        grace_ms = self._handler.manifest.grace_ms
        while True:
            end = await group.end(self._sandbox, grace_ms=grace_ms, ask=ask)
            if not isinstance(end, Unkillable):
                return end
            self._engine.unkillable[self._key] = end.detail
            ask = False
            await trio.sleep(UNKILLABLE_RETRY_S)

    # --- when it is over --------------------------------------------------------------

    async def _lost(self, end: Lost) -> None:
        key = self._key
        await self._record(
            LostEvent(self._engine.now(), key.call_id, key.attempt, end.cause, dead=True)
        )

    async def _over(
        self, talk: Conversation, cause: str, end: Ended, before_us: int | None, used: Used
    ) -> None:
        ending = judge(cause, end, self._handler.manifest.sandbox, used)
        if cause == "limit":
            ending = attrs.evolve(ending, detail=talk.limit_detail, limit=talk.limit)
        event = Exited(
            self._engine.now(),
            self._key.call_id,
            self._key.attempt,
            ending.outcome,
            self._active_ms(cause, end),
            Exit(code=end.status) if end.how == "exited" else Exit(signal=end.status),
            usage_of(end, before_us, used, ending.limit),
            end.killed,
            talk.value(),
            ending.code,
            ending.detail,
            end.proof,
        )
        await self._record(event)

    def _active_ms(self, cause: str, end: Ended) -> int:
        if cause == "deadline":
            return self._gate.timeout_ms
        return min(-(-(end.exit_ns - end.gate_ns) // _NS_PER_MS), self._gate.timeout_ms)

    async def _record(self, event: Input) -> Decision | None:
        """An end must be written down; when it cannot be, it is said on standard error."""
        try:
            return await self._engine.commit(event, self._lent)
        except Unavailable:
            spill("the end of an attempt", event)
            return None
