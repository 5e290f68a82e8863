"""A simulation of everything that can happen to an operation, from one seed.

A run is a list of seeds, one for each step, so that a failing run can be cut down to the
few steps that matter. A step draws what happens until something does; its story is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from supervisor.core.checkpoint import canonical_digest, checkpoint_digest
from supervisor.core.contract import Contract
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId
from supervisor.core.record import (
    By,
    DeclaredEffect,
    Exit,
    Outcome,
    Reconciler,
    Result,
    Terms,
)
from supervisor.core.state import UNSETTLED, Effect, Operation
from supervisor.core.step import (
    Announced,
    AnswerApplied,
    ArtifactsAsked,
    CancelAsked,
    Confirmed,
    Decision,
    Exited,
    ExtendAsked,
    GiveLeave,
    Lost,
    ProvenDead,
    Ready,
    ReconcileAsked,
    ReconcilerAnswered,
    ReconcilerReady,
    ResolveAsked,
    ResumeAsked,
    Submitted,
    Withheld,
)
from tests.core.disk import Disk, ListDisk
from tests.core.host import Host, Process
from tests.core.invariants import Invariants
from tests.core.world import KEY_VALID_MS, MS, SETTLE_MS

BY = By(1000, 42)
ASKER = Reconciler(("/opt/find",), 1_000, SETTLE_MS)
TIMEOUT_MS, GRACE_MS = 10_000, 2_000


def _terms() -> list[Terms]:
    """Handlers of one and of two effects, announced and of the whole call, under each contract."""
    kinds = [
        (Contract.NONE, None),
        (Contract.IDEMPOTENCY_KEY, None),
        (Contract.IDEMPOTENCY_KEY, ASKER),
        (Contract.RECONCILIATION, ASKER),
        (Contract.NO_SAFE_RETRY, None),
    ]
    declared = [
        DeclaredEffect(f"e{n}", contract, key_valid_ms=KEY_VALID_MS, reconciler=reconciler)
        for n, (contract, reconciler) in enumerate(kinds)
    ]
    ones = [(one,) for one in declared]
    twos = [(declared[i], declared[j]) for i in range(5) for j in range(5) if i != j]
    wholes = [
        (
            DeclaredEffect(
                "w", contract, whole_call=True, key_valid_ms=KEY_VALID_MS, reconciler=reconciler
            ),
        )
        for contract, reconciler in kinds
    ]
    return [
        Terms(f"h{n}", "d1", TIMEOUT_MS, GRACE_MS, False, effects)
        for n, effects in enumerate(ones + ones + wholes + wholes + twos)
    ]


TERMS = _terms()


class Machine:
    """One host, one world, and what clients, operators, providers and disks do to them."""

    def __init__(
        self, profile: int, disk: Disk | None = None, host: type[Host] = Host
    ) -> None:
        """`profile` decides what this run is about: a few handlers, and what happens often."""
        rng = random.Random(profile)
        self.terms = rng.sample(TERMS, rng.choice([1, 2, 4]))
        self.shares = [WEIGHTS.get(name, 1) * rng.choice([0.3, 1, 1, 2]) for name in NAMES]
        self.synced = rng.choice([0.3, 0.6, 0.9])
        self.host = host(disk if disk is not None else ListDisk())
        self.digest = "d1"
        self.sent: list[Submitted] = []
        self.resumes: list[ResumeAsked] = []
        self.story: list[str] = []
        self.looks: dict[EffectId, bool | None] = {}
        self.holds = Invariants(self.host)
        self.host.restart()

    def run(self, seeds: Sequence[int]) -> None:
        for number, seed in enumerate(seeds):
            self.step(random.Random(seed))
            self.holds.check(everything=number % 16 == 0)
        # Whatever happened: after one more crash the disk tells the same story.
        self.step_crash(random.Random(0))
        self.holds.check(everything=True)

    def step(self, rng: random.Random) -> None:
        """One thing that moves something; what is refused or has no object is no step."""
        before = self.host.activity
        for name in rng.choices(NAMES, self.shares, k=TRIES):
            STEPS[name](self, rng)
            if self.host.activity != before:
                self.story.append(name)
                break
        if rng.random() < self.synced:
            self.host.sync(100)

    # Choosing.

    @property
    def now(self):
        return self.host.now

    @property
    def state(self):
        return self.host.state

    def operations(self) -> list[Operation]:
        return sorted(self.state.operations.values(), key=lambda o: o.serial)

    def operation(self, rng: random.Random) -> Operation | None:
        """Any, and mostly one that is not finished."""
        found = self.operations()
        open_ = [o for o in found if not o.finished]
        found = open_ if open_ and rng.random() < 0.9 else found
        return rng.choice(found) if found else None

    def effect(self, rng: random.Random) -> Effect | None:
        """Any, and mostly one that is not settled."""
        found = [e for o in self.operations() for _, e in sorted(o.effects.items())]
        open_ = [e for e in found if e.outcome in UNSETTLED or e.result_lost]
        found = open_ if open_ and rng.random() < 0.9 else found
        return rng.choice(found) if found else None

    def processes(self, **which: bool) -> list[Process]:
        found = [self.host.processes[key] for key in sorted(self.host.processes)]
        return [p for p in found if all(getattr(p, k) is v for k, v in which.items())]

    # Clients.

    def step_submit(self, rng: random.Random) -> None:
        terms = rng.choice(self.terms)
        made = len(self.state.operations)
        left = sum(self.state.unfinished.values())
        new = left < 2 or rng.random() < 0.1
        request_id = f"r{made if new else rng.randrange(made)}"
        event = Submitted(
            self.now,
            OperationId(self.host.name("op")),
            CallId(self.host.name("call")),
            SessionId("uid:1000"),
            request_id,
            canonical_digest([terms.handler]),
            BY,
            terms,
            None,
            terms.timeout_ms,
            rng.choice([10_001, 20_001, 45_000, 200_000, 200_000]),
            operations_max=4,
        )
        self.submit(event)

    def step_submit_again(self, rng: random.Random) -> None:
        if self.sent:
            self.submit(rng.choice(self.sent))

    def submit(self, event: Submitted) -> Decision:
        decision = self.host.commit(event)
        if decision.records:
            self.sent.append(event)
        return decision

    def step_cancel(self, rng: random.Random) -> None:
        operation = self.operation(rng)
        if operation is not None:
            self.host.commit(CancelAsked(self.now, operation.operation_id, BY, ""))

    def step_extend(self, rng: random.Random) -> None:
        operation = self.operation(rng)
        if operation is not None:
            limit = operation.budget.max_run_ms + rng.choice([-1, 0, 1, 20_000])
            event = ExtendAsked(self.now, operation.operation_id, BY, limit, "")
            self.host.commit(event)

    def step_resume(self, rng: random.Random) -> None:
        at_rest = [o for o in self.operations() if not o.finished and not self._runs(o)]
        operation = rng.choice(at_rest) if at_rest else self.operation(rng)
        if operation is not None:
            revision, digest = operation.revision, checkpoint_digest(operation)
            if rng.random() < 0.1:
                revision -= 1
            elif rng.random() < 0.1:
                digest = "0" * 64
            self._resume(operation.operation_id, self.host.name("rq"), revision, digest)

    def _runs(self, operation: Operation) -> bool:
        return any(call_id in self.state.moving for call_id in operation.call_order)

    def step_resume_again(self, rng: random.Random) -> None:
        """An old request again, as it was or with one thing changed."""
        if self.resumes:
            old = rng.choice(self.resumes)
            request_id = old.resume_request_id if rng.random() < 0.7 else self.host.name("rq")
            revision = old.revision + rng.choice([0, 0, 0, 1])
            if old.operation_id in self.state.operations:
                self._resume(old.operation_id, request_id, revision, old.digest)

    def _resume(self, operation_id: OperationId, name: str, revision: int, digest: str) -> None:
        event = ResumeAsked(
            self.now, operation_id, BY, name, revision, digest, CallId(self.host.name("call")), 0
        )
        decision = self.host.commit(event)
        if decision.refusal is None:
            self.resumes.append(event)

    # The shell's own steps.

    def step_sync(self, rng: random.Random) -> None:
        self.host.sync(rng.choice([1, 1, 2, 100]))

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
        self.host.commit(event)

    def step_withhold(self, rng: random.Random) -> None:
        if self.host.launches:
            call_id = self.host.launches.pop(rng.randrange(len(self.host.launches)))
            refusal = Refusal("SandboxUnavailable", "", call_id=call_id)
            self.host.commit(Withheld(self.now, call_id, refusal))

    def step_change_artifacts(self, rng: random.Random) -> None:
        self.digest = rng.choice(["d1", "d1", "d1", "d2"])

    def step_accept_artifacts(self, rng: random.Random) -> None:
        operation = self.operation(rng)
        if operation is not None:
            digests = {c.terms.handler: self.digest for c in operation.ordered_calls()}
            event = ArtifactsAsked(self.now, operation.operation_id, BY, digests, "")
            self.host.commit(event)

    # Handlers.

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
        able = [(p, o) for p, o in able if o not in p.told]
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
            value=Result("printed"),
            code=code,
        )
        self.host.commit(event)

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
            self.host.world.wait(TIMEOUT_MS)

    # Providers and operators.

    def step_reconcile(self, rng: random.Random) -> None:
        effect = self.effect(rng)
        if effect is not None:
            self.host.commit(ReconcileAsked(self.now, effect.effect_id))

    def step_reconciler_ready(self, rng: random.Random) -> None:
        """It starts, and looks at once; when it answers is another matter."""
        if self.host.reconcilers:
            index = rng.randrange(len(self.host.reconcilers))
            effect_id = self.host.reconcilers.pop(index).effect_id
            event = ReconcilerReady(self.now, effect_id, BY, self.host.identity())
            if self.host.commit(event).refusal is None:
                seen = self.host.world.made(effect_id)
                self.looks[effect_id] = rng.choice([seen] * 4 + [None])

    def step_reconciler_answer(self, rng: random.Random) -> None:
        running = sorted(self.state.reconciling)
        if running:
            effect_id = rng.choice(running)
            seen = self.looks[effect_id]
            result = Result({"n": 1}) if seen and rng.random() < 0.7 else None
            self.host.commit(ReconcilerAnswered(self.now, effect_id, seen, result))

    def step_resolve(self, rng: random.Random) -> None:
        """Operators look well: they say only what stays true."""
        effect = self.effect(rng)
        if effect is None or self.host.world.on_its_way(effect.effect_id):
            return
        applied = self.host.world.made(effect.effect_id)
        stale = rng.random() < 0.1
        event = ResolveAsked(
            self.now,
            effect.effect_id,
            BY,
            applied,
            "looked",
            effect.revision - stale,
            Result({"n": 1}) if applied and rng.random() < 0.7 else None,
        )
        self.host.commit(event)

    # Time and death.

    def step_wait(self, rng: random.Random) -> None:
        self._wait(rng.choice([1, 900, 3_000, 5_000]))

    def step_wait_long(self, rng: random.Random) -> None:
        self._wait(rng.choice([20_000, 45_000, 61_000]))

    def _wait(self, ms: int) -> None:
        """A daemon that lives ends what is past its deadline and grace."""
        latest = min(
            (p.started + (p.timeout_ms + GRACE_MS) * MS for p in self.processes(undead=False)),
            default=None,
        )
        real = self.host.world.now
        if latest is not None and real + ms * MS > latest:
            ms = max(0, (latest - real) // MS)
        self.host.activity += 1
        self.host.world.wait(ms)

    def step_jump(self, rng: random.Random) -> None:
        """The wall clock is set: forward, or back within one boot."""
        self.host.wall_shift += rng.choice([-86_400_000, -3_000, 3_000, 10_000, 86_400_000]) * MS

    def step_crash(self, rng: random.Random) -> None:
        self.host.crash(rng, reboot=rng.random() < 0.3)
        self.holds.begin_again()
        self.host.world.wait(rng.choice([0, 0, 1_000, 30_000]))
        self.host.restart()
        self.sent = [e for e in self.sent if e.operation_id in self.state.operations]
        self.resumes = [
            e
            for e in self.resumes
            if e.operation_id in self.state.operations
            and e.resume_request_id in self.state.operations[e.operation_id].resumes
        ]


STEPS: dict[str, Callable[[Machine, random.Random], None]] = {
    name.removeprefix("step_"): step
    for name, step in vars(Machine).items()
    if name.startswith("step_")
}
# How often each happens: what leads deep is likely, what ends everything is not.
WEIGHTS = {
    "submit": 4,
    "sync": 6,
    "ready": 14,
    "announce": 16,
    "send": 10,
    "arrive": 6,
    "confirm": 8,
    "exit": 5,
    "resume": 12,
    "reconcile": 8,
    "reconciler_ready": 8,
    "reconciler_answer": 6,
    "resolve": 3,
    "wait": 5,
    "die": 6,
    "crash": 2,
    "lose": 3,
    "jump": 2,
    "cancel": 0.7,
    "extend": 2,
    "time_out": 0.5,
    "wait_long": 0.5,
    "withhold": 0.5,
    "change_artifacts": 0.3,
}


NAMES = list(STEPS)
TRIES = 12


def script(seed: int, length: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2**32) for _ in range(length)]


def shortest(seeds: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """A failing run without the steps that do not matter to its failing."""
    kept = list(seeds)
    size = max(len(kept) // 2, 1)
    while size:
        index = 0
        while index < len(kept):
            tried = kept[:index] + kept[index + size :]
            if fails(tried):
                kept = tried
            else:
                index += size
        size //= 2
    return kept
