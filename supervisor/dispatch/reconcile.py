"""Asking the provider: the recorded reconciler, run like any handler, trusted like none.

Whatever is not a clear answer is *unknown*: it is kept as evidence and settles nothing.
"""

from __future__ import annotations

import json

import trio

from config.load import Handler
from config.problems import ConfigError
from sandbox import group
from sandbox.output import BoundedOutput
from sandbox.slot import Sandbox
from sandbox.spec import Ended, NotStarted, SandboxUnavailable, Unkillable
from supervisor.core.errors import Refusal
from supervisor.core.ids import EffectId
from supervisor.core.moment import Moment
from supervisor.core.record import By, Result
from supervisor.core.state import Effect
from supervisor.core.step import (
    Decision,
    ReconcileAsked,
    ReconcilerAnswered,
    ReconcilerReady,
    RunReconciler,
)
from supervisor.dispatch import output
from supervisor.dispatch.attempt import UNKILLABLE_RETRY_S, identity_of, prepare
from supervisor.dispatch.command import Secrets, reconcile_command, secrets_of
from supervisor.dispatch.conversation import DRAIN_S, PRINTS
from supervisor.dispatch.engine import Engine, Unavailable, spill
from supervisor.dispatch.flow import Pace

_GRACE_MS = 1_000
_READ = 65_536
_DETAIL = 500


async def reconcile(engine: Engine, effect_id: EffectId, by: By) -> Refusal | None:
    """Ask the provider about one effect now; returns when its answer is durable.

    The refusal says why nobody was asked. Cancelling does not stop what was begun.
    """
    decision = await engine.commit(ReconcileAsked(engine.now(), effect_id))
    run = next((d for d in decision.directives if isinstance(d, RunReconciler)), None)
    if run is None:
        return decision.refusal
    if effect_id not in engine.state.effects:
        return Refusal("NotFound", f"there is no effect {effect_id}", effect_id=effect_id)
    effect = _effect(engine, effect_id)
    name = engine.state.call(effect.newest.call_id).terms.handler
    await engine.refresh()
    handler = engine.handlers.get(name)
    if handler is None:
        return Refusal("UnknownHandler", f"handler {name!r} is not loaded", effect_id=effect_id)
    engine.begin()
    try:
        with trio.CancelScope(shield=True):
            async with engine.slots.all:
                return await _in_slot(engine, handler, run, by)
    finally:
        engine.finish()
    raise AssertionError("nobody cancels this scope")


def _effect(engine: Engine, effect_id: EffectId) -> Effect:
    return engine.state.operations[engine.state.effects[effect_id]].effects[effect_id]


async def _in_slot(engine: Engine, handler: Handler, run: RunReconciler, by: By) -> Refusal | None:
    try:
        secrets = secrets_of(engine.config, handler)
        sandbox = await prepare(engine, handler, writes=False)
    except (ConfigError, SandboxUnavailable, OSError) as error:
        return Refusal("SandboxUnavailable", str(error), effect_id=run.effect_id)
    try:
        ready = ReconcilerReady(engine.now(), run.effect_id, by, identity_of(sandbox))
        decision: Decision = await engine.commit(ready)
        if decision.refusal is not None:
            return decision.refusal
        answer = await _asked(engine, handler, sandbox, run, secrets)
    finally:
        with trio.CancelScope(shield=True):
            await sandbox.discard()
    try:
        await engine.commit(answer)
    except Unavailable as unavailable:
        spill("a reconciler's answer", answer)
        return unavailable.refusal
    return None


async def _asked(
    engine: Engine, handler: Handler, sandbox: Sandbox, run: RunReconciler, secrets: Secrets
) -> ReconcilerAnswered:
    effect = _effect(engine, run.effect_id)
    command = reconcile_command(handler, effect, run.reconciler, secrets)
    out, err = BoundedOutput(_READ, 0), BoundedOutput(0, _DETAIL)
    began = await sandbox.dispatch(command)
    if isinstance(began, NotStarted):
        return _unknown(engine.now(), run, f"the reconciler was not started: {began.detail}")
    end = await _read(engine, sandbox, run, out, err)
    if end is None:
        return _unknown(
            engine.now(), run, f"the reconciler took longer than {run.reconciler.timeout_ms} ms"
        )
    if end.how != "exited" or end.status != 0:
        said = output.redact(err.tail, secrets.values).decode("utf-8", "replace").strip()
        return _unknown(engine.now(), run, f"the reconciler {end.how} with {end.status}: {said}")
    if out.omitted:
        return _unknown(engine.now(), run, f"the reconciler printed more than {_READ} bytes")
    return _answer(engine.now(), run, output.redact(out.head, secrets.values))


async def _read(
    engine: Engine, sandbox: Sandbox, run: RunReconciler, out: BoundedOutput, err: BoundedOutput
) -> Ended | None:
    """Its end, or None when it had to be ended. Everything it printed is in `out`."""
    ended: Ended | None = None
    async with trio.open_nursery() as nursery:
        readers = [trio.Event(), trio.Event()]
        nursery.start_soon(_drain, sandbox.stdout, out, readers[0])
        nursery.start_soon(_drain, sandbox.stderr, err, readers[1])
        with trio.move_on_after(run.reconciler.timeout_ms / 1000):
            seen = await sandbox.leader_exited()
            ended = seen if isinstance(seen, Ended) else None
        await _proven_dead(engine, sandbox, run.effect_id, ask=ended is None)
        with trio.move_on_after(DRAIN_S):
            for reader in readers:
                await reader.wait()
        nursery.cancel_scope.cancel()
    return ended


async def _proven_dead(engine: Engine, sandbox: Sandbox, effect_id: EffectId, *, ask: bool) -> None:
    """Until its tree is dead its lineage waits; what cannot be killed is shown as that."""
    try:
        while True:
            end = await group.end(sandbox, grace_ms=_GRACE_MS, ask=ask)
            if not isinstance(end, Unkillable):
                return
            engine.unkillable[effect_id] = end.detail
            ask = False
            await trio.sleep(UNKILLABLE_RETRY_S)
    finally:
        engine.unkillable.pop(effect_id, None)


async def _drain(stream: trio.lowlevel.FdStream, into: BoundedOutput, done: trio.Event) -> None:
    pace = Pace(*PRINTS)
    while data := await stream.receive_some(_READ):
        into.add(data)
        await pace.take()
    done.set()


def _unknown(now: Moment, run: RunReconciler, detail: str) -> ReconcilerAnswered:
    return ReconcilerAnswered(now, run.effect_id, None, detail=detail[:_DETAIL])


def _answer(now: Moment, run: RunReconciler, printed: bytes) -> ReconcilerAnswered:
    """One JSON object with an outcome that is one of three words; all else is unknown."""
    try:
        said = json.loads(printed)
    except (ValueError, RecursionError):
        return _unknown(now, run, f"the reconciler printed no JSON: {printed[:200]!r}")
    match said:
        case {"outcome": "applied", **rest}:
            result = rest.get("result")
            if "result" in rest and not output.keepable(result):
                given = Result(unavailable="not_json")
            else:
                given = Result(result) if "result" in rest else Result(unavailable="missing")
            return ReconcilerAnswered(now, run.effect_id, True, given, "the provider has it")
        case {"outcome": "not_applied"}:
            detail = "the provider does not have it"
            return ReconcilerAnswered(now, run.effect_id, False, detail=detail)
        case {"outcome": "unknown"}:
            return _unknown(now, run, "the provider could not tell")
        case _:
            return _unknown(
                now, run, f"the reconciler's answer has no known outcome: {printed[:200]!r}"
            )
