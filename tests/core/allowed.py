"""Nothing is stuck: what a projection offers is accepted, what it does not offer is refused as it
says, and whatever is not finished runs or can be led on. Of any state, however it came about."""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.decide import decide
from supervisor.core.ids import CallId
from supervisor.core.moment import Moment
from supervisor.core.projection import Action, Projection, project
from supervisor.core.record import By, Kind, Trigger
from supervisor.core.standing import TERMINAL, OperationState, Waits, operation_state, waits_for
from supervisor.core.state import Operation, State
from supervisor.core.step import (
    ArtifactsAsked,
    CancelAsked,
    ContinueAsked,
    ExtendAsked,
    Input,
    ProvenDead,
    ReconcileAsked,
    ReconcilerProvenDead,
    ResolveAsked,
    ResumeAsked,
)
from supervisor.core.step_programs import ApprovalAsked, ApprovalsTimePassed

BY = By(0, 1)
# What somebody can do that is not giving up.
LEADING = {"resume", "continue", "approve", "reconcile", "resolve", "attest-dead"}


def offered(operation: Operation, now: Moment) -> Projection:
    """As it is shown while no handler has changed."""
    digests = {c.terms.handler: c.terms.digest for c in operation.ordered_calls()}
    return project(operation, now, margin_ms=0, digests=digests)


def is_honest(
    state: State, operation: Operation, now: Moment, *, refusals: bool = True
) -> Projection:
    """The projection, after every action was tried on this state: with `refusals` also those that
    it does not offer."""
    found = offered(operation, now)
    assert found.state is operation_state(operation)
    for action in found.actions:
        decision = decide(state, asked(operation, action, now))
        assert decision.refusal is None, f"{action} is offered, and {decision.refusal}"
    codes = {one.code for one in found.refusals}
    for action in _not_offered(operation, found) if refusals else ():
        decision = decide(state, asked(operation, action, now))
        if decision.repeated:
            continue  # it is so already
        assert decision.refusal is not None, f"{action} is not offered, and accepted"
        if _says_why(operation, action) and operation_state(operation) not in TERMINAL:
            assert decision.refusal.code in codes, f"{action}: {decision.refusal}, not {codes}"
    return found


def _not_offered(operation: Operation, found: Projection) -> Iterator[Action]:
    """Of those that only a projection can call for. An operator may state what became of an effect
    also while nobody needs that, and an admin accept a change before it is met."""
    known = {(one.action, one.call_id, one.attempt, one.effect_id) for one in found.actions}
    simple = {one.action for one in found.actions}
    for name in ("resume", "continue", "cancel", "extend"):
        if name not in simple:
            yield Action(name, "")
    if operation.program is not None and "approve" not in simple:
        for node in operation.program.approvals:
            yield Action("approve", "", node=node)
    for effect in operation.ordered_effects():
        one = Action("reconcile", "", call_id=effect.newest.call_id, effect_id=effect.effect_id)
        if ("reconcile", one.call_id, None, one.effect_id) not in known:
            yield one
    for call in operation.ordered_calls():
        for attempt in call.attempts:
            if ("attest-dead", call.call_id, attempt.number, None) not in known:
                yield Action("attest-dead", "", call_id=call.call_id, attempt=attempt.number)


def _says_why(operation: Operation, action: Action) -> bool:
    going_on = "continue" if operation.kind is Kind.OPEN else "resume"
    pending = operation.program is not None and operation.program.pending
    asked_of = pending and pending.node == action.node
    return action.action in {"resume", going_on} or (action.action == "approve" and bool(asked_of))


def asked(operation: Operation, action: Action, now: Moment) -> Input:
    """The request that the action stands for."""
    one, call_id = operation.operation_id, CallId(action.call_id or "")
    match action.action:
        case "resume":
            pinned = (operation.revision, checkpoint_digest(operation))
            return ResumeAsked(now, one, BY, "new", *pinned, CallId("call_new"), 0)
        case "cancel":
            return CancelAsked(now, one, BY, "")
        case "extend":
            return ExtendAsked(now, one, BY, operation.budget.max_run_ms + 1, "")
        case "reconcile":
            assert action.effect_id is not None
            return ReconcileAsked(now, action.effect_id)
        case "resolve":
            assert action.effect_id is not None
            revision = operation.effects[action.effect_id].revision
            return ResolveAsked(now, action.effect_id, BY, True, "seen", revision)
        case "attest-dead" if action.effect_id is not None:
            return ReconcilerProvenDead(now, action.effect_id, "attested", BY)
        case "attest-dead":
            assert action.attempt is not None
            return ProvenDead(now, call_id, action.attempt, "attested", BY)
        case "continue":
            after = max(len(operation.continuations) - 1, 0)
            return ContinueAsked(now, one, BY, Trigger.MANUAL, after, "new")
        case "approve":
            assert operation.program is not None
            assert action.node is not None
            choice = operation.program.approvals[action.node].choices[0]
            return ApprovalAsked(now, one, action.node, choice, "", BY)
        case "accept-artifacts":
            return ArtifactsAsked(now, one, BY, {"h0": "d2"}, "")
    raise AssertionError(action)


def leads_on(state: State, operation: Operation, found: Projection, now: Moment) -> bool:
    """It is finished, or moves, or it is its client's turn, or somebody or time ends the wait."""
    standing = operation_state(operation)
    if standing in TERMINAL:
        return True
    if operation.lost:
        return True  # nobody can say what stood in the records that a repair gave up
    if standing in {OperationState.RUNNING, OperationState.ACCEPTED}:
        moves = any(one in state.moving for one in operation.call_order)
        return moves or operation.continuation is not None
    actions = {action.action for action in found.actions}
    exhausted = any(one.code == "RunTimeBudgetExceeded" for one in found.refusals)
    asks = any(effect.reconciling is not None for effect in operation.effects.values())
    # A later message came instead of a continuation, and nothing is unresolved: it goes.
    left = operation.kind is Kind.OPEN and waits_for(operation) is Waits.ABANDONMENT
    overdue = standing is OperationState.WAITING and _expires(state, now)
    return bool(LEADING & actions) or asks or left or overdue or (exhausted and "extend" in actions)


def _expires(state: State, now: Moment) -> bool:
    return bool(decide(state, ApprovalsTimePassed(now)).records)


def nothing_is_stuck(state: State, now: Moment) -> None:
    for operation in state.operations.values():
        found = is_honest(state, operation, now)
        assert leads_on(state, operation, found, now), f"{operation.operation_id} is stuck"
