"""Short ways to bring the real core into a state: inputs in, decisions folded at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from supervisor.core.checkpoint import canonical_digest, checkpoint_digest
from supervisor.core.contract import Contract
from supervisor.core.decide import decide
from supervisor.core.evolve import fold
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId
from supervisor.core.moment import Moment
from supervisor.core.record import (
    By,
    DeclaredEffect,
    Exit,
    Identity,
    Outcome,
    Reconciler,
    Record,
    Result,
    Terms,
)
from supervisor.core.standing import CallState, OperationState, call_state, operation_state
from supervisor.core.state import Attempt, Call, Effect, Operation, State
from supervisor.core.step import (
    Announced,
    CancelAsked,
    Confirmed,
    Decision,
    Exited,
    ExtendAsked,
    Input,
    Lost,
    ProvenDead,
    Ready,
    ReconcileAsked,
    ReconcilerAnswered,
    ReconcilerProvenDead,
    ReconcilerReady,
    ResolveAsked,
    Restarted,
    ResumeAsked,
    Submitted,
)
from supervisor.journal.records import decode, encode

NONE, KEY = Contract.NONE, Contract.IDEMPOTENCY_KEY
ASK, NEVER = Contract.RECONCILIATION, Contract.NO_SAFE_RETRY
CLIENT, OPERATOR = By(1000, 42), By(0, 7)
MS = 1_000_000
NOON = 1_790_000_000_000 * MS
RECONCILER = Reconciler(("/opt/find",), timeout_ms=5_000, settle_ms=5_000)


def effect(name: str = "charge", contract: Contract = NEVER, **members: Any) -> DeclaredEffect:
    if contract is ASK:
        members.setdefault("reconciler", RECONCILER)
    return DeclaredEffect(name, contract, **members)


def terms(*effects: DeclaredEffect, timeout_ms: int = 10_000, **members: Any) -> Terms:
    return Terms(
        handler=members.pop("handler", "charge"),
        digest=members.pop("digest", "d" * 64),
        timeout_ms=timeout_ms,
        grace_ms=members.pop("grace_ms", 2_000),
        read_only=False,
        effects=effects,
        **members,
    )


class Core:
    """The real `decide` and `fold` with a clock and an id mill; nothing else.

    Every frame goes through its bytes and back, so that what is folded is what a restart
    would read.
    """

    def __init__(self) -> None:
        self.state = State()
        self.position = 0
        self.frames: list[bytes] = []
        self.wall, self.mono, self.boot_id = NOON, 500_000 * MS, "boot-1"
        self.made = 0
        self.margin_ms = 0
        self.watch: Callable[[Input, Decision], None] = lambda event, decision: None
        self.restart()

    # Time and names.

    @property
    def now(self) -> Moment:
        return Moment(self.wall, self.mono, self.boot_id)

    def wait(self, ms: int) -> None:
        self.wall += ms * MS
        self.mono += ms * MS

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}_{self.made:020}"

    # Deciding.

    def do(self, event: Input) -> Decision:
        decision = decide(self.state, event)
        self.watch(event, decision)
        if decision.records:
            self.put(*decision.records)
        return decision

    def put(self, *records: Record) -> None:
        """Fold a frame without asking whether it should be."""
        payload = encode(records)
        assert decode(payload) == records
        self.frames.append(payload)
        self.position += 1
        self.state = fold(self.state, self.position, records)

    # Looking.

    def operation(self, call_id: CallId) -> Operation:
        return self.state.operation_of(call_id)

    def call(self, call_id: CallId) -> Call:
        return self.state.call(call_id)

    def attempt(self, call_id: CallId, number: int = -1) -> Attempt:
        return self.call(call_id).attempts[number]

    def effect(self, call_id: CallId, ordinal: int = 0) -> Effect:
        operation = self.operation(call_id)
        return operation.lineage(operation.calls[call_id])[ordinal]

    def stands(self, call_id: CallId) -> OperationState:
        return operation_state(self.operation(call_id))

    def call_stands(self, call_id: CallId) -> CallState:
        return call_state(self.operation(call_id), self.call(call_id))

    # Inputs.

    def restart(
        self,
        *alive: tuple[CallId, int],
        asking: Collection[EffectId] = (),
        boot_id: str | None = None,
    ) -> Decision:
        """`alive` attempts and `asking` reconcilers are not proven dead."""
        if boot_id is not None:
            self.boot_id, self.mono = boot_id, 1_000 * MS
        left = (frozenset(alive), frozenset(asking))
        return self.do(Restarted(self.now, self.state.epoch + 1, "0.1.0", *left))

    def submitted(self, of: Terms, request_id: str = "r1", **members: Any) -> Submitted:
        value = members.pop("input", {"amount": 3})
        return Submitted(
            now=self.now,
            operation_id=OperationId(self.name("op")),
            call_id=CallId(self.name("call")),
            session_id=SessionId(members.pop("session_id", "uid:1000")),
            request_id=request_id,
            request_digest=canonical_digest([of.handler, value]),
            by=CLIENT,
            terms=of,
            input=value,
            timeout_ms=of.timeout_ms,
            max_run_ms=members.pop("max_run_ms", 600_000),
            **members,
        )

    def submit(self, of: Terms, request_id: str = "r1", **members: Any) -> CallId:
        event = self.submitted(of, request_id, **members)
        decision = self.do(event)
        assert decision.refusal is None, decision.refusal
        return event.call_id

    def ready(self, call_id: CallId, **members: Any) -> Decision:
        digest = members.pop("digest", self.call(call_id).terms.digest)
        identity = Identity(100 + self.made, 5, self.boot_id)
        return self.do(
            Ready(
                self.now,
                call_id,
                digest,
                identity,
                ("namespaces",),
                self.margin_ms,
                EffectId(self.name("eff")),
            )
        )

    def begin(self, of: Terms, request_id: str = "r1", **members: Any) -> CallId:
        call_id = self.submit(of, request_id, **members)
        decision = self.ready(call_id)
        assert decision.refusal is None, decision.refusal
        return call_id

    def announce(
        self, call_id: CallId, name: str = "charge", request: Any = None, **members: Any
    ) -> Decision:
        request = {"amount": 3} if request is None else request
        return self.do(
            Announced(
                self.now,
                call_id,
                members.pop("attempt", len(self.call(call_id).attempts) - 1),
                name,
                request,
                canonical_digest(request),
                EffectId(self.name("eff")),
                **members,
            )
        )

    def confirm(
        self, call_id: CallId, ordinal: int = 0, *, applied: bool = True, **members: Any
    ) -> Decision:
        result = members.pop("result", Result({"id": "ch_1"}) if applied else None)
        attempt = members.pop("attempt", len(self.call(call_id).attempts) - 1)
        return self.do(Confirmed(self.now, call_id, attempt, ordinal, applied, result, **members))

    def exit(self, call_id: CallId, *how: Any, **members: Any) -> Decision:
        return self.do(self.exiting(call_id, *how, **members))

    def exiting(
        self,
        call_id: CallId,
        outcome: Outcome = Outcome.SUCCEEDED,
        status: int | None = None,
        **members: Any,
    ) -> Exited:
        if status is None:
            status = 0 if outcome is Outcome.SUCCEEDED else 1
        how = members.pop("how", Exit(code=status))
        active_ms = members.pop("active_ms", 1_000)
        attempt = members.pop("attempt", len(self.call(call_id).attempts) - 1)
        return Exited(self.now, call_id, attempt, outcome, active_ms, exit=how, **members)

    def lose(self, call_id: CallId, *, dead: bool = True) -> Decision:
        number = len(self.call(call_id).attempts) - 1
        return self.do(Lost(self.now, call_id, number, "the launcher died", dead))

    def prove_dead(self, call_id: CallId, attempt: int = -1, by: By | None = None) -> Decision:
        number = attempt % len(self.call(call_id).attempts)
        return self.do(ProvenDead(self.now, call_id, number, "populated 0", by))

    def cancel(self, call_id: CallId) -> Decision:
        return self.do(
            CancelAsked(self.now, self.operation(call_id).operation_id, CLIENT, "no more")
        )

    def resuming(self, call_id: CallId, **members: Any) -> ResumeAsked:
        operation = self.operation(call_id)
        return ResumeAsked(
            self.now,
            operation.operation_id,
            members.pop("by", CLIENT),
            members.pop("resume_request_id", self.name("resume")),
            members.pop("revision", operation.revision),
            members.pop("digest", checkpoint_digest(operation)),
            CallId(self.name("call")),
            self.margin_ms,
        )

    def resume(self, call_id: CallId, **members: Any) -> Decision:
        return self.do(self.resuming(call_id, **members))

    def newest(self, call_id: CallId) -> CallId:
        operation = self.operation(call_id)
        return operation.newest(operation.calls[call_id]).call_id

    def relaunch(self, call_id: CallId) -> CallId:
        """Resume and start; the call that runs now."""
        decision = self.resume(call_id)
        assert decision.refusal is None, decision.refusal
        launched = self.newest(call_id)
        decision = self.ready(launched)
        assert decision.refusal is None, decision.refusal
        return launched

    def extend(self, call_id: CallId, max_run_ms: int) -> Decision:
        operation_id = self.operation(call_id).operation_id
        return self.do(ExtendAsked(self.now, operation_id, CLIENT, max_run_ms, "more"))

    def reconcile(self, call_id: CallId, ordinal: int = 0) -> Decision:
        """Ask, and start the reconciler when it may run."""
        effect_id = self.effect(call_id, ordinal).effect_id
        asked = self.do(ReconcileAsked(self.now, effect_id))
        if asked.refusal is not None:
            return asked
        identity = Identity(9_000, 5, self.boot_id)
        return self.do(ReconcilerReady(self.now, effect_id, CLIENT, identity))

    def prove_asker_dead(self, call_id: CallId, ordinal: int = 0) -> Decision:
        effect_id = self.effect(call_id, ordinal).effect_id
        return self.do(ReconcilerProvenDead(self.now, effect_id, "pidfd"))

    def answer(
        self, call_id: CallId, ordinal: int = 0, *, applied: bool | None, **members: Any
    ) -> Decision:
        effect_id = self.effect(call_id, ordinal).effect_id
        return self.do(ReconcilerAnswered(self.now, effect_id, applied, **members))

    def resolve(
        self, call_id: CallId, ordinal: int = 0, *, applied: bool, **members: Any
    ) -> Decision:
        known = self.effect(call_id, ordinal)
        members.setdefault("if_revision", known.revision)
        return self.do(
            ResolveAsked(
                self.now,
                known.effect_id,
                OPERATOR,
                applied,
                members.pop("evidence", "seen in the dashboard"),
                **members,
            )
        )


def code(decision: Decision) -> str | None:
    return decision.refusal.code if decision.refusal is not None else None


def kinds(decision: Decision) -> list[str]:
    return [type(record).__name__ for record in decision.records]


def directives(decision: Decision) -> list[str]:
    return [type(one).__name__ for one in decision.directives]


def unchanged(decision: Decision) -> bool:
    """Nothing is written and nothing is done."""
    return not decision.records and not decision.directives


def only(values: list[Any]) -> Any:
    (value,) = values
    return value
