"""What the daemon does before it listens: replay, end survivors, begin a new epoch.

A restart resumes nothing. It says what was unfinished is interrupted, and that only after
every process of the old epoch is proven dead or recorded as not.
"""

from __future__ import annotations

import contextlib

import attrs
import trio

from config.schema import Config
from sandbox import census
from sandbox.spec import Identity as BoxIdentity
from supervisor.core.errors import IllegalTransition, Refusal
from supervisor.core.evolve import fold
from supervisor.core.ids import AttemptKey, CallId
from supervisor.core.record import Identity
from supervisor.core.state import State
from supervisor.core.step import ProvenDead, Restarted
from supervisor.dispatch import Engine, Events, Unavailable
from supervisor.journal.damaged import DamagedJournal
from supervisor.journal.log import Frame, Journal, JournalCorrupt
from supervisor.journal.records import UnknownRecord, decode
from supervisor.version import VERSION

# After this a survivor is recorded as alive, and only its own lineage is refused.
DEADLINE_S = 5.0
LOCK_WAIT_MS = 2_000
_NAMED = 5


@attrs.define
class Replayed:
    """The journal and what it adds up to; `damage` when only its prefix could be proven."""

    journal: Journal | DamagedJournal
    state: State
    events: Events
    damage: Refusal | None = None


def replay(config: Config) -> Replayed:
    """Lock and read the journal. Blocks; raises JournalLocked, JournalTooNew, JournalIOError."""
    events = Events()
    state = State()
    frames = 0

    def on_frame(frame: Frame) -> None:
        nonlocal state, frames
        records = decode(frame.payload)
        state = fold(state, frame.position, records)
        events.replayed(frame.position, records, state)
        frames += 1

    directory = config.state_dir / "journal"
    try:
        journal = Journal.open(
            directory,
            on_frame,
            segment_bytes=config.journal.segment_bytes,
            lock_wait_ms=LOCK_WAIT_MS,
        )
    except JournalCorrupt as corrupt:
        damage = _damage(corrupt, state)
    except (UnknownRecord, IllegalTransition, AssertionError) as error:
        detail = f"{directory}: the frame after position {state.position}: {error}"
        damage = Refusal("JournalCorrupt", detail)
    else:
        return Replayed(journal, state, events)
    return Replayed(DamagedJournal(state.position, frames), state, events, damage)


def _damage(corrupt: JournalCorrupt, state: State) -> Refusal:
    """What is damaged, and the calls whose end may be lost with it."""
    calls = sorted(state.moving)
    detail = str(corrupt)
    if calls:
        more = f" and {len(calls) - _NAMED} more" if len(calls) > _NAMED else ""
        detail += f"; unfinished where the proven part ends: {', '.join(calls[:_NAMED])}{more}"
    where = {"file": corrupt.report.file, "offset": corrupt.report.offset, "calls": calls}
    return Refusal("JournalCorrupt", detail, fix=corrupt.fix, extra=where)


def _found(state: State) -> dict[AttemptKey, Identity]:
    """Every attempt that may have processes left from an earlier epoch."""
    found: dict[AttemptKey, Identity] = {}
    for call_id, operation_id in state.moving.items():
        live = state.operations[operation_id].calls[call_id].live
        if live is not None and live.identity is not None:
            found[AttemptKey(call_id, live.number)] = live.identity
    for key, operation_id in state.undead.items():
        attempt = state.operations[operation_id].calls[key.call_id].attempts[key.attempt]
        if attempt.identity is not None:
            found[key] = attempt.identity
    return found


def _reconcilers(state: State) -> list[Identity]:
    """Reconcilers that ran when the daemon died: they are ended too."""
    found: list[Identity] = []
    for effect_id, operation_id in state.reconciling.items():
        running = state.operations[operation_id].effects[effect_id].reconciling
        if running is not None:
            found.append(running.identity)
    return found


async def recover(engine: Engine) -> None:
    """End what is left, then begin the epoch. Afterwards nothing is running."""
    found = _found(engine.state)
    alive: set[AttemptKey] = set()
    proofs: dict[AttemptKey, str] = {}

    async def end(key: AttemptKey, identity: Identity) -> None:
        proof = await census.end_survivor(_box(identity), DEADLINE_S)
        if proof is None:
            alive.add(key)
        else:
            proofs[key] = proof

    async with trio.open_nursery() as nursery:
        for key, identity in found.items():
            nursery.start_soon(end, key, identity)
        for identity in _reconcilers(engine.state):
            nursery.start_soon(census.end_survivor, _box(identity), DEADLINE_S)
    doubted = [key for key in engine.state.undead if key in proofs]
    pairs: frozenset[tuple[CallId, int]] = frozenset((k.call_id, k.attempt) for k in alive)
    await engine.commit(Restarted(engine.now(), engine.state.epoch + 1, VERSION, pairs))
    for key in doubted:
        await engine.commit(ProvenDead(engine.now(), key.call_id, key.attempt, proofs[key]))


async def watch_undead(engine: Engine) -> None:
    """What could not be killed may die later: look again, and say so when it did."""
    while True:
        await trio.sleep(DEADLINE_S)
        for key, operation_id in list(engine.state.undead.items()):
            call = engine.state.operations[operation_id].calls[key.call_id]
            identity = call.attempts[key.attempt].identity
            if identity is None:
                continue
            proof = await census.end_survivor(_box(identity), 1.0)
            if proof is not None:
                # What cannot be written down now is looked for again.
                with contextlib.suppress(Unavailable):
                    await engine.commit(ProvenDead(engine.now(), key.call_id, key.attempt, proof))


def _box(identity: Identity) -> BoxIdentity:
    return BoxIdentity(identity.init_pid, identity.start_time, identity.boot_id, identity.cgroup)
