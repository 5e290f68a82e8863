"""A shell in miniature around the real core: queue, sync, then act; and it can die anywhere.

It orders things as the daemon does: decide and fold in one turn when a frame is queued,
carry out directives and give answers only when their position is durable.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

from supervisor.core.contract import Contract
from supervisor.core.decide import decide
from supervisor.core.evolve import fold
from supervisor.core.ids import AttemptKey, CallId, EffectId
from supervisor.core.moment import Moment
from supervisor.core.record import EffectAnnounced, Identity, Record
from supervisor.core.state import State
from supervisor.core.step import (
    AnswerApplied,
    Decision,
    Directive,
    EndAttempt,
    GiveLeave,
    Input,
    Launch,
    OpenGate,
    RefuseAnnouncement,
    Restarted,
    RunReconciler,
    SayRecorded,
)
from supervisor.journal.records import decode, encode
from tests.core.disk import Disk
from tests.core.packed import packed
from tests.core.world import MS, World

GRACE_MS = 2_000
# So many frames lie between two snapshots.
PACKED = 10
EPOCH_WALL = 1_790_000_000_000 * MS


@attrs.define
class Process:
    """A handler's tree: what it may do, what it has done."""

    key: AttemptKey
    started: int
    timeout_ms: int
    leaves: dict[int, EffectId] = attrs.Factory(dict)
    sent: set[int] = attrs.Factory(set)
    told: set[int] = attrs.Factory(set)
    asks: bool = False  # an announcement is on its way
    ended: bool = False  # asked to end
    undead: bool = False  # outlived its daemon


@attrs.define
class Waiting:
    position: int
    directives: tuple[Directive, ...]
    acknowledge: Callable[[], None]


class Host:
    def __init__(self, disk: Disk) -> None:
        self.disk, self.world = disk, World()
        self.state = State()
        self.states = [self.state]  # by position
        self.durable = 0
        self.payloads: list[bytes] = []
        self.waiting: list[Waiting] = []
        self.acknowledged = 0
        self.announced: set[tuple[CallId, int, EffectId]] = set()  # durably
        self.launches: list[CallId] = []
        self.processes: dict[AttemptKey, Process] = {}
        self.reconcilers: list[RunReconciler] = []
        self.askers: set[EffectId] = set()  # reconcilers that outlived their daemon
        self.wall_shift = self.wall_most = EPOCH_WALL
        self.boot, self.boot_at = 0, 0
        self.made = 0
        self.full = False  # no room for what a program would begin
        self.activity = 0  # grows whenever something has moved
        self.seen: Counter[str] = Counter()  # records and refusals
        self.watch: Callable[[State, Decision, State], None] = lambda before, decision, after: None

    @property
    def now(self) -> Moment:
        real = self.world.now
        return Moment(self.wall_shift + real, real - self.boot_at, f"boot-{self.boot}")

    def name(self, prefix: str) -> Any:
        self.made += 1
        return f"{prefix}_{self.made}"

    def identity(self) -> Identity:
        return Identity(self.made, 7, f"boot-{self.boot}")

    def set_wall(self, by_ms: int) -> None:
        self.wall_shift += by_ms * MS
        self.wall_most = max(self.wall_most, self.wall_shift)

    # Deciding: memory is the fold of everything queued.

    def commit(self, event: Input, acknowledge: Callable[[], None] = lambda: None) -> Decision:
        before = self.state
        decision = decide(self.state, event)
        if self.full and decision.instead is not None:
            decision = decision.instead
        assert decision.records or decision.directives or decision.refusal or decision.repeated, (
            f"a silent nothing: {event}"
        )
        if decision.records:
            self._queue(decision.records)
        self.activity += bool(decision.records or decision.directives)
        self.seen.update(type(record).__name__ for record in decision.records)
        if decision.refusal is not None:
            self.seen[decision.refusal.code] += 1
        self.watch(before, decision, self.state)
        self._wait(Waiting(len(self.payloads), decision.directives, acknowledge))
        return decision

    def _queue(self, records: tuple[Record, ...]) -> None:
        payload = encode(records)
        self.payloads.append(payload)
        self.state = fold(self.state, len(self.payloads), decode(payload))
        if len(self.payloads) % PACKED == 0:
            self.state = packed(self.state)
        self.states.append(self.state)

    def _wait(self, waiting: Waiting) -> None:
        self.waiting.append(waiting)
        self._act()

    # Doing: only what is durable.

    def sync(self, count: int) -> None:
        """The disk takes the next `count` frames."""
        batch = self.payloads[self.durable : self.durable + count]
        if batch:
            self.activity += 1
            self.disk.commit(batch)
            self._is_durable(batch)
        self._act()

    def _is_durable(self, batch: list[bytes]) -> None:
        self.durable += len(batch)
        for payload in batch:
            for record in decode(payload):
                if isinstance(record, EffectAnnounced):
                    self.announced.add((record.call_id, record.attempt, record.effect_id))

    def _act(self) -> None:
        while self.waiting and self.waiting[0].position <= self.durable:
            waiting = self.waiting.pop(0)
            self.acknowledged = max(self.acknowledged, waiting.position)
            waiting.acknowledge()
            for directive in waiting.directives:
                self._do(directive, waiting)

    def _do(self, directive: Directive, waiting: Waiting) -> None:
        match directive:
            case Launch(call_id):
                self.launches.append(call_id)
            case OpenGate(call_id, attempt, timeout_ms, _, effect_id):
                key = AttemptKey(call_id, attempt)
                self._alone(call_id)
                process = Process(key, self.world.now, timeout_ms)
                if effect_id is not None:
                    process.leaves[0] = effect_id
                self.processes[key] = process
            case EndAttempt(call_id, attempt):
                process = self.processes.get(AttemptKey(call_id, attempt))
                if process is not None:
                    process.ended = True
            case RunReconciler():
                self.reconcilers.append(directive)
            case GiveLeave() | AnswerApplied() | RefuseAnnouncement() | SayRecorded():
                pass  # said to the handler that asked, by `acknowledge`

    def _alone(self, call_id: CallId) -> None:
        """Nothing is started beside an old tree of the same lineage."""
        root = self.state.call(call_id).root
        for other in self.processes:
            assert self.state.call(other.call_id).root != root, f"{call_id} beside {other}"
        lineage = self.state.operation_of(call_id).lineages.get(root, ())
        assert not self.askers & set(lineage), f"{call_id} beside a reconciler"

    # What a handler does with its leave.

    def send(self, process: Process, ordinal: int) -> None:
        effect_id = process.leaves[ordinal]
        # Nothing happens that the disk does not know about beforehand.
        known = (process.key.call_id, process.key.attempt, effect_id)
        assert known in self.announced, f"{known} was never announced durably"
        self.activity += 1
        process.sent.add(ordinal)
        contract = self.contract(effect_id)
        self.world.send(effect_id, contract, process.key)

    def contract(self, effect_id: EffectId) -> Contract:
        return self.state.effect(effect_id).declared.contract

    def in_time(self, process: Process) -> bool:
        """Nothing acts beyond its deadline and grace; what cannot be killed only stays."""
        return self.world.now <= process.started + (process.timeout_ms + GRACE_MS) * MS

    def gone(self, process: Process) -> None:
        self.activity += 1
        self.processes.pop(process.key, None)

    # Dying.

    def crash(self, rng: random.Random, *, reboot: bool, failed: bool = False) -> None:
        """The daemon is gone; what the disk kept is all there is."""
        self.activity += 1
        end = self.disk.fail if failed else self.disk.crash
        kept = end(rng, self.payloads[self.durable :])
        assert kept == self.payloads[: len(kept)], "the disk made something up"
        assert len(kept) >= self.acknowledged, "something acknowledged is lost"
        assert len(kept) >= self.durable, "something durable is lost"
        state = State()
        for position, payload in enumerate(kept, 1):
            state = fold(state, position, decode(payload))
        assert state == self.states[len(kept)], "memory was not the fold of the disk"
        self._forget(len(kept), state)
        self._end_processes(rng, reboot=reboot)
        if reboot:
            self.boot += 1
            self.boot_at = self.world.now
            # Across a boot only the wall clock knows how old a key is; it is not set back.
            self.wall_shift = self.wall_most

    def _forget(self, kept: int, state: State) -> None:
        self._is_durable(self.payloads[self.durable : kept])
        self.durable = self.acknowledged = kept
        self.payloads, self.states = self.payloads[:kept], self.states[: kept + 1]
        self.state = state
        self.waiting, self.launches, self.reconcilers = [], [], []

    def _end_processes(self, rng: random.Random, *, reboot: bool) -> None:
        """They die with their daemon; a few outlive even the start of the next one."""
        for process in list(self.processes.values()):
            for ordinal in sorted(process.leaves.keys() - process.sent - process.told):
                if rng.random() < 0.3 and self.in_time(process):
                    self.send(process, ordinal)
            if reboot or rng.random() < 0.7:
                self.gone(process)
            else:
                process.undead = True
                process.asks = False
        asking = sorted(self.state.reconciling)
        self.askers = {one for one in asking if not reboot and rng.random() < 0.6}

    def restart(self) -> Decision:
        alive = frozenset((p.key.call_id, p.key.attempt) for p in self.processes.values())
        left = (alive, frozenset(self.askers))
        decision = self.commit(Restarted(self.now, self.state.epoch + 1, "0.1.0", *left))
        self.sync(len(self.payloads))
        return decision
