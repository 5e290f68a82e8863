"""From what just happened to what to write down, and then do.

Pure: `decide(state, input)` returns records, directives and perhaps a refusal. The caller
folds the records into its state in the same turn, makes them durable, and only then
carries out the directives; that order is the whole of the crash-safety argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supervisor.core.decide import (
    attempt,
    effect,
    message,
    operation,
    program,
    results,
    retention,
    settle,
)
from supervisor.core.decide import open as open_
from supervisor.core.decide.onward import onward
from supervisor.core.state import State
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
    refuse,
)
from supervisor.core.step_programs import ApprovalAsked, ApprovalsTimePassed, ProgramSubmitted

# What is said of a call that must be there, and of an effect. Others bring ids of their own.
_OF_ATTEMPTS = (Exited, Lost, ProvenDead, Announced, Confirmed)
_OF_CALLS = (Ready, Withheld, *_OF_ATTEMPTS)
_OF_EFFECTS = (
    *(ReconcileAsked, ReconcilerReady, ReconcilerAnswered, ReconcilerProvenDead),
    ResolveAsked,
)
_OF_OPERATIONS = (
    *(CancelAsked, ResumeAsked, ExtendAsked, ArtifactsAsked),
    *(CallAsked, ContinueAsked, EndAsked, ApprovalAsked, BlobLost),
)

_DECIDERS: dict[type[Input], Callable[[State, Any], Decision]] = {
    Restarted: operation.restarted,
    SessionAsked: message.session_asked,
    Submitted: message.submitted,
    Opened: message.opened,
    ProgramSubmitted: program.submitted,
    ApprovalAsked: program.approval_asked,
    ApprovalsTimePassed: program.approvals_time_passed,
    CancelAsked: operation.cancel_asked,
    ResumeAsked: operation.resume_asked,
    ExtendAsked: operation.extend_asked,
    ArtifactsAsked: operation.artifacts_asked,
    ContinueAsked: open_.continue_asked,
    EndAsked: open_.end_asked,
    CallAsked: open_.call_asked,
    Ready: attempt.ready,
    Withheld: attempt.withheld,
    Exited: attempt.exited,
    Lost: attempt.lost,
    ProvenDead: attempt.proven_dead,
    Announced: effect.announced,
    Confirmed: effect.confirmed,
    ReconcileAsked: settle.reconcile_asked,
    ReconcilerReady: settle.reconciler_ready,
    ReconcilerAnswered: settle.reconciler_answered,
    ReconcilerProvenDead: settle.reconciler_proven_dead,
    ResolveAsked: settle.resolve_asked,
    BlobLost: results.blob_lost,
    TimePassed: retention.time_passed,
}


def decide(state: State, event: Input) -> Decision:
    """What follows. Of what was evicted while somebody was busy with it: NotFound."""
    if isinstance(event, _OF_CALLS) and event.call_id not in state.calls:
        return refuse("NotFound", f"there is no call {event.call_id}")
    if isinstance(event, _OF_ATTEMPTS) and not _tried(state, event):
        return refuse("NotFound", f"{event.call_id} has no attempt {event.attempt}")
    if isinstance(event, _OF_EFFECTS) and event.effect_id not in state.effects:
        return refuse("NotFound", f"there is no effect {event.effect_id}")
    if isinstance(event, _OF_OPERATIONS) and event.operation_id not in state.operations:
        return refuse("NotFound", f"there is no operation {event.operation_id}")
    return onward(state, event, _DECIDERS[type(event)](state, event))


def _tried(state: State, event: Exited | Lost | ProvenDead | Announced | Confirmed) -> bool:
    return 0 <= event.attempt < len(state.call(event.call_id).attempts)


__all__ = ["decide"]
