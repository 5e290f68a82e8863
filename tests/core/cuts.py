"""Operations that are driven to their end, and could be cut off at any moment on the way.

A moment is a number of frames on disk and a world: what was made by then. From each of them a
daemon starts on what the disk has, with every process of the old one dead; whoever drives it
settles what is unknown by looking, and goes on, until nothing is left to do.
"""

from __future__ import annotations

import abc
import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

import attrs

from supervisor.core.contract import Contract
from supervisor.core.evolve import fold
from supervisor.core.ids import AttemptKey, CallId, EffectId
from supervisor.core.record import Exit, Outcome, Record, Result
from supervisor.core.standing import TERMINAL, OperationState, operation_state
from supervisor.core.state import Call, Effect, Operation, Said, State
from tests.core.made import ASK, KEY, NEVER, NONE, Core, effect, terms

HANDLERS = {
    "key": terms(effect(contract=KEY), handler="key"),
    "never": terms(effect(contract=NEVER), handler="never"),
    "ask": terms(effect(contract=ASK), handler="ask"),
    "none": terms(effect(contract=NONE), handler="none"),
    "two": terms(effect("first", KEY), effect("second", NEVER), handler="two"),
    "whole": terms(effect("all", NEVER, whole_call=True), handler="whole"),
}
# How the first try at something fails: before anything, with leave and no word, by the provider's
# no, or at its deadline.
FAILURES = ("before", "after", "denied", "late")
TURNS = 200


@attrs.define
class World:
    made: Counter[tuple[str, int]] = attrs.Factory(Counter)  # by what it is for, and ordinal
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


class Driven(Core, abc.ABC):
    """One operation, handlers that do as they are told, and somebody who brings it to its end."""

    def __init__(self, fails: Mapping[str, str]) -> None:
        self.fails = fails
        self.world = World()
        self.moments: list[Moment] | None = []
        self.states: list[State] = [State()]
        super().__init__()

    @property
    @abc.abstractmethod
    def it(self) -> Operation | None:
        """The operation, once it was accepted."""

    @abc.abstractmethod
    def what(self, call: Call) -> str:
        """What the call is for: all calls that retry or repeat one another are for the same."""

    @abc.abstractmethod
    def send(self) -> None:
        """Ask for the operation."""

    @abc.abstractmethod
    def turn(self, operation: Operation) -> None:
        """Whoever drives it does one thing, if anything is to be done."""

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

    def cut(self, moment: Moment, frames: int) -> Self:
        """What starts anew on the first `frames` frames, in the world of that moment."""
        other = copy.copy(self)
        other.world = copy.deepcopy(moment.world)
        other.moments = None
        other.state, other.position = self.states[frames], frames
        other.wall, other.mono = moment.wall, moment.mono
        other.made = self.made + 1_000
        other.restart()
        return other

    def to_the_end(self) -> Self:
        for _ in range(TURNS):
            operation = self.it
            if operation is None:
                self.send()
            elif operation_state(operation) in TERMINAL:
                return self
            else:
                self.turn(operation)
        raise AssertionError(f"{operation_state(operation)} after {TURNS} turns")

    @property
    def known(self) -> Operation:
        assert self.it is not None
        return self.it

    def settle(self) -> None:
        for one in list(self.known.ordered_effects()):
            self._settle(one)

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

    # --- handlers -------------------------------------------------------------------------

    def handlers(self) -> None:
        """All that can start does; then each that runs does one thing more."""
        calls = [one.call_id for one in self.known.ordered_calls()]
        for call_id in calls:
            if self.call(call_id).queued is not None:
                self.ready(call_id)
        for call_id in calls:
            if self.call(call_id).live is not None:
                self._acts(self.call(call_id))

    def _acts(self, call: Call) -> None:
        assert call.live is not None
        fails = (
            self.fails.get(self.what(call)) if self.what(call) not in self.world.failed else None
        )
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
        self.world.failed.add(self.what(call))
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
        lineage = self.known.lineage(call)
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
        return self.what(self.call(call_id)), ordinal

    def _result(self, call_id: CallId, ordinal: int) -> Result:
        return Result(f"{self.what(self.call(call_id))} {ordinal}")

    # --- what came of it ------------------------------------------------------------------

    @abc.abstractmethod
    def result(self) -> tuple[OperationState, Any]:
        """How it ended, and what it gave."""

    @abc.abstractmethod
    def attempts(self) -> dict[str, int]:
        """How often each thing was tried that is done."""

    def changes(self) -> dict[tuple[str, int], int]:
        """How often each change was made whose contract does not allow it twice."""
        terms_of = {self.what(call): call.terms for call in self.known.ordered_calls()}
        return {
            (what, ordinal): count
            for (what, ordinal), count in self.world.made.items()
            if terms_of[what].effects[ordinal].contract is not NONE
        }

    def accounts_for_every_attempt(self) -> None:
        attempts = [a for c in self.known.ordered_calls() for a in c.attempts]
        seen = [a for a in attempts if a.outcome is not None]
        unseen = [a for a in attempts if a.outcome is None]
        budget = self.known.budget
        assert budget.confirmed_ms == sum(min(a.active_ms or 0, a.reservation_ms) for a in seen)
        assert budget.reserved_ms == sum(a.reservation_ms for a in unseen)


def survives(driven: Driven) -> Driven:
    """Cut off at each moment it comes to the same end, and nothing is made twice."""
    driven.to_the_end()
    assert set(driven.changes().values()) <= {1}
    for moment in driven.moments or ():
        again = driven.cut(moment, moment.frames)
        comes_to_the_same(again, driven, f"{driven.fails}, cut at {moment.frames}")
    return driven


def comes_to_the_same(again: Driven, driven: Driven, where: str) -> None:
    before = again.attempts()
    again.to_the_end()
    assert again.result() == driven.result(), where
    assert again.changes() == driven.changes(), where
    after = again.attempts()
    assert {one: after[one] for one in before} == before, f"{where}: what was done ran again"
    again.accounts_for_every_attempt()
