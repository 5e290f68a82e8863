"""What each verb comes to wherever an operation stands: a refusal's code, the record that says it,
a directive where nothing is written, or `again`: it is so already, and nothing changes.

A place is named by its own name, by what became of the effect or the call that is spoken of, by
kind and state, by state, by kind, or by `*`; the narrowest counts.
"""

from __future__ import annotations

from collections.abc import Mapping

# Places that several verbs meet alike: cancelled and not at rest; open and cancelled;
# and those whose newest continuation ended while a write was not settled.
_DYING = (
    "unknown and cancelled",
    "cancelled and still running",
    "program: cancelled while a call runs",
    "program: unknown and cancelled",
    "open: cancelled while a write runs",
    "open: cancelled and a write is unsettled",
)
_OPEN_CANCELLED = (
    "open cancelled",
    "open: cancelled while a write runs",
    "open: cancelled and a write is unsettled",
)
_ENDED = (
    "open: ended while a write runs",
    "open: stopped while a write runs",
    "open: restarted while a write ran",
    "open: done and a write is unsettled",
    "open: done while a write runs",
)

TABLE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "its message again": {
        "again": ("*",),
    },
    "its message with another body": {
        "RequestConflict": ("*",),
    },
    "an open message of its id": {
        "RequestConflict": ("*",),
    },
    "a program of its id": {
        "RequestConflict": ("*",),
    },
    "a session": {
        "SessionCreated": ("*",),
    },
    "cancel": {
        "CancelRequested": ("*",),
        "again": (
            "cancelled",
            "failed",
            "stopped",
            "succeeded",
            *_DYING,
        ),
    },
    "resume": {
        "NotResumable": ("*", "open interrupted"),
        "DurableResumeConflict": ("accepted", "dispatch running", "program running"),
        "CallQueued": ("interrupted", "a retry refused before it started"),
        "EffectOutcomeUnknown": ("dispatch unknown", "program unknown"),
        "CallAccepted": (
            "died after leave with a key",
            "settled as not applied after a crash",
            "held back by the last check",
            "program: restarted while a call had leave with a key",
            "program: settled as not applied after a restart",
        ),
        "ReconciliationRequired": ("died after leave and the provider can tell",),
        "OperationCancelled": _DYING,
        "EffectResultUnavailable": (
            "failed with its applied result lost",
            "program: a value was not kept",
        ),
        "CallRestored": ("settled as applied after a failure", "settled as applied after a crash"),
        "PreviousAttemptAlive": (
            "lost and not proven dead",
            "being reconciled",
            "program: a call is not proven dead",
        ),
        "RunTimeBudgetExceeded": ("program: a call was refused by the budget",),
        "ProgramEnded": ("program: settled as applied after a restart",),
        "ContinuationRefused": ("open: overtaken", "open: overtaken and open"),
    },
    "resume a stale checkpoint": {
        "DurableResumeConflict": ("*",),
    },
    "extend": {
        "BudgetExtended": ("*",),
        "NotResumable": ("cancelled", "failed", "stopped", "succeeded"),
        "OperationCancelled": _DYING,
    },
    "extend to less": {
        "InvalidInput": ("*",),
        "NotResumable": ("cancelled", "failed", "stopped", "succeeded"),
        "OperationCancelled": _DYING,
    },
    "accept artifacts": {
        "ArtifactsAccepted": ("*",),
        "NotResumable": ("cancelled", "failed", "stopped", "succeeded"),
        "OperationCancelled": _DYING,
        "again": ("open: nothing called", "open: ended by an error", "open: overtaken and open"),
    },
    "approve": {
        "NotFound": ("*",),
        "CallAccepted": ("waiting",),
        "DecisionExpired": ("program: its approval is overdue", "program: nobody approved in time"),
        "again": ("program: approved",),
        "RequestConflict": ("program: rejected",),
        "OperationCancelled": ("program: cancelled while it waits for an approval",),
        "EffectOutcomeUnknown": ("program: waits for an approval and records are lost",),
    },
    "reject": {
        "NotFound": ("*",),
        "ProgramEnded": ("waiting",),
        "DecisionExpired": ("program: its approval is overdue", "program: nobody approved in time"),
        "RequestConflict": ("program: approved",),
        "again": ("program: rejected",),
        "OperationCancelled": ("program: cancelled while it waits for an approval",),
        "EffectOutcomeUnknown": ("program: waits for an approval and records are lost",),
    },
    "approve what is no choice": {
        "NotFound": ("*",),
        "InvalidInput": ("waiting",),
        "DecisionExpired": ("program: its approval is overdue", "program: nobody approved in time"),
        "RequestConflict": ("program: approved", "program: rejected"),
        "OperationCancelled": ("program: cancelled while it waits for an approval",),
        "EffectOutcomeUnknown": ("program: waits for an approval and records are lost",),
    },
    "continue": {
        "ContinuationRefused": ("*", "open: overtaken", "open: overtaken and open"),
        "OperationCancelled": _OPEN_CANCELLED,
        "ContinuationOpened": ("open interrupted", "open running", "open unknown"),
    },
    "continue by itself": {
        "ContinuationRefused": ("*",),
        "OperationCancelled": _OPEN_CANCELLED,
        "ContinuationOpened": ("open: its time is over", "open: ended while a write runs"),
    },
    "end": {
        "ContinuationRefused": (
            "*",
            *_ENDED,
        ),
        "OperationCancelled": _OPEN_CANCELLED,
        "ContinuationEnded": ("open running", "open unknown"),
    },
    "call a write": {
        "ContinuationRefused": (
            "*",
            *_ENDED,
        ),
        "OperationCancelled": _OPEN_CANCELLED,
        "CallAccepted": ("open running",),
        "EffectOutcomeUnknown": ("open unknown",),
        "RepeatAnswered": (
            "open: a write is unsettled with a key",
            "open: continued",
            "open: settled after it was unsettled",
            "open: done in doubt and continued and settled",
        ),
        "ReconciliationRequired": ("open: a write is unsettled and the provider can tell",),
        "RunTimeBudgetExceeded": ("open: its budget is used up",),
    },
    "call a look": {
        "ContinuationRefused": (
            "*",
            *_ENDED,
        ),
        "OperationCancelled": _OPEN_CANCELLED,
        "CallAccepted": ("open running", "open unknown"),
    },
    "reconcile": {
        "NotResumable": ("*", "failed with a free effect unknown"),
        "ReconciliationRequired": (
            "its effect is announced",
            "its effect is unknown",
            "unknown and cancelled and settled",
            "program: a value was not kept",
            "open: a write is done and its result lost",
        ),
        "RunReconciler": (
            "died after leave and the provider can tell",
            "applied and succeeded with its result lost",
            "failed with its applied result lost",
            "open: a write is unsettled and the provider can tell",
        ),
        "PreviousAttemptAlive": ("being reconciled",),
    },
    "resolve as applied": {
        "EffectResolved": ("*",),
        "again": ("its effect is applied",),
        "RequestConflict": ("its effect is not_applied",),
        "NotResumable": ("failed with a free effect unknown",),
    },
    "resolve as not applied": {
        "RequestConflict": ("*",),
        "PreviousAttemptAlive": (
            "its effect is announced",
            "lost and not proven dead",
            "program: a call is not proven dead",
        ),
        "again": ("its effect is not_applied",),
        "EffectResolved": ("its effect is unknown",),
        "NotResumable": ("failed with a free effect unknown",),
    },
    "resolve at a stale revision": {
        "DurableResumeConflict": ("*",),
    },
    "ready": {
        "DurableResumeConflict": (
            "*",
            "queued when the daemon died",
            "refused before it started",
            "a retry refused before it started",
            "program: a call was refused by the budget",
            "program: restarted before its first call",
        ),
        "AttemptStarted": ("its call was never tried", "resumed and waiting for its turn"),
        "OperationCancelled": (
            "unknown and cancelled",
            "unknown and cancelled and settled",
            "cancelled before it started",
            "cancelled and still running",
            "cancelled and seen to end",
            "cancelled and died",
            "failed with something applied and cancelled",
            "program: cancelled while it waits for an approval",
            "program: cancelled while a call runs",
            "program: cancelled and a call ended",
            "program: unknown and cancelled",
            "program: abandoned",
            "open: stopped while a write runs",
            "open: cancelled while a write runs",
            "open: cancelled and a write is unsettled",
        ),
    },
    "withheld": {
        "SandboxUnavailable": ("*",),
    },
    "announced": {
        "NotFound": ("*",),
        "UndeclaredEffect": ("its call runs",),
        "EffectAnnounced": (
            "started",
            "program: its first call runs",
            "program: two branches run",
            "program: a branch waits for the budget of another",
        ),
        "OperationCancelled": (
            "cancelled and still running",
            "program: cancelled while a call runs",
            "open: stopped while a write runs",
            "open: cancelled while a write runs",
        ),
    },
    "confirmed": {
        "EffectCorrelationMismatch": (
            "*",
            "started",
            "cancelled and still running",
            "program: its first call runs",
            "program: two branches run",
            "program: a branch waits for the budget of another",
            "program: cancelled while a call runs",
        ),
        "EffectConfirmed": (
            "its call runs",
            "lost and not proven dead",
            "program: a call is not proven dead",
        ),
        "NotFound": ("its call was never tried",),
    },
    "exited": {
        "NotFound": ("*",),
        "AttemptEnded": ("its call runs",),
        "CallRefused": ("program: a branch waits for the budget of another",),
    },
    "lost": {
        "NotFound": ("*",),
        "AttemptInterrupted": ("its call runs",),
        "CallRefused": ("program: a branch waits for the budget of another",),
    },
    "proven dead": {
        "again": ("*",),
        "PreviousAttemptAlive": ("its call runs",),
        "NotFound": ("its call was never tried",),
        "DeathProven": ("lost and not proven dead", "program: a call is not proven dead"),
    },
    "reconciler ready": {
        "NotResumable": ("*", "failed with a free effect unknown"),
        "ReconciliationRequired": (
            "its effect is announced",
            "its effect is unknown",
            "unknown and cancelled and settled",
            "program: a value was not kept",
            "open: a write is done and its result lost",
        ),
        "ReconcilerStarted": (
            "died after leave and the provider can tell",
            "applied and succeeded with its result lost",
            "failed with its applied result lost",
            "open: a write is unsettled and the provider can tell",
        ),
        "PreviousAttemptAlive": ("being reconciled",),
    },
    "reconciler answered": {
        "NotFound": ("*",),
        "ReconcilerEnded": ("being reconciled",),
    },
    "reconciler proven dead": {
        "again": ("*",),
        "PreviousAttemptAlive": ("being reconciled",),
    },
    "blob lost": {
        "again": ("*",),
    },
    "time passes for approvals": {
        "again": ("*",),
        "ProgramEnded": ("program: its approval is overdue",),
    },
    "time passes": {
        "again": ("*",),
    },
    "restarted": {
        "DaemonStarted": ("*",),
    },
}
