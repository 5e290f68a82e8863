"""What the daemon does before it listens: replay, end survivors, begin a new epoch.

A restart resumes nothing. It says what was unfinished is interrupted, and that only after
every process of the old epoch is proven dead or recorded as not.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Mapping

import attrs
import trio

from config.schema import Config
from sandbox import census
from sandbox.spec import Identity as BoxIdentity
from supervisor.core.decide import decide
from supervisor.core.drawer import FULL_ROWS
from supervisor.core.errors import IllegalTransition, Refusal
from supervisor.core.evolve import evolve, fold
from supervisor.core.filing import filed
from supervisor.core.ids import AttemptKey, EffectId
from supervisor.core.record import Identity
from supervisor.core.state import State
from supervisor.core.step import ProvenDead, ReconcilerProvenDead, Restarted
from supervisor.dispatch import Engine, Events, Unavailable
from supervisor.journal import lock
from supervisor.journal.content import state_in
from supervisor.journal.damaged import DamagedJournal
from supervisor.journal.file import REAL, Os
from supervisor.journal.log import Frame, Journal, JournalCorrupt
from supervisor.journal.opening import Watch
from supervisor.journal.records import UnknownRecord, decode
from supervisor.scratch import Scratch
from supervisor.version import VERSION

# After this a survivor is recorded as alive, and only its own lineage is refused.
DEADLINE_S = 5.0
# How often one that is recorded as alive is killed again.
WATCH_S = 1.0
_NAMED = 5

# An attempt, or a reconciler by its effect.
Key = AttemptKey | EffectId


@attrs.define
class Replayed:
    """The journal and what it adds up to; `damage` when only its prefix could be proven."""

    journal: Journal | DamagedJournal
    state: State
    events: Events
    scratch: Scratch
    damage: Refusal | None = None


def replay(
    config: Config, watch: Callable[[], Watch | None] = lambda: None, ahead: Os | None = None
) -> Replayed:
    """Lock and read the journal, watched; `ahead` may have begun with it. Blocks; raises
    JournalLocked, JournalTooNew, JournalIOError, and what the watch refuses with."""
    events, scratch = Events(), Scratch(config.state_dir)
    state, frames = State(), 0

    def on_snapshot(position: int, content: memoryview) -> None:
        nonlocal state, frames
        state, frames = state_in(content, scratch.put) if position else State(), 0
        events.begin_behind(position)

    def on_frame(frame: Frame) -> None:
        nonlocal state, frames
        records = decode(frame.payload)
        state = fold(state, frame.position, records)
        events.replayed(frame.position, frame.payload, records, state)
        if len(state.loose_finished) >= FULL_ROWS:
            state = filed(state, scratch.put)
        frames += 1

    directory = config.state_dir / "journal"
    try:
        gc.disable()  # millions of values, none of them garbage; each look at all takes seconds
        journal = Journal.open(
            directory,
            on_frame,
            on_snapshot,
            segment_bytes=config.journal.segment_bytes,
            os_=ahead or REAL,
            lock_wait_ms=lock.WAIT_MS,
            watch=watch,
        )
    except JournalCorrupt as corrupt:
        damage = _damage(corrupt, state)
    except (UnknownRecord, IllegalTransition, AssertionError) as error:
        detail = f"{directory}: the frame after position {state.position}: {error}"
        damage = Refusal("JournalCorrupt", detail)
    else:
        return Replayed(journal, state, events, scratch)
    finally:
        gc.freeze()
        gc.enable()
    return Replayed(DamagedJournal(state.position, frames), state, events, scratch, damage)


def _damage(corrupt: JournalCorrupt, state: State) -> Refusal:
    """What is damaged, and the calls whose end may be lost with it."""
    calls = sorted(state.moving)
    detail = str(corrupt)
    if calls:
        more = f" and {len(calls) - _NAMED} more" if len(calls) > _NAMED else ""
        detail += f"; unfinished where the proven part ends: {', '.join(calls[:_NAMED])}{more}"
    where = {"file": corrupt.report.file, "offset": corrupt.report.offset, "calls": calls}
    return Refusal("JournalCorrupt", detail, fix=corrupt.fix, extra=where)


async def recover(engine: Engine, rollback: str = "") -> None:
    """End what is left, then begin the epoch. Afterwards nothing is running.

    `rollback` is what an accepted roll-back forgets and why, to be journaled with it.
    """
    proofs = await _swept(engine.state)
    # In doubt since an earlier epoch, and proven dead by now.
    doubted = [key for key in engine.state.undead if key in proofs]
    await engine.commit(_restarted(engine, engine.state.epoch + 1, proofs, rollback))
    for key in doubted:
        await engine.commit(ProvenDead(engine.now(), key.call_id, key.attempt, proofs[key]))


async def recover_unwritten(engine: Engine) -> None:
    """The same under a journal that takes nothing: what is shown as running would be a lie.

    No epoch begins, and the next start finds everything as this one did.
    """
    proofs = await _swept(engine.state)
    event = _restarted(engine, engine.state.epoch, proofs)
    for record in decide(engine.state, event).records:
        engine.state = evolve(engine.state, record)


async def _swept(state: State) -> dict[Key, str]:
    """End what the earlier epochs left: how each is known to be dead that is."""
    return await _ended(_attempts(state) | _reconcilers(state), DEADLINE_S)


def _restarted(
    engine: Engine, epoch: int, proofs: Mapping[Key, str], rollback: str = ""
) -> Restarted:
    attempts, reconcilers = _attempts(engine.state), _reconcilers(engine.state)
    alive = frozenset((key.call_id, key.attempt) for key in attempts if key not in proofs)
    asking = frozenset(effect_id for effect_id in reconcilers if effect_id not in proofs)
    return Restarted(engine.now(), epoch, VERSION, alive, asking, rollback)


async def watch_survivors(engine: Engine) -> None:
    """What could not be killed may die later: try again, and say so when it did."""
    while True:
        await trio.sleep(WATCH_S)
        left = _survivors(engine.state)
        for key, proof in (await _ended(left, 0)).items():
            # What cannot be written down now is looked for again.
            with contextlib.suppress(Unavailable):
                await engine.commit(_proven(engine, key, proof))


def identities(state: State) -> Iterable[Identity]:
    """Every sandbox in which something may run now, survivors of earlier epochs included."""
    return (_attempts(state) | _reconcilers(state)).values()


def _attempts(state: State) -> dict[AttemptKey, Identity]:
    """Every attempt that may have processes left from an earlier epoch."""
    found = _undead(state)
    for call_id, operation_id in state.moving.items():
        live = state.operations[operation_id].calls[call_id].live
        if live is not None and live.identity is not None:
            found[AttemptKey(call_id, live.number)] = live.identity
    return found


def _undead(state: State) -> dict[AttemptKey, Identity]:
    found: dict[AttemptKey, Identity] = {}
    for key, operation_id in state.undead.items():
        attempt = state.operations[operation_id].calls[key.call_id].attempts[key.attempt]
        if attempt.identity is not None:
            found[key] = attempt.identity
    return found


def _reconcilers(state: State, *, survivors: bool = False) -> dict[EffectId, Identity]:
    """Reconcilers that run, or only those that are known to have outlived their daemon."""
    found: dict[EffectId, Identity] = {}
    for effect_id, operation_id in state.reconciling.items():
        running = state.operations[operation_id].effects[effect_id].reconciling
        if running is not None and (running.survivor or not survivors):
            found[effect_id] = running.identity
    return found


def _survivors(state: State) -> dict[Key, Identity]:
    """What an earlier epoch left, and nobody has proven dead."""
    return _undead(state) | _reconcilers(state, survivors=True)


async def _ended(found: Mapping[Key, Identity], deadline_s: float) -> dict[Key, str]:
    """Kill them all at once: for each that is dead by the deadline, how that is known."""
    proofs: dict[Key, str] = {}

    async def end(key: Key, identity: Identity) -> None:
        proof = await census.end_survivor(_box(identity), deadline_s)
        if proof is not None:
            proofs[key] = proof

    async with trio.open_nursery() as nursery:
        for key, identity in found.items():
            nursery.start_soon(end, key, identity)
    return proofs


def _proven(engine: Engine, key: Key, proof: str) -> ProvenDead | ReconcilerProvenDead:
    if isinstance(key, AttemptKey):
        return ProvenDead(engine.now(), key.call_id, key.attempt, proof)
    return ReconcilerProvenDead(engine.now(), key, proof)


def _box(identity: Identity) -> BoxIdentity:
    return BoxIdentity(identity.init_pid, identity.start_time, identity.boot_id, identity.cgroup)
