"""What must hold after every step, whatever happened."""

from __future__ import annotations

from collections import Counter

from supervisor.core.contract import Contract
from supervisor.core.ids import AttemptKey, EffectId, OperationId
from supervisor.core.record import (
    By,
    EffectAnnounced,
    EffectConfirmed,
    EffectResolved,
    Kind,
    ReconcilerEnded,
)
from supervisor.core.standing import (
    TERMINAL,
    OperationState,
    Waits,
    operation_state,
    waits_for,
)
from supervisor.core.state import UNSETTLED, Operation, Said, State
from supervisor.core.step import (
    Decision,
)
from tests.core.allowed import is_honest, leads_on
from tests.core.host import Host
from tests.core.world import KEY_VALID_MS, MS

BY = By(0, 1)
SAFE = {Contract.IDEMPOTENCY_KEY, Contract.RECONCILIATION, Contract.NO_SAFE_RETRY}
Tries = dict[tuple[EffectId, AttemptKey], Said]


class Invariants:
    def __init__(self, host: Host) -> None:
        self.host = host
        host.watch = self.watch
        self.finished: dict[OperationId, OperationState] = {}
        self.stood: dict[OperationId, OperationState] = {}
        self.seen = State()
        self.first: dict[EffectId, int] = {}
        self.gone: dict[EffectId, tuple[Contract, Said]] = {}  # with what was evicted

    def begin_again(self) -> None:
        """After a crash memory is the disk's; what was only in memory binds nobody."""
        self.finished = {}

    # Of one decision.

    def watch(self, before: State, decision: Decision, after: State) -> None:
        names = {getattr(r, "operation_id", None) for r in decision.records} - {None}
        for operation_id in names & set(before.operations):
            if operation_id in after.operations:
                self._moved(before, decision, after, operation_id)
            else:
                self._evicted(before, after, operation_id)
        for record in decision.records:
            if isinstance(record, EffectAnnounced):
                self._leave(before, record)

    def _evicted(self, before: State, after: State, operation_id: OperationId) -> None:
        """Only what is finished and holds nothing in doubt goes; its message is remembered."""
        gone = before.operations[operation_id]
        assert operation_state(gone) in TERMINAL
        for effect in gone.effects.values():
            assert effect.reconciling is None, "a reconciler still asks"
            assert effect.declared.contract not in SAFE or effect.outcome not in UNSETTLED
            self.gone[effect.effect_id] = (effect.declared.contract, effect.outcome)
        for key in self.host.processes:
            assert key.call_id not in gone.calls, "its tree may live"
        message = (gone.session_id, gone.request_id)
        tombstone = after.tombstones.of(message)
        assert tombstone is not None
        assert tombstone.operation_id == operation_id
        assert after.tombstones.get(operation_id) == tombstone

    def _leave(self, before: State, record: EffectAnnounced) -> None:
        """A second leave only for what did not happen, or for what a valid key protects."""
        now = self.host.world.now
        first = self.first.setdefault(record.effect_id, now)
        if record.effect_id not in before.effects:
            return
        known = before.effect(record.effect_id)
        if known.declared.contract not in SAFE or known.outcome is Said.NOT_APPLIED:
            return
        assert known.outcome is Said.UNKNOWN, f"leave for what is {known.outcome.value}"
        assert known.declared.contract is Contract.IDEMPOTENCY_KEY, "leave for an unknown effect"
        terms = before.call(record.call_id).terms
        ends = now + (terms.timeout_ms + terms.grace_ms) * MS
        assert ends < first + KEY_VALID_MS * MS, "leave under a key that may be forgotten"

    def _moved(
        self, before: State, decision: Decision, after: State, operation_id: OperationId
    ) -> None:
        was, now = before.operations[operation_id], after.operations[operation_id]
        assert now.revision == was.revision + 1, "a revision is a frame that names it"
        assert now.position == after.position
        assert now.budget.reserved_ms >= 0
        said, says = _tries(was), _tries(now)
        settlers = {
            r.effect_id
            for r in decision.records
            if isinstance(r, EffectConfirmed | EffectResolved)
            or (isinstance(r, ReconcilerEnded) and r.settles)
        }
        for one, outcome in said.items():
            if outcome in {Said.APPLIED, Said.NOT_APPLIED}:
                assert says[one] is outcome, "a settled try flipped"
            elif outcome is Said.UNKNOWN and says[one] is not outcome:
                assert one[0] in settlers, "unknown became known by itself"

    # Of the whole.

    def check(self, *, everything: bool) -> None:
        """Of what has moved since the last time, or of everything."""
        self._world()
        state, seen = self.host.state, self.seen
        self.seen = state
        if everything:
            self._indexes()
        for operation_id, operation in state.operations.items():
            if everything or seen.operations.get(operation_id) is not operation:
                self._terminal(operation)
                self._moves(operation)

    def _world(self) -> None:
        state, world = self.host.state, self.host.world
        for effect_id, count in world.changes.items():
            if effect_id not in state.effects and effect_id in self.gone:
                contract, outcome = self.gone[effect_id]
                if contract in SAFE:
                    assert (count, outcome) == (1, Said.APPLIED), f"{effect_id} was lost"
                continue
            if effect_id not in state.effects:
                # It was announced durably, so only a lost operation could lack it.
                raise AssertionError(f"{effect_id} happened and nobody knows of it")
            effect = state.effect(effect_id)
            if effect.declared.contract in SAFE:
                contract = effect.declared.contract.value
                assert count <= 1, f"{effect_id} ({contract}) was made {count} times"
                assert effect.outcome is not Said.NOT_APPLIED, f"{effect_id} was lost"
        for effect_id in state.effects:
            if state.effect(effect_id).outcome is Said.APPLIED:
                assert world.made(effect_id), f"{effect_id} is applied and never happened"

    def _indexes(self) -> None:
        """What the state counts for speed is what a recount finds."""
        state = self.host.state
        operations = state.operations.values()
        calls = [(c, o) for o in operations for c in o.ordered_calls()]
        moving = {c.call_id for c, _ in calls if c.live is not None or c.queued is not None}
        assert set(state.moving) == moving
        tries = [t for o in operations for e in o.effects.values() for t in e.tries]
        assert state.leaves == sum(t.outcome is Said.ANNOUNCED for t in tries)
        undead = {
            AttemptKey(c.call_id, a.number)
            for c, _ in calls
            for a in c.attempts
            if not a.live and not a.dead
        }
        assert set(state.undead) == undead
        reconciling = {
            e.effect_id for o in operations for e in o.effects.values() if e.reconciling is not None
        }
        assert set(state.reconciling) == reconciling
        survivors = {
            e.effect_id
            for o in operations
            for e in o.effects.values()
            if e.reconciling is not None and e.reconciling.survivor
        }
        assert survivors == self.host.askers, "what outlived its daemon is known, and nothing else"
        left = Counter(o.session_id for o in operations if operation_state(o) not in TERMINAL)
        assert dict(state.unfinished) == dict(left)
        assert dict(state.continued) == {
            o.operation_id: o.continuation.n for o in operations if o.continuation is not None
        }
        assert dict(state.approvals) == {
            o.operation_id: o.program.pending.node
            for o in operations
            if o.program and o.program.pending and not (o.cancel_requested or o.lost)
        }
        newest = [o for o in operations if o.kind is Kind.OPEN and o.followed_by is None]
        assert dict(state.newest_open) == {o.session_id: o.operation_id for o in newest}
        assert set(state.calls) == {c.call_id for c, _ in calls}
        self._lines()

    def _lines(self) -> None:
        """Who may go stands in its line, in the order in which it was last heard of."""
        state = self.host.state
        for line, wanted in (
            (state.finished, Waits.EVICTION),
            (state.interrupted, Waits.ABANDONMENT),
        ):
            waiting = [o for o in state.operations.values() if waits_for(o) is wanted]
            waiting.sort(key=lambda one: one.position)
            assert set(line) == {one.operation_id for one in waiting}
            positions = [state.operations[one].position for one in line]
            assert positions == sorted(positions)
        for one in state.tombstones:
            assert one.operation_id not in state.operations
            assert one.message not in state.messages
            assert state.tombstones.of(one.message) == one
        kept = {o.operation_id: (o.session_id, o.request_id) for o in state.operations.values()}
        assert dict(state.messages) == {message: one for one, message in kept.items()}
        counted = Counter(o.session_id for o in state.operations.values())
        assert all(map(state.has_session, counted)), "a session ended with operations"
        assert all(s.kept == counted[s.session_id] for s in state.sessions.values())

    def _terminal(self, operation: Operation) -> None:
        standing = operation_state(operation)
        assert (standing in TERMINAL) is operation.finished
        was = self.finished.get(operation.operation_id)
        assert was is None or was is standing, f"{was} became {standing}"
        if standing in TERMINAL:
            self.finished[operation.operation_id] = standing
            assert operation.continuation is None, "finished, and open"
        budget = operation.budget
        assert budget.charged_ms < budget.max_run_ms or not budget.charged_ms
        reserved = sum(
            a.reservation_ms
            for c in operation.ordered_calls()
            for a in c.attempts
            if a.outcome is None
        )
        assert budget.reserved_ms == reserved, "an unseen end keeps its reservation"

    # Nothing is stuck, and what is offered is accepted.

    def _moves(self, operation: Operation) -> None:
        state, now = self.host.state, self.host.now
        standing, one = operation_state(operation), operation.operation_id
        # What is refused is tried again where it stands elsewhere than before.
        moved = self.stood.get(one) is not standing
        self.stood[one] = standing
        found = is_honest(state, operation, now, refusals=moved)
        assert leads_on(state, operation, found, now), "it is stuck"
        if standing in {OperationState.RUNNING, OperationState.ACCEPTED}:
            assert self._is_driven(operation), "nothing moves it"

    def _is_driven(self, operation: Operation) -> bool:
        """A live attempt has its process, a queued call its launch, done or on its way."""
        host = self.host
        moving = [c for c in operation.ordered_calls() if c.live or c.queued is not None]
        if not moving:
            return operation.continuation is not None  # it is its client's turn
        coming = {
            getattr(d, "call_id", None) for waiting in host.waiting for d in waiting.directives
        }
        for call in moving:
            started = call.live and AttemptKey(call.call_id, call.live.number) in host.processes
            queued = call.queued is not None and call.call_id in host.launches
            if not (started or queued or call.call_id in coming):
                return False
        return True


def _tries(operation: Operation) -> Tries:
    return {(e.effect_id, t.key): t.outcome for e in operation.effects.values() for t in e.tries}
