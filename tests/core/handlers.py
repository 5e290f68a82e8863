"""What handlers do with a place to run: announce, act, tell, end, and die unseen."""

from __future__ import annotations

import random
from collections.abc import Callable

from supervisor.core.checkpoint import canonical_digest
from supervisor.core.contract import Contract
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId
from supervisor.core.record import (
    Exit,
    Outcome,
    Result,
)
from supervisor.core.step import (
    Announced,
    AnswerApplied,
    Confirmed,
    Decision,
    Exited,
    GiveLeave,
    Lost,
    ProvenDead,
    Ready,
    Withheld,
)
from tests.core.host import GRACE_MS, Process
from tests.core.table import TERMS, TIMEOUT_MS, Table
from tests.core.world import MS


class Handlers(Table):
    def step_ready(self, rng: random.Random) -> None:
        if not self.host.launches:
            return
        call_id = self.host.launches.pop(rng.randrange(len(self.host.launches)))
        event = Ready(
            self.now,
            call_id,
            self.digest,
            self.host.identity(),
            (),
            rng.choice([0, 0, 0, 5_000]),
            EffectId(self.host.name("eff")),
        )
        if self.host.commit(event).waits:
            self.host.launches.append(call_id)  # it comes back when a sibling has ended

    def step_withhold(self, rng: random.Random) -> None:
        if self.host.launches:
            call_id = self.host.launches.pop(rng.randrange(len(self.host.launches)))
            refusal = Refusal("SandboxUnavailable", "", call_id=call_id)
            self.host.commit(Withheld(self.now, call_id, refusal))

    def step_announce(self, rng: random.Random) -> None:
        idle = [p for p in self.processes(undead=False) if not p.asks]
        if not idle:
            return
        process = rng.choice(idle)
        call = self.state.call(process.key.call_id)
        ordinal = call.attempts[process.key.attempt].announced
        wrong = rng.random() < 0.06
        if ordinal >= len(call.terms.effects) and not wrong:
            return
        names = [one.name for one in TERMS[0].effects + call.terms.effects]
        name = rng.choice(names) if wrong else call.terms.effects[ordinal].name
        request = rng.choice([{"n": 1}] * 9 + [{"n": 2}])
        closed = "RunTimeBudgetExceeded" if self._overdue(process) else None
        event = Announced(
            self.now,
            *self._key(process),
            name,
            request,
            canonical_digest(request),
            EffectId(self.host.name("eff")),
            closed,
        )
        process.asks = True
        decision: Decision | None = None

        def answer() -> None:
            assert decision is not None
            process.asks = False
            for directive in decision.directives:
                if isinstance(directive, GiveLeave):
                    process.leaves[directive.ordinal] = directive.effect_id
                if isinstance(directive, AnswerApplied):
                    made = self.host.world.made(self._effect_at(process, directive.ordinal))
                    assert made, "said to be applied, and it was not"

        answers: list[Callable[[], None]] = []
        decision = self.host.commit(event, lambda: answers.append(answer))
        for one in answers:  # it was durable at once
            one()
        if not answers:
            self.host.waiting[-1].acknowledge = answer

    def _effect_at(self, process: Process, ordinal: int) -> EffectId:
        operation = self.state.operation_of(process.key.call_id)
        return operation.lineage(operation.calls[process.key.call_id])[ordinal].effect_id

    def _key(self, process: Process) -> tuple[CallId, int]:
        return process.key.call_id, process.key.attempt

    def _overdue(self, process: Process) -> bool:
        return self.host.world.now > process.started + process.timeout_ms * MS

    def step_send(self, rng: random.Random) -> None:
        """A handler with leave, or a survivor of a dead daemon, does what it was let do."""
        able = [(p, o) for p in self.processes() for o in sorted(p.leaves) if o not in p.sent]
        able = [(p, o) for p, o in able if o not in p.told and self.host.in_time(p)]
        if able:
            self.host.send(*rng.choice(able))

    def step_arrive(self, rng: random.Random) -> None:
        if self.host.world.flying:
            self.host.activity += 1
            self.host.world.arrive(rng.choice(self.host.world.flying))

    def step_confirm(self, rng: random.Random) -> None:
        """Handlers tell the truth: applied once the provider answered, else what they know."""
        known = [(p, o) for p in self.processes(undead=False) for o in sorted(p.leaves)]
        if not known:
            return
        process, ordinal = rng.choice(known)
        effect_id = process.leaves[ordinal]
        applied = (effect_id, process.key) in self.host.world.answered
        if not applied and not self._provider_denies(process, ordinal):
            return
        process.told.add(ordinal)
        result = Result({"n": 1}) if rng.random() < 0.8 else Result(unavailable="too_large")
        event = Confirmed(
            self.now, *self._key(process), ordinal, applied, result if applied else None
        )
        self.host.commit(event)

    def step_contradict(self, rng: random.Random) -> None:
        """A confused handler confirms once more what it has confirmed, and otherwise."""
        told = [(p, o) for p in self.processes(undead=False) for o in sorted(p.told)]
        if told:
            process, ordinal = rng.choice(told)
            result = Result({"n": rng.choice([1, 2])})
            self.host.commit(Confirmed(self.now, *self._key(process), ordinal, True, result))

    def _provider_denies(self, process: Process, ordinal: int) -> bool:
        """Never sent, and under a key nothing else may have been made or be on its way."""
        effect_id, world = process.leaves[ordinal], self.host.world
        if ordinal in process.sent:
            return False
        if self.host.contract(effect_id) is not Contract.IDEMPOTENCY_KEY:
            return True
        return not world.made(effect_id) and not world.on_its_way(effect_id)

    # Ends.

    def step_exit(self, rng: random.Random) -> None:
        running = [p for p in self.processes(undead=False) if not p.asks]
        if not running:
            return
        process = rng.choice(running)
        outcome, end = self._ending(process, rng)
        whole = self.state.call(process.key.call_id).terms.whole_call
        if whole is not None and end == Exit(code=0):
            if 0 in process.told - process.sent:
                return  # it said that it did nothing, and exits otherwise
            if 0 not in process.sent:
                self.host.send(process, 0)
            for request in [r for r in self.host.world.flying if r.sender == process.key]:
                self.host.world.arrive(request)
        self.host.gone(process)
        code = "Draining" if outcome is Outcome.CANCELLED and rng.random() < 0.5 else None
        event = Exited(
            self.now,
            *self._key(process),
            outcome,
            min((self.host.world.now - process.started) // MS, process.timeout_ms + GRACE_MS),
            end,
            value=self.printed(rng),
            code=code,
        )
        self.host.commit(event)

    def printed(self, _rng: random.Random) -> Result:
        return Result("printed")

    def _ending(self, process: Process, rng: random.Random) -> tuple[Outcome, Exit]:
        zero = rng.random() < 0.6
        end = Exit(code=0) if zero else rng.choice([Exit(code=1), Exit(signal=9)])
        if process.ended:
            return Outcome.CANCELLED, end
        if self._overdue(process):
            return Outcome.TIMED_OUT, end
        if rng.random() < 0.1:
            return Outcome.CANCELLED, end
        return (Outcome.SUCCEEDED if zero else Outcome.FAILED), end

    def step_never_ran(self, rng: random.Random) -> None:
        """A last check before the gate says no, or exec fails: no code of it has run."""
        fresh = [
            p
            for p in self.processes(undead=False)
            if not p.sent and not p.told and not p.asks and self._announced(p) <= 0
        ]
        if fresh:
            process = rng.choice(fresh)
            self.host.gone(process)
            code = rng.choice(["AuthorityRevoked", None])
            event = Exited(self.now, *self._key(process), Outcome.NOT_STARTED, 0, code=code)
            self.host.commit(event)

    def _announced(self, process: Process) -> int:
        call = self.state.call(process.key.call_id)
        by_itself = 1 if call.terms.whole_call is not None else 0
        return call.attempts[process.key.attempt].announced - by_itself

    def step_lose(self, rng: random.Random) -> None:
        """The launcher or the init died: nobody sees the end, perhaps not even the death."""
        running = self.processes(undead=False)
        if running:
            process = rng.choice(running)
            dead = rng.random() < 0.6
            if dead:
                self.host.gone(process)
            else:
                process.undead = True
            self.host.commit(Lost(self.now, *self._key(process), "lost", dead))

    def step_die(self, rng: random.Random) -> None:
        """A survivor dies, or was dead already and is proven to be."""
        survivors = self.processes(undead=True)
        if survivors and rng.random() < 0.5:
            self.host.gone(rng.choice(survivors))
        doubted = sorted(k for k in self.state.undead if k not in self.host.processes)
        if doubted:
            key = rng.choice(doubted)
            self.host.commit(ProvenDead(self.now, key.call_id, key.attempt, "gone"))

    def step_time_out(self, rng: random.Random) -> None:
        """The deadline passes; nothing that a daemon watches lives beyond it and the grace."""
        if self.processes(undead=False):
            self.host.activity += 1
            self.host.world.wait(TIMEOUT_MS)
