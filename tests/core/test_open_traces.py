"""Every short story of a write that a model asks for again and again, and never twice is it made.

One open operation, one write, and whatever can happen: the answer is lost, the handler fails or
runs out of time before or after the change, the daemon is killed, the agent is cut off and
continues without knowing what it did, a person or the provider settles it. All orders of these
are tried, breadth first; two stories that left everything alike are one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from supervisor.core.contract import Contract
from supervisor.core.evolve import fold
from supervisor.core.ids import AttemptKey, EffectId
from supervisor.core.matching import Class, class_of
from supervisor.core.record import Ending, Outcome, Record, Result
from supervisor.core.state import UNSETTLED, Call, Effect, Said
from tests.core.agent import BY_CONTRACT, Agent
from tests.core.made import ASK, KEY, NEVER

CONTINUATIONS, REQUESTS, ATTEMPTS = 3, 4, 4
SENT = "t0"


class Story(Agent):
    """One operation, the world outside, and an agent that wants one thing done."""

    def __init__(self, contract: Contract) -> None:
        self.of = BY_CONTRACT[contract]
        self.there: dict[EffectId, int] = {}  # what is there outside, however often
        self.sent: frozenset[AttemptKey] = frozenset()  # tries that made it
        self.asked = 0  # requests for the write
        self.pending: str | None = None  # the agent's request that it has no final answer to
        self.satisfied = False  # in this continuation it has heard that it is done
        super().__init__()

    def put(self, *records: Record) -> None:
        self.position += 1
        self.state = fold(self.state, self.position, records)

    def fork(self) -> Story:
        other = copy.copy(self)
        other.there = dict(self.there)
        return other

    # --- what is there ----------------------------------------------------------------

    @property
    def calls(self) -> list[Call]:
        return list(self.operation_.ordered_calls())

    @property
    def effects(self) -> list[Effect]:
        return list(self.operation_.ordered_effects())

    def live(self) -> Call | None:
        return next((one for one in self.calls if one.live is not None), None)

    def leave(self, call: Call) -> Effect | None:
        """The effect that the live attempt has leave for, unconfirmed."""
        return next(
            (
                one
                for one in self.operation_.lineage(call)
                if one.newest.key.call_id == call.call_id
                and one.newest.attempt == len(call.attempts) - 1
                and one.newest.outcome is Said.ANNOUNCED
            ),
            None,
        )

    def key(self) -> Any:
        """Everything that what follows depends on, without names and times."""
        number = {call.call_id: n for n, call in enumerate(self.calls)}
        calls = tuple(
            (
                tuple((a.phase, a.outcome, a.announced) for a in call.attempts),
                call.queued,
                call.refused is None,
                call.result is not None and call.result.available,
                call.restored,
                call.continuation,
                call.answered_in,
                number.get(call.retry_of) if call.retry_of else None,
            )
            for call in self.calls
        )
        effects = tuple(
            (
                tuple(
                    (number[t.call_id], t.attempt, t.outcome, t.settled_by, t.key in self.sent)
                    for t in one.tries
                ),
                one.result_lost,
                self.there.get(one.effect_id, 0),
            )
            for one in self.effects
        )
        reasons = tuple(one.reason for one in self.operation_.continuations)
        pending = self.operation_.requests.get(self.pending) if self.pending else None
        waits = number[pending.call_id] if pending is not None else None
        return calls, effects, reasons, waits, self.satisfied, self.asked

    # --- what can happen ----------------------------------------------------------------

    def step_call(self) -> bool:
        """The agent wants it done, as far as it knows: another request."""
        wants = self.operation_.continuation is not None and self.pending is None
        if not wants or self.satisfied or self.asked == REQUESTS:
            return False
        self.asked += 1
        request_id = f"t{self.asked}"
        if self.ask(self.of, 1, request_id).refusal is None:
            self.pending = request_id
            self._hear()
        return True

    def step_lose_the_answer(self) -> bool:
        """It did not hear, and sends the same again: that is never anything new."""
        if self.pending is None:
            return False
        decision = self.ask(self.of, 1, self.pending)
        assert decision.repeated
        assert not decision.records
        return False

    def _hear(self) -> None:
        """The agent learns how its call stands."""
        if self.pending is None:
            return
        call = self.call(self.operation_.requests[self.pending].call_id)
        stands = class_of(self.operation_, call)
        if stands is not Class.OPEN:
            self.satisfied = stands is Class.COMPLETED
            self.pending = None

    def step_start(self) -> bool:
        waiting = next((call for call in self.calls if call.queued is not None), None)
        if waiting is None or sum(len(c.attempts) for c in self.calls) == ATTEMPTS:
            return False
        self.ready(waiting.call_id)
        return True

    def step_announce(self) -> bool:
        call = self.live()
        if call is None or call.live is None or call.live.announced:
            return False
        self.announce(call.call_id)
        return True

    def step_make(self) -> bool:
        """The change is made; a provider with keys makes it once for each."""
        call = self.live()
        effect = self.leave(call) if call is not None else None
        if effect is None or effect.newest.key in self.sent:
            return False
        self.sent |= {effect.newest.key}
        keyed = effect.declared.contract is KEY
        count = self.there.get(effect.effect_id, 0)
        self.there[effect.effect_id] = 1 if keyed else count + 1
        return True

    def step_confirm(self) -> bool:
        """The handler says what the provider told it."""
        call = self.live()
        effect = self.leave(call) if call is not None else None
        if call is None or effect is None:
            return False
        made = self.there.get(effect.effect_id, 0) > 0
        self.confirm(call.call_id, applied=made, result=Result("r") if made else None)
        return True

    # What mostly happens, in one step: short stories lead further.

    def step_begin(self) -> bool:
        return self.step_start() and self.step_announce()

    def step_do_it(self) -> bool:
        return self.step_make() and self.step_confirm() and self.step_succeed()

    def _ends(self, outcome: Outcome) -> bool:
        call = self.live()
        if call is None:
            return False
        self.exit(call.call_id, outcome, value=Result("r"))
        self._hear()
        return True

    def step_succeed(self) -> bool:
        """Not without leave, and not when the provider said no."""
        call = self.live()
        if call is None or call.live is None or not call.live.announced:
            return False
        if any(one.outcome is Said.NOT_APPLIED for one in self.operation_.lineage(call)):
            return False
        return self._ends(Outcome.SUCCEEDED)

    def step_fail(self) -> bool:
        return self._ends(Outcome.FAILED)

    def step_crash(self) -> bool:
        if self.operation_.continuation is None and not self.state.moving:
            return False
        self.restart()
        self.pending = None
        return True

    def step_cut_off(self) -> bool:
        if self.operation_.continuation is None:
            return False
        self.end(Ending.TIME_LIMIT)
        return True

    def step_continue(self) -> bool:
        """A new prompt: what the agent knew is gone, and it wants the thing done."""
        if len(self.operation_.continuations) == CONTINUATIONS:
            return False
        assert self.go_on().refusal is None
        self.pending, self.satisfied = None, False
        return True

    def _unknown(self) -> tuple[Call, int] | None:
        for call in self.calls:
            for effect in self.operation_.lineage(call):
                if effect.outcome in UNSETTLED and self.live() is None:
                    return call, effect.ordinal
        return None

    def step_settle(self) -> bool:
        """A person, or the provider, says what is true."""
        found = self._unknown()
        if found is None:
            return False
        call, ordinal = found
        effect = self.effect(call.call_id, ordinal)
        applied = self.there.get(effect.effect_id, 0) > 0
        result = Result("seen") if applied else None
        self.resolve(call.call_id, ordinal, applied=applied, result=result)
        return True

    # --- what must hold -------------------------------------------------------------------

    def check(self) -> None:
        assert sum(self.there.values()) <= 1, "the write was made twice"
        if self.satisfied:
            assert sum(self.there.values()) == 1, "the agent was told of what was never made"
        for effect in self.effects:
            if effect.outcome is Said.NOT_APPLIED:
                assert not self.there.get(effect.effect_id), "what was made was called not applied"


STEPS: dict[str, Callable[[Story], bool]] = {
    name.removeprefix("step_"): getattr(Story, name)
    for name in dir(Story)
    if name.startswith("step_")
}


def stories(contract: Contract, depth: int) -> Iterator[tuple[Story, tuple[str, ...]]]:
    """Every story of so many steps, one of each that left everything alike."""
    first = Story(contract)
    ring: list[tuple[Story, tuple[str, ...]]] = [(first, ())]
    seen = {first.key()}
    for _ in range(depth):
        following: list[tuple[Story, tuple[str, ...]]] = []
        for story, told in ring:
            for name, step in STEPS.items():
                other = story.fork()
                if not step(other):
                    continue
                path = (*told, name)
                yield other, path
                key = other.key()
                if key not in seen:
                    seen.add(key)
                    following.append((other, path))
        ring = following


def tell(contract: Contract, depth: int) -> int:
    count = 0
    for story, told in stories(contract, depth):
        count += 1
        try:
            story.check()
        except AssertionError as error:
            raise AssertionError(f"{' > '.join(told)}: {error}") from error
    return count


GUARANTEES = pytest.mark.guarantee("A3", "A4", "A5", "A6", "A7", "A9", "E4", "E9")


@GUARANTEES
@pytest.mark.many
@pytest.mark.parametrize("contract", [NEVER, KEY, ASK])
def test_no_short_story_makes_a_write_twice_or_tells_of_one_that_was_not_made(contract):
    assert tell(contract, 8) > 1_000


@pytest.mark.long
@pytest.mark.timeout(7200)
@GUARANTEES
@pytest.mark.parametrize("contract", [NEVER, KEY, ASK])
def test_no_longer_one_does_either(contract):
    assert tell(contract, 11) > 20_000
