"""How the daemon is, on one screen's worth of facts."""

from __future__ import annotations

import time
from typing import Any

import attrs

from supervisor.api.counts import operations_by_state
from supervisor.api.wire import refusal_members, time_text
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey, EffectId
from supervisor.core.state import State
from supervisor.dispatch import Engine
from supervisor.version import FEATURES, VERSION


def status_view(
    engine: Engine,
    owner: int | None,
    *,
    started: int,
    damage: Refusal | None,
    needs: dict[str, int],
) -> dict[str, Any]:
    """`needs` is what effects wait for."""
    state = engine.state
    degraded = _degraded(engine, damage)
    running = sum(
        state.operations[operation_id].calls[call_id].live is not None
        for call_id, operation_id in state.moving.items()
    )
    return {
        "version": VERSION,
        "features": list(FEATURES),
        "state": _word(engine, damage, degraded),
        "degraded": degraded,
        "uptime_ms": (time.monotonic_ns() - started) // 1_000_000,
        "epoch": state.epoch,
        "needs": {
            **needs,
            "approval": _approvals(state, owner),
        },
        "sandbox": {
            "layers": dict(engine.layers),
            "missing": [attrs.asdict(one) for one in engine.missing],
            "pool": {"ready": engine.launcher.ready, **attrs.asdict(engine.launcher.statistics)},
            "unkillable": [
                {**_named(state, key), "detail": detail}
                for key, detail in engine.unkillable.items()
            ],
            "not_proven_dead": _not_proven_dead(state),
        },
        "journal": _journal(engine),
        "counts": {
            "operations": operations_by_state(state, owner),
            "running": running,
            "queued": len(state.moving) - running,
            "handlers": len(engine.handlers),
            "handlers_broken": len(engine.handlers.broken),
        },
        "as_of": time_text(time.time_ns()),
    }


def _named(state: State, key: AttemptKey | EffectId) -> dict[str, Any]:
    """An attempt by its call and number, a reconciler by its call and effect."""
    if isinstance(key, AttemptKey):
        return {"call_id": key.call_id, "attempt": key.attempt}
    return {"call_id": state.effect(key).newest.call_id, "effect_id": key}


def _not_proven_dead(state: State) -> list[dict[str, Any]]:
    """What may have outlived an earlier daemon."""
    running = {one: state.effect(one).reconciling for one in state.reconciling}
    found = [_named(state, key) for key in state.undead]
    found += [_named(state, one) for one, it in running.items() if it is not None and it.survivor]
    return found


def _word(engine: Engine, damage: Refusal | None, degraded: list[dict[str, Any]]) -> str:
    if damage is not None:
        return "read_only"
    if engine.draining:
        return "draining"
    return "degraded" if degraded else "ready"


def _degraded(engine: Engine, damage: Refusal | None) -> list[dict[str, Any]]:
    """Everything that is not as it should be, each with what to do."""
    found: list[dict[str, Any]] = []
    if damage is not None:
        found.append(refusal_members(damage))
        return found
    stats = engine.journal.stats()
    if stats.degraded is not None:
        found.append(refusal_members(Refusal("JournalUnavailable", stats.degraded)))
    if stats.snapshot_failed is not None:
        found.append(
            {
                "code": "JournalUnavailable",
                "detail": f"a snapshot of the journal failed: {stats.snapshot_failed}",
                "fix": "Make room in state_dir and archive_dir; it is tried again by itself.",
            }
        )
    full = engine.full()
    if full is not None:
        found.append(refusal_members(Refusal("LimitExceeded", full)))
    unwitnessed = engine.unwitnessed()
    if unwitnessed is not None:
        found.append(
            {
                "code": "JournalUnavailable",
                "detail": f"the witness is not kept, a roll-back would not show: {unwitnessed}",
                "fix": "Make witness_dir writable for the daemon; it goes on by itself.",
            }
        )
    if engine.journal.poisoned is not None:
        found.append(refusal_members(Refusal("AcceptanceUnknown", str(engine.journal.poisoned))))
    found.extend(
        {
            "code": "UnknownHandler",
            "detail": f"the manifest of {name} is broken",
            "fix": f"effectctl handlers check {name}",
        }
        for name in sorted(engine.handlers.broken)
    )
    found.extend(
        {
            "code": "PreviousAttemptAlive",
            "detail": f"{_words(key)} cannot be killed: {detail}",
            "fix": "Look at the process's state; a reboot may be needed.",
        }
        for key, detail in engine.unkillable.items()
    )
    return found


def _words(key: AttemptKey | EffectId) -> str:
    if isinstance(key, AttemptKey):
        return f"{key.call_id} attempt {key.attempt}"
    return f"a reconciler of {key}"


def _approvals(state: State, owner: int | None) -> int:
    """How many programs wait for an approval."""
    return sum(owner in {None, state.operations[one].by.uid} for one in state.approvals)


def _journal(engine: Engine) -> dict[str, Any]:
    stats, recovered = engine.journal.stats(), engine.journal.recovered
    return {
        "position": engine.state.position,
        "durable_position": engine.journal.durable_position,
        "syncs": stats.syncs,
        "last_sync_us": stats.last_sync_us,
        "room_bytes": stats.room,
        "spares": stats.spares,
        "degraded": stats.degraded,
        "snapshot_position": stats.snapshot,
        "state_bytes": {
            "used": engine.occupied(),
            "limit": engine.config.journal.state_bytes,
        },
        "recovery": {
            "verdict": recovered.verdict,
            "discarded_bytes": recovered.discarded,
            "frames": recovered.frames,
            "took_ms": recovered.took_ms,
            "from_position": recovered.started_from,
            "bad_snapshots": dict(recovered.refused),
        },
    }
