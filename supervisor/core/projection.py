"""What may be done about an operation now: the recovery projection, as values.

Clients act on this alone; every request is decided again when it arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from frozen import frozen
from supervisor.core.continuing import continue_instead, may_continue
from supervisor.core.contract import Contract, Evidence, Verdict
from supervisor.core.errors import Refusal
from supervisor.core.ids import EffectId
from supervisor.core.lineage import (
    Plan,
    call_verdict,
    effect_verdict,
    evidence,
    lost_refusal,
    open_tries_dead,
    plan,
    relaunched,
)
from supervisor.core.matching import unsettled
from supervisor.core.moment import Moment
from supervisor.core.program_state import Approval, ProgramState
from supervisor.core.record import Kind
from supervisor.core.standing import (
    TERMINAL,
    CallState,
    OperationState,
    call_state,
    node_lost,
    node_waits,
    operation_state,
)
from supervisor.core.state import Call, Effect, Operation, Said


@frozen
class Action:
    """One allowed action; `needs` is the grant that it takes beside ownership."""

    action: str
    needs: str
    call_id: str | None = None
    attempt: int | None = None
    effect_id: EffectId | None = None
    node: str | None = None


@frozen
class Projection:
    state: OperationState
    verdicts: Mapping[EffectId, Verdict]
    actions: tuple[Action, ...]
    refusals: tuple[Refusal, ...]


def project(
    operation: Operation, now: Moment, *, margin_ms: int, digests: Mapping[str, str | None]
) -> Projection:
    """`digests`: each handler's digest as loaded now, None when it is gone."""
    standing = operation_state(operation)
    actions: list[Action] = []
    refusals: list[Refusal] = []
    barred = resume_barred(operation)
    if operation.kind is Kind.OPEN and standing not in TERMINAL:
        _continue(operation, now, margin_ms, digests, actions, refusals)
    elif barred is None:
        _resume(operation, now, margin_ms, digests, actions, refusals)
    elif standing not in TERMINAL:
        refusals.append(barred)
    if standing is OperationState.WAITING:
        _approval(operation, now, actions, refusals)
    for effect in operation.ordered_effects():
        actions.extend(_settling(operation, effect))
    actions.extend(_attesting(operation))
    if standing not in TERMINAL and not operation.cancel_requested:
        actions += [Action("cancel", "run"), Action("extend", "run")]
    return Projection(standing, verdicts(operation, now), tuple(actions), tuple(refusals))


def verdicts(operation: Operation, now: Moment) -> dict[EffectId, Verdict]:
    """Each effect's own verdict; a restore whose call lacks its result reads *finish*."""
    found: dict[EffectId, Verdict] = {}
    for root, lineage in operation.lineages.items():
        call = operation.newest(operation.calls[root])
        finishing = call_verdict(operation, call, now) is Verdict.FINISH
        for effect_id in lineage:
            one = effect_verdict(operation.effects[effect_id], call, now)
            found[effect_id] = Verdict.FINISH if finishing and one is Verdict.RESTORE else one
    return found


def resume_barred(operation: Operation) -> Refusal | None:
    """What its state alone says against a resume; None: its calls decide."""
    one, standing = operation.operation_id, operation_state(operation)
    if standing in TERMINAL:
        return Refusal("NotResumable", f"{one} is {standing.value}")
    if operation.cancel_requested:
        detail = f"{one} was cancelled; only its effects are left to settle"
        return Refusal("OperationCancelled", detail)
    if operation.kind is Kind.OPEN:
        return may_continue(operation) or continue_instead(operation)
    if standing is OperationState.WAITING:
        assert operation.program is not None
        assert operation.program.pending is not None
        node = operation.program.pending.node
        fix = f"effectctl approvals answer {one} {node} --choice CHOICE"
        return Refusal("NotResumable", f"{one} waits for approval {node!r}", fix=fix)
    if standing in {OperationState.ACCEPTED, OperationState.RUNNING}:
        fix = f"Wait for it: effectctl operations show {one}"
        return Refusal("DurableResumeConflict", f"{one} is {standing.value}", fix=fix)
    return None


def approval_barred(operation: Operation, approval: Approval, now: Moment) -> Refusal | None:
    """What stands in the way of an answer; None: nothing does."""
    program = operation.program
    assert program is not None
    if operation.cancel_requested:
        return Refusal("OperationCancelled", f"{operation.operation_id} was cancelled")
    if not program.known:
        return not_resumable(program)
    if operation.lost:
        return program_lost(operation)
    if now.wall >= approval.expires_at:
        return Refusal("DecisionExpired", f"approval {approval.node!r} was not given in time")
    return None


def _approval(
    operation: Operation, now: Moment, actions: list[Action], refusals: list[Refusal]
) -> None:
    assert operation.program is not None
    pending = operation.program.pending
    assert pending is not None
    barred = approval_barred(operation, pending, now)
    if barred is None:
        actions.append(Action("approve", ", ".join(pending.by), node=pending.node))
    else:
        refusals.append(barred)


def _resume(  # one place that says whether, and why not
    operation: Operation,
    now: Moment,
    margin_ms: int,
    digests: Mapping[str, str | None],
    actions: list[Action],
    refusals: list[Refusal],
) -> None:
    plans = resume_plans(operation, now)
    planned = [one for one in plans if isinstance(one, Plan)]
    held = [_held_back(operation, one, margin_ms, digests, actions) for one in planned]
    refused = [one for one in (*plans, *held) if isinstance(one, Refusal)]
    refusals.extend(refused)
    if not refused:
        first = planned[0].call.call_id if planned else None
        actions.append(Action("resume", "run", call_id=first))


def resume_plans(operation: Operation, now: Moment) -> list[Plan | Refusal]:
    """How a resume lets each of its calls go on that is stuck, or why one may not. What it
    cannot go on without, and nobody can supply, ends the program then."""
    if operation.program is None:
        return [plan(operation, operation.calls[operation.call_order[0]], now)]
    if operation.lost:
        return [program_lost(operation)]
    if operation.program.obstacles:
        return [not_resumable(operation.program)]
    stuck = [operation.calls[one] for one in operation.program.calls.values()]
    stuck = sorted(
        (
            one
            for one in stuck
            if node_waits(operation, one.call_id) and node_lost(operation, one.call_id) is None
        ),
        key=lambda one: operation.call_order.index(one.call_id),
    )
    return [_node_plan(operation, one, now) for one in stuck]


def not_resumable(program: ProgramState) -> Refusal:
    """What is said where a program would have to be moved on, and may not be."""
    fix = "Settle its effects, or cancel it; send what is missing with another message id."
    if not program.known:
        fix = "Resume it with the effectd that it was accepted by; or cancel it, and send it again."
    return Refusal("NotResumable", "; ".join(program.obstacles), fix=fix)


def program_lost(operation: Operation) -> Refusal:
    """Why it never goes on: a repair of the journal gave up what it did."""
    first = next(operation.ordered_calls(), None)
    if first is not None:
        return lost_refusal(operation, first)
    return Refusal("EffectOutcomeUnknown", "what it did is in records that a repair gave up")


def _node_plan(operation: Operation, call: Call, now: Moment) -> Plan | Refusal:
    """A node that succeeded is never run again, also where its value was not kept."""
    if call_state(operation, call) is CallState.SUCCEEDED:
        lineage = operation.lineage(call)
        one = lineage[0].effect_id if len(lineage) == 1 else None
        return Refusal(
            "EffectResultUnavailable",
            f"node {call.node!r} succeeded, and its value is not available",
            call_id=call.call_id,
            effect_id=one,
        )
    return plan(operation, call, now)


def _continue(
    operation: Operation,
    now: Moment,
    margin_ms: int,
    digests: Mapping[str, str | None],
    actions: list[Action],
    refusals: list[Refusal],
) -> None:
    """Whether it may be continued, and what an identical call would meet of each write that
    is not settled."""
    closed = may_continue(operation)
    refusals.append(closed or continue_instead(operation))
    if closed is None:
        actions.append(Action("continue", "run"))
    for root in unsettled(operation):
        planned = plan(operation, root, now)
        held = (
            planned
            if isinstance(planned, Refusal)
            else _held_back(operation, planned, margin_ms, digests, actions)
        )
        if held is not None:
            refusals.append(held)


def _held_back(
    operation: Operation,
    planned: Plan,
    margin_ms: int,
    digests: Mapping[str, str | None],
    actions: list[Action],
) -> Refusal | None:
    """A restore needs neither time nor the handler; all else needs both."""
    call = planned.call
    if planned.relaunch is None:
        return None
    if not operation.budget.admits(call.timeout_ms, margin_ms):
        return operation.budget.refusal(call.timeout_ms, call.call_id)
    return _artifacts(operation, call, digests, actions)


def _artifacts(
    operation: Operation, call: Call, digests: Mapping[str, str | None], actions: list[Action]
) -> Refusal | None:
    name = call.terms.handler
    digest = digests.get(name)
    if digest is None:
        return Refusal("UnknownHandler", f"handler {name!r} is not loaded", call_id=call.call_id)
    accepted = operation.accepted_digests.get(name, frozenset())
    if digest == call.terms.digest or digest in accepted:
        return None
    actions.append(Action("accept-artifacts", "admin", call_id=call.call_id))
    return Refusal(
        "HandlerArtifactChanged",
        f"handler {name!r} is not what the call began with",
        fix=f"effectctl operations accept-artifacts {operation.operation_id} --reason TEXT",
        call_id=call.call_id,
    )


def _settling(operation: Operation, effect: Effect) -> Iterator[Action]:
    """What can settle this effect from outside, while no try of it lives."""
    unknown = effect.outcome is Said.UNKNOWN and effect.declared.contract is not Contract.NONE
    lost = evidence(effect) is Evidence.APPLIED_NO_RESULT
    if not (unknown or lost):
        return
    call_id = effect.newest.call_id
    idle = effect.reconciling is None
    dead = open_tries_dead(operation, effect) and not relaunched(operation, effect)
    if effect.declared.reconciler is not None and idle and dead:
        yield Action("reconcile", "run", call_id=call_id, effect_id=effect.effect_id)
    yield Action("resolve", "resolve", call_id=call_id, effect_id=effect.effect_id)


def _attesting(operation: Operation) -> Iterator[Action]:
    for call in operation.ordered_calls():
        for attempt in call.attempts:
            if not attempt.live and not attempt.dead:
                yield Action("attest-dead", "resolve", call_id=call.call_id, attempt=attempt.number)
    for effect in operation.ordered_effects():
        if effect.reconciling is not None and effect.reconciling.survivor:
            call_id = effect.newest.call_id
            yield Action("attest-dead", "resolve", call_id=call_id, effect_id=effect.effect_id)
