"""Every input of the core, as somebody would bring it to an operation that stands anywhere."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId, SessionId
from supervisor.core.record import Ending, Exit, Identity, Outcome, Result, Trigger
from supervisor.core.state import Call, Effect, Operation
from supervisor.core.step import (
    Announced,
    ArtifactsAsked,
    BlobLost,
    CallAsked,
    CancelAsked,
    Confirmed,
    ContinueAsked,
    Decision,
    EndAsked,
    Exited,
    ExtendAsked,
    Input,
    Lost,
    Message,
    Opened,
    ProvenDead,
    Ready,
    ReconcileAsked,
    ReconcilerAnswered,
    ReconcilerProvenDead,
    ReconcilerReady,
    ResolveAsked,
    Restarted,
    ResumeAsked,
    SessionAsked,
    Submitted,
    TimePassed,
    Withheld,
)
from supervisor.core.step_programs import ApprovalAsked, ApprovalsTimePassed, ProgramSubmitted
from tests.core.agent import READ, WRITE
from tests.core.made import CLIENT, OPERATOR, Core, kinds, unchanged

Bring = Callable[[Core, Operation], Input | None]
VERBS: dict[str, tuple[type[Input], Bring]] = {}


def verb(kind: type[Input]) -> Callable[[Bring], Bring]:
    def known(bring: Bring) -> Bring:
        VERBS[bring.__name__.replace("_", " ").strip()] = (kind, bring)
        return bring

    return known


def answered(decision: Decision) -> str:
    """What came of it: a refusal's code, the record that says it, or what is to be done."""
    if decision.refusal is not None:
        return decision.refusal.code
    if decision.repeated:
        assert unchanged(decision)
        return "again"
    if decision.records:
        return kinds(decision)[0 if len(decision.records) == 1 else -1]
    assert decision.directives, "a silent nothing"
    return type(decision.directives[0]).__name__


def chosen(operation: Operation) -> Call | None:
    """The call that is spoken of: one that runs, else one that waits, else the newest."""
    calls = list(operation.ordered_calls())
    for found in (
        [one for one in calls if one.live is not None],
        [one for one in calls if one.queued is not None],
        calls,
    ):
        if found:
            return found[-1]
    return None


def newest_effect(operation: Operation) -> Effect | None:
    """The effect that is spoken of: the newest."""
    return next(reversed(list(operation.ordered_effects())), None)


def _of_call(make: Callable[[Core, Call], Input]) -> Bring:
    def bring(core: Core, operation: Operation) -> Input | None:
        call = chosen(operation)
        return make(core, call) if call is not None else None

    bring.__name__ = make.__name__
    return bring


def _of_attempt(make: Callable[[Core, Call, int], Input]) -> Bring:
    def bring(core: Core, operation: Operation) -> Input | None:
        call = chosen(operation)
        return make(core, call, max(len(call.attempts) - 1, 0)) if call is not None else None

    bring.__name__ = make.__name__
    return bring


def _of_effect(make: Callable[[Core, Effect], Input]) -> Bring:
    def bring(core: Core, operation: Operation) -> Input | None:
        effect = newest_effect(operation)
        return make(core, effect) if effect is not None else None

    bring.__name__ = make.__name__
    return bring


# --- what clients send ----------------------------------------------------------------------


def _message(core: Core, operation: Operation, digest: str) -> Message:
    """The operation's own message, of whatever kind."""
    of = core.submitted(WRITE, operation.request_id, session_id=operation.session_id)
    return attrs.evolve(of, request_digest=digest)


@verb(Submitted)
def its_message_again(core: Core, operation: Operation) -> Input:
    return _message(core, operation, operation.request_digest)


@verb(Submitted)
def its_message_with_another_body(core: Core, operation: Operation) -> Input:
    return _message(core, operation, "another")


@verb(Opened)
def an_open_message_of_its_id(core: Core, operation: Operation) -> Input:
    base = attrs.asdict(_message(core, operation, "another"), recurse=False)
    return Opened(**{one.name: base[one.name] for one in attrs.fields(Opened)})


@verb(ProgramSubmitted)
def a_program_of_its_id(core: Core, operation: Operation) -> Input:
    base = attrs.asdict(_message(core, operation, "another"), recurse=False)
    base = {one.name: base[one.name] for one in attrs.fields(Message)}
    return ProgramSubmitted(**base, document={"nodes": []}, input=None, terms=())


@verb(SessionAsked)
def a_session(core: Core, _: Operation) -> Input:
    return SessionAsked(core.now, SessionId(core.name("ses")), "s1", CLIENT)


@verb(CancelAsked)
def cancel(core: Core, operation: Operation) -> Input:
    return CancelAsked(core.now, operation.operation_id, CLIENT, "no more")


@verb(ResumeAsked)
def resume(core: Core, operation: Operation) -> Input:
    pinned = (operation.revision, checkpoint_digest(operation))
    new = CallId(core.name("call"))
    return ResumeAsked(core.now, operation.operation_id, CLIENT, core.name("rq"), *pinned, new, 0)


@verb(ResumeAsked)
def resume_a_stale_checkpoint(core: Core, operation: Operation) -> Input:
    asked = resume(core, operation)
    return attrs.evolve(asked, revision=operation.revision - 1)


@verb(ExtendAsked)
def extend(core: Core, operation: Operation) -> Input:
    limit = operation.budget.max_run_ms + 1
    return ExtendAsked(core.now, operation.operation_id, CLIENT, limit, "more")


@verb(ExtendAsked)
def extend_to_less(core: Core, operation: Operation) -> Input:
    return ExtendAsked(core.now, operation.operation_id, CLIENT, 1, "less")


@verb(ArtifactsAsked)
def accept_artifacts(core: Core, operation: Operation) -> Input:
    call = chosen(operation)
    digests = {call.terms.handler: "e" * 64} if call is not None else {}
    return ArtifactsAsked(core.now, operation.operation_id, OPERATOR, digests, "a fix")


@verb(ApprovalAsked)
def approve(core: Core, operation: Operation) -> Input:
    return ApprovalAsked(core.now, operation.operation_id, "ok", "approve", "", CLIENT)


@verb(ApprovalAsked)
def reject(core: Core, operation: Operation) -> Input:
    return ApprovalAsked(core.now, operation.operation_id, "ok", "reject", "", CLIENT)


@verb(ApprovalAsked)
def approve_what_is_no_choice(core: Core, operation: Operation) -> Input:
    return ApprovalAsked(core.now, operation.operation_id, "ok", "perhaps", "", CLIENT)


def _last(operation: Operation) -> int:
    return max(len(operation.continuations) - 1, 0)


@verb(ContinueAsked)
def continue_(core: Core, operation: Operation) -> Input:
    after, manual = _last(operation), Trigger.MANUAL
    return ContinueAsked(core.now, operation.operation_id, CLIENT, manual, after, core.name("c"))


@verb(ContinueAsked)
def continue_by_itself(core: Core, operation: Operation) -> Input:
    after, auto = _last(operation), Trigger.AUTO
    return ContinueAsked(core.now, operation.operation_id, CLIENT, auto, after, core.name("c"))


@verb(EndAsked)
def end(core: Core, operation: Operation) -> Input:
    return EndAsked(core.now, operation.operation_id, CLIENT, _last(operation), Ending.RATE_LIMIT)


@verb(CallAsked)
def call_a_write(core: Core, operation: Operation) -> Input:
    """The write that was asked for first, if there was one."""
    name = core.name("t")
    one, new = operation.operation_id, CallId(core.name("call"))
    first = next(operation.ordered_calls(), None)
    terms = first.terms if first is not None and not first.terms.read_only else WRITE
    value = first.input if first is not None else 1
    return CallAsked(core.now, one, new, CLIENT, name, name, terms, value, 10_000, 0)


@verb(CallAsked)
def call_a_look(core: Core, operation: Operation) -> Input:
    name = core.name("t")
    one, new = operation.operation_id, CallId(core.name("call"))
    return CallAsked(core.now, one, new, CLIENT, name, name, READ, 1, 10_000, 0)


@verb(ReconcileAsked)
@_of_effect
def reconcile(core: Core, effect: Effect) -> Input:
    return ReconcileAsked(core.now, effect.effect_id)


@verb(ResolveAsked)
@_of_effect
def resolve_as_applied(core: Core, effect: Effect) -> Input:
    return ResolveAsked(core.now, effect.effect_id, OPERATOR, True, "seen", effect.revision)


@verb(ResolveAsked)
@_of_effect
def resolve_as_not_applied(core: Core, effect: Effect) -> Input:
    return ResolveAsked(core.now, effect.effect_id, OPERATOR, False, "seen", effect.revision)


@verb(ResolveAsked)
@_of_effect
def resolve_at_a_stale_revision(core: Core, effect: Effect) -> Input:
    stale = effect.revision - 1
    return ResolveAsked(core.now, effect.effect_id, OPERATOR, True, "seen", stale, Result("new"))


# --- what the shell finds ----------------------------------------------------------------------


@verb(Ready)
@_of_call
def ready(core: Core, call: Call) -> Input:
    identity, effect_id = Identity(100 + core.made, 5, core.boot_id), EffectId(core.name("eff"))
    return Ready(core.now, call.call_id, call.terms.digest, identity, (), 0, effect_id)


@verb(Withheld)
@_of_call
def withheld(core: Core, call: Call) -> Input:
    return Withheld(core.now, call.call_id, Refusal("SandboxUnavailable", "no slot"))


@verb(Announced)
@_of_attempt
def announced(core: Core, call: Call, attempt: int) -> Input:
    name, effect_id = call.terms.effects[-1].name, EffectId(core.name("eff"))
    return Announced(core.now, call.call_id, attempt, name, {}, "digest", effect_id)


@verb(Confirmed)
@_of_attempt
def confirmed(core: Core, call: Call, attempt: int) -> Input:
    return Confirmed(core.now, call.call_id, attempt, 0, True, Result("new"))


@verb(Exited)
@_of_attempt
def exited(core: Core, call: Call, attempt: int) -> Input:
    return Exited(core.now, call.call_id, attempt, Outcome.FAILED, 1_000, exit=Exit(code=1))


@verb(Lost)
@_of_attempt
def lost(core: Core, call: Call, attempt: int) -> Input:
    return Lost(core.now, call.call_id, attempt, "the launcher died", dead=True)


@verb(ProvenDead)
@_of_attempt
def proven_dead(core: Core, call: Call, attempt: int) -> Input:
    return ProvenDead(core.now, call.call_id, attempt, "populated 0")


@verb(ReconcilerReady)
@_of_effect
def reconciler_ready(core: Core, effect: Effect) -> Input:
    return ReconcilerReady(core.now, effect.effect_id, CLIENT, Identity(9_000, 5, core.boot_id))


@verb(ReconcilerAnswered)
@_of_effect
def reconciler_answered(core: Core, effect: Effect) -> Input:
    return ReconcilerAnswered(core.now, effect.effect_id, True, Result("new"))


@verb(ReconcilerProvenDead)
@_of_effect
def reconciler_proven_dead(core: Core, effect: Effect) -> Input:
    return ReconcilerProvenDead(core.now, effect.effect_id, "pidfd")


@verb(BlobLost)
def blob_lost(core: Core, operation: Operation) -> Input:
    return BlobLost(core.now, operation.operation_id, "0" * 64, "missing")


@verb(ApprovalsTimePassed)
def time_passes_for_approvals(core: Core, _: Operation) -> Input:
    return ApprovalsTimePassed(core.now)


@verb(TimePassed)
def time_passes(core: Core, _: Operation) -> Input:
    return TimePassed(core.now, 1_000, 30, 400, 30)


@verb(Restarted)
def restarted(core: Core, _: Operation) -> Input:
    return Restarted(core.now, core.state.epoch + 1, "0.1.0")
