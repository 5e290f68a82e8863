"""A program that is driven to its end, and could be cut off at any moment on the way.

A moment is a number of frames on disk and a world: what was made by then. From each of them a
daemon starts on what the disk has, with every process of the old one dead; whoever drives it
settles what is unknown by looking, resumes and answers, until nothing is left to do.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.contract import Contract
from supervisor.core.evolve import fold
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId
from supervisor.core.record import Exit, Outcome, Record, Result
from supervisor.core.standing import TERMINAL, OperationState, node_value, operation_result
from supervisor.core.state import Call, Effect, Operation, Said, State
from supervisor.core.step import ResumeAsked
from tests.core.made import ASK, CLIENT, KEY, NEVER, NONE, code, effect, terms
from tests.core.test_programs import Programs

HANDLERS = {
    "key": terms(effect(contract=KEY), handler="key"),
    "never": terms(effect(contract=NEVER), handler="never"),
    "ask": terms(effect(contract=ASK), handler="ask"),
    "none": terms(effect(contract=NONE), handler="none"),
    "two": terms(effect("first", KEY), effect("second", NEVER), handler="two"),
    "whole": terms(effect("all", NEVER, whole_call=True), handler="whole"),
}
# How the first try at a node fails: before anything, with leave and no word, by the provider's
# no, or at its deadline.
FAILURES = ("before", "after", "denied", "late")
TURNS = 200


@attrs.define
class World:
    made: Counter[tuple[str, int]] = attrs.Factory(Counter)  # by node and ordinal
    keys: set[EffectId] = attrs.Factory(set)
    sent: set[tuple[AttemptKey, int]] = attrs.Factory(set)
    failed: set[str] = attrs.Factory(set)


@attrs.frozen
class Moment:
    """`frames` are on disk, and this is the world."""

    frames: int
    world: World
    wall: int
    mono: int


class Driven(Programs):
    """One program, handlers that do as they are told, and somebody who brings it to its end."""

    def __init__(self, nodes: Sequence[Any], fails: Mapping[str, str]) -> None:
        self.nodes, self.fails = nodes, fails
        self.world = World()
        self.moments: list[Moment] | None = []
        self.states: list[State] = [State()]
        super().__init__()
        self.one = OperationId("op_1")

    def put(self, *records: Record) -> None:
        if self.moments is None:  # one of thousands of ends: not through bytes
            self.position += 1
            self.state = fold(self.state, self.position, records)
            return
        super().put(*records)
        self.states.append(self.state)
        self._moment()

    def _moment(self) -> None:
        if self.moments is not None:
            world = copy.deepcopy(self.world)
            self.moments.append(Moment(self.position, world, self.wall, self.mono))

    def cut(self, moment: Moment, frames: int) -> Driven:
        """What starts anew on the first `frames` frames, in the world of that moment."""
        other = copy.copy(self)
        other.world = copy.deepcopy(moment.world)
        other.moments = None
        other.state, other.position = self.states[frames], frames
        other.wall, other.mono = moment.wall, moment.mono
        other.made = self.made + 1_000
        other.restart()
        return other

    # --- who drives it --------------------------------------------------------------------

    def to_the_end(self) -> Driven:
        for _ in range(TURNS):
            if self.one not in self.state.operations:
                self.send(*self.nodes, terms=tuple(HANDLERS.values()))
            elif self.standing in TERMINAL:
                return self
            else:
                self._turn()
        raise AssertionError(f"{self.standing} after {TURNS} turns")

    def send(self, *nodes: Any, name: str = "m1", **members: Any) -> Any:
        decision = super().send(*nodes, name=name, **members)
        assert decision.refusal is None, decision.refusal
        return decision

    def _turn(self) -> None:
        match self.standing:
            case OperationState.WAITING:
                assert self.program.program is not None
                assert self.program.program.pending is not None
                self.answer_approval("approve", self.program.program.pending.node)
            case OperationState.UNKNOWN | OperationState.INTERRUPTED:
                for one in list(self.program.ordered_effects()):
                    self._settle(one)
                self._resume()
            case _:
                self._handlers()

    def _settle(self, one: Effect) -> None:
        """Somebody looks. What has a key is left to the resume, and `none` is no question."""
        if one.outcome is not Said.UNKNOWN or one.declared.contract in {KEY, NONE}:
            return
        call_id = one.newest.call_id
        applied = self.world.made[self._change(call_id, one.ordinal)] > 0
        result = self._result(call_id, one.ordinal) if applied else None
        if one.declared.contract is ASK:
            self.wait(6_000)
            self.reconcile(call_id, one.ordinal)
            decision = self.answer(call_id, one.ordinal, applied=applied, result=result)
        else:
            decision = self.resolve(call_id, one.ordinal, applied=applied, result=result)
        assert decision.refusal is None, decision.refusal

    def _resume(self) -> None:
        decision = self.do(self.resuming_it())
        if code(decision) == "RunTimeBudgetExceeded":
            limit = self.program.budget.max_run_ms + 60_000
            self.extend(self.program.call_order[0], limit)
        else:
            assert decision.refusal is None, decision.refusal

    def resuming_it(self) -> ResumeAsked:
        operation = self.program
        digest = checkpoint_digest(operation)
        new = CallId(self.name("call"))
        asked = (self.one, CLIENT, self.name("resume"), operation.revision, digest, new, 0)
        return ResumeAsked(self.now, *asked)

    # --- handlers -------------------------------------------------------------------------

    def _handlers(self) -> None:
        """All that can start does; then each that runs does one thing more."""
        calls = [one.call_id for one in self.program.ordered_calls()]
        for call_id in calls:
            if self.call(call_id).queued is not None:
                self.ready(call_id)
        for call_id in calls:
            if self.call(call_id).live is not None:
                self._acts(self.call(call_id))

    def _acts(self, call: Call) -> None:
        assert call.live is not None
        fails = self.fails.get(call.node) if call.node not in self.world.failed else None
        leave = self._leave(call)
        if fails == "before" or (leave is not None and fails is not None):
            self._fail(call, leave, fails)
        elif leave is not None:
            if not self._make(call, leave):
                self._confirm(call, leave)
        elif call.live.announced < len(call.terms.effects):
            name = call.terms.effects[call.live.announced].name
            assert self.announce(call.call_id, name).refusal is None
        else:
            self.exit(call.call_id, value=self._result(call.call_id, 0))

    def _fail(self, call: Call, leave: Effect | None, how: str) -> None:
        if leave is not None and how == "denied":
            self.confirm(call.call_id, leave.ordinal, applied=False)
        elif leave is not None and self._make(call, leave):
            return  # and then it fails
        self.world.failed.add(call.node)
        late = how == "late"
        outcome = Outcome.TIMED_OUT if late else Outcome.FAILED
        self.exit(call.call_id, outcome, how=Exit(signal=9) if late else Exit(code=1))

    def _confirm(self, call: Call, leave: Effect) -> None:
        if leave.declared.whole_call:
            self.exit(call.call_id, value=self._result(call.call_id, 0))
        else:
            result = self._result(call.call_id, leave.ordinal)
            self.confirm(call.call_id, leave.ordinal, result=result)

    def _leave(self, call: Call) -> Effect | None:
        assert call.live is not None
        key = AttemptKey(call.call_id, call.live.number)
        lineage = self.program.lineage(call)
        said = Said.ANNOUNCED
        return next(
            (e for e in lineage if any(t.key == key and t.outcome is said for t in e.tries)), None
        )

    def _make(self, call: Call, leave: Effect) -> bool:
        """Make the change, if this try did not yet; a provider with keys makes it once."""
        assert call.live is not None
        try_ = (AttemptKey(call.call_id, call.live.number), leave.ordinal)
        if try_ in self.world.sent:
            return False
        self.world.sent.add(try_)
        keyed = leave.declared.contract is Contract.IDEMPOTENCY_KEY
        if not (keyed and leave.effect_id in self.world.keys):
            self.world.made[self._change(call.call_id, leave.ordinal)] += 1
        self.world.keys.add(leave.effect_id)
        self._moment()
        return True

    def _change(self, call_id: CallId, ordinal: int) -> tuple[str, int]:
        return self.call(call_id).node, ordinal

    def _result(self, call_id: CallId, ordinal: int) -> Result:
        return Result(f"{self.call(call_id).node} {ordinal}")

    # --- what came of it ------------------------------------------------------------------

    @property
    def result(self) -> tuple[OperationState, Result | None]:
        return self.standing, operation_result(self.program)

    def attempts(self) -> dict[str, int]:
        """How often each node was tried that has its value."""
        if self.one not in self.state.operations or self.program.program is None:
            return {}
        calls = self.program.program.calls.items()
        done = [(p, c) for p, c in calls if node_value(self.program, c) is not None]
        return {path: _tried(self.program, call_id) for path, call_id in done}

    def changes(self) -> dict[tuple[str, int], int]:
        """How often each change was made whose contract does not allow it twice."""
        found = {}
        for (node, ordinal), count in self.world.made.items():
            known = self.program.program
            assert known is not None
            of = self.call(known.calls[node]).terms.effects[ordinal]
            if of.contract is not NONE:
                found[node, ordinal] = count
        return found


def _tried(operation: Operation, call_id: CallId) -> int:
    root = operation.calls[call_id].root
    return sum(len(one.attempts) for one in operation.calls.values() if one.root == root)
