"""From what just happened to what to write down, and then do.

Pure: `decide(state, input)` returns records, directives and perhaps a refusal. The caller
folds the records into its state in the same turn, makes them durable, and only then
carries out the directives; that order is the whole of the crash-safety argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supervisor.core.decide import attempt, effect, operation, retention, settle
from supervisor.core.state import State
from supervisor.core.step import (
    Announced,
    ArtifactsAsked,
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
    TimePassed,
    Withheld,
)

_DECIDERS: dict[type[Input], Callable[[State, Any], Decision]] = {
    Restarted: operation.restarted,
    Submitted: operation.submitted,
    CancelAsked: operation.cancel_asked,
    ResumeAsked: operation.resume_asked,
    ExtendAsked: operation.extend_asked,
    ArtifactsAsked: operation.artifacts_asked,
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
    TimePassed: retention.time_passed,
}


def decide(state: State, event: Input) -> Decision:
    return _DECIDERS[type(event)](state, event)


__all__ = ["decide"]
