"""One attempt's life: slot, sandbox, durable start, gate, conversation, proven end.

Whatever ends it (exit, deadline, cancel, shutdown, a limit), the same ladder runs, and
nothing is said of its end before its whole tree is proven dead.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

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
from supervisor.core.decide import decide
from supervisor.core.decide.attempt import artifact_refusal
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey, CallId, EffectId
from supervisor.core.record import Exit, Identity, Outcome
from supervisor.core.step import Decision, Exited, Input, OpenGate, Ready, Withheld
from supervisor.core.step import Lost as LostEvent
from supervisor.dispatch.authority import authority
from supervisor.dispatch.command import Secrets, command_of, secrets_of, spec_of
from supervisor.dispatch.conversation import Conversation
from supervisor.dispatch.distant import look
from supervisor.dispatch.ending import judge, killed_with_init, usage_of
from supervisor.dispatch.engine import Engine, Live, Unavailable, new_id, spill
from supervisor.dispatch.inputs import misfit_of

RETRY_S = 0.25
# The ladder itself waits five seconds for what cannot be killed, and sees it die meanwhile.
UNKILLABLE_RETRY_S = 0.25
# For asking beforehand whether a sandbox is worth preparing: it is never written down.
_NOBODY = Identity(0, 0, "")
LAUNCHER_TRIES = 20
_NS_PER_MS = 1_000_000


async def run_call(engine: Engine, call_id: CallId, lent: frozenset[int]) -> None:
    """Start a queued call as soon as there is a place for it, and see it to its end.

    `lent` are groups of the requesting process that the host's database does not know.
    """
    try:
        await _queued(engine, call_id, lent)
    except Unavailable as unavailable:
        # It stays queued in the journal; the restart interrupts it, and it can be resumed.
        print(f"effectd: {call_id} was not started: {unavailable}", file=sys.stderr)  # noqa: T201
    finally:
        engine.finish()


async def _queued(engine: Engine, call_id: CallId, lent: frozenset[int]) -> None:
    handler = await _loaded(engine, call_id, lent)
    if handler is None:
        return
    while True:
        async with engine.slots.of(handler), engine.slots.all:
            # The wait may have been long: it is started as what is loaded now, or refused.
            loaded = None if engine.draining else await _loaded(engine, call_id, lent)
            sibling = await _placed(engine, loaded, call_id, lent) if loaded is not None else None
        if sibling is None:
            return
        await sibling.wait()


async def _loaded(engine: Engine, call_id: CallId, lent: frozenset[int]) -> Handler | None:
    """The call's handler; without one the call leaves the queue, with the reason recorded."""
    if call_id not in engine.state.calls:
        return None  # cancelled, and its operation evicted, while it waited
    name = engine.state.call(call_id).terms.handler
    await engine.refresh()
    handler = engine.handlers.get(name)
    if handler is None:
        refusal = Refusal("UnknownHandler", f"handler {name!r} is not loaded", call_id=call_id)
        await engine.commit(Withheld(engine.now(), call_id, refusal), lent)
    return handler


async def _placed(
    engine: Engine, handler: Handler, call_id: CallId, lent: frozenset[int]
) -> trio.Event | None:
    """With a slot: nothing is prepared for what would be refused anyway.

    Returns what to wait for, without the slot, where only a running sibling is in the way.
    """
    try:
        digest = await look(handler, fresh, handler)
        asked = _ready(engine, call_id, digest, _NOBODY, ())
        looked = decide(engine.state, asked)
        if looked.waits:
            return _change(engine, call_id)
        if not _opens(looked):
            await engine.commit(asked, lent)
            return None
        misfit = misfit_of(handler, engine.state.call(call_id))
        if misfit is not None:
            await engine.commit(Withheld(engine.now(), call_id, misfit), lent)
            return None
        sandbox = await prepare(engine, handler, writes=True)
    except (SandboxUnavailable, OSError) as unavailable:
        refusal = Refusal("SandboxUnavailable", str(unavailable), call_id=call_id)
        await engine.commit(Withheld(engine.now(), call_id, refusal), lent)
        return None
    try:
        changes = _change(engine, call_id)
        decision = await _reserved(engine, call_id, sandbox, digest, lent)
        gate = _opens(decision)
        if gate is not None:
            await Attempt(engine, handler, sandbox, gate, lent).run()
        return changes if decision.waits else None
    finally:
        with trio.CancelScope(shield=True):
            await sandbox.discard()


def _change(engine: Engine, call_id: CallId) -> trio.Event:
    """The next frame about the call's operation."""
    return engine.events.change_of(engine.state.calls[call_id])


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


async def _reserved(
    engine: Engine, call_id: CallId, sandbox: Sandbox, digest: str, lent: frozenset[int]
) -> Decision:
    """Reserve, start and announce in one frame; wait as long as the disk is full."""
    identity, layers = identity_of(sandbox), sandbox.layers
    return await _committed(engine, lambda: _ready(engine, call_id, digest, identity, layers), lent)


async def _committed(engine: Engine, event: Callable[[], Ready], lent: frozenset[int]) -> Decision:
    """A full disk refuses new work and heals: a queued call waits for that."""
    while True:
        await engine.make_room()
        try:
            return await engine.commit(event(), lent)
        except Unavailable as unavailable:
            full = unavailable.refusal.code == "JournalUnavailable"
            if not full or engine.draining or engine.journal.poisoned is not None:
                raise
        await trio.sleep(RETRY_S)


def _ready(
    engine: Engine, call_id: CallId, digest: str, identity: Identity, layers: tuple[str, ...]
) -> Ready:
    margin_ms = engine.config.budget_margin_ms
    effect_id = EffectId(new_id("eff_"))
    return Ready(engine.now(), call_id, digest, identity, layers, margin_ms, effect_id)


def _opens(decision: Decision) -> OpenGate | None:
    return next((d for d in decision.directives if isinstance(d, OpenGate)), None)


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
        secrets: Secrets | None = None
        try:
            refusal = await self._changed()
            if refusal is None:
                secrets = secrets_of(self._engine.config, self._handler)
        except (ConfigError, SandboxUnavailable, OSError) as error:  # nothing to look with, or at
            refusal = Refusal("SandboxUnavailable", str(error), call_id=self._key.call_id)
        if refusal is not None or secrets is None:
            assert refusal is not None
            await self._sandbox.discard()
            await self._record(self._not_started(refusal.code, refusal.detail))
            return
        await self._opened(secrets)

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

    async def _opened(self, secrets: Secrets) -> None:
        operation = self._engine.state.operation_of(self._key.call_id)
        command = command_of(
            self._handler,
            operation,
            self._key.call_id,
            self._key.attempt,
            self._gate.effect_id,
            secrets,
        )
        before_us = self._cgroup.cpu_us() if self._cgroup is not None else None
        deadline = trio.current_time() + self._gate.timeout_ms / 1000
        answer = await self._sandbox.dispatch(command)
        if isinstance(answer, NotStarted):
            await self._sandbox.discard()
            detail = f"not started ({answer.stage}): {answer.detail}"
            await self._record(self._not_started(None, detail))
            return
        most = self._handler.manifest.output.output_max_bytes
        talk = Conversation(
            self._engine, self._key, self._sandbox, secrets.values, self._stop, most
        )
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
