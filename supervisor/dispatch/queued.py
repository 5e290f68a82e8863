"""A call that is queued: a place for it, a sandbox, its durable start; then it is an attempt."""

from __future__ import annotations

import sys
from collections.abc import Callable

import trio

from config.load import Handler, fresh
from sandbox.slot import Sandbox
from sandbox.spec import SandboxUnavailable
from supervisor.core.decide import decide
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId
from supervisor.core.record import Identity
from supervisor.core.step import Decision, OpenGate, Ready, Withheld
from supervisor.dispatch.attempt import RETRY_S, Attempt, identity_of, prepare
from supervisor.dispatch.distant import look
from supervisor.dispatch.engine import Engine, Unavailable, new_id
from supervisor.dispatch.inputs import given_to, misfit_of

# For asking beforehand whether a sandbox is worth preparing: it is never written down.
_NOBODY = Identity(0, 0, "")


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
        misfit = _misfit(engine, handler, call_id)
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


def _misfit(engine: Engine, handler: Handler, call_id: CallId) -> Refusal | None:
    """Why what the call would be given cannot be had, or is not what the handler takes."""
    operation = engine.state.operation_of(call_id)
    call = operation.calls[call_id]
    given = given_to(engine.raw, operation, call)
    return given if isinstance(given, Refusal) else misfit_of(handler, call, given)


def _change(engine: Engine, call_id: CallId) -> trio.Event:
    """The next frame about the call's operation."""
    return engine.events.change_of(engine.state.calls[call_id])


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
