"""Every kind of record: a class's name in snake case is its kind on disk."""

from __future__ import annotations

import re
from collections.abc import Mapping

from supervisor.core.record.base import Record
from supervisor.core.record.facts import (
    AnnouncementRefused,
    ArtifactsAccepted,
    AttemptEnded,
    AttemptInterrupted,
    AttemptReserved,
    AttemptStarted,
    BudgetExtended,
    CallAccepted,
    CallQueued,
    CallRefused,
    CallRestored,
    CallResultLost,
    CancelRequested,
    ConfirmationDisputed,
    ContinuationEnded,
    ContinuationOpened,
    DaemonStarted,
    DeathProven,
    DispatchRefusedBudgetExceeded,
    EffectAnnounced,
    EffectAnswered,
    EffectConfirmed,
    EffectResolved,
    EffectResultLost,
    JournalRepaired,
    OperationAbandoned,
    OperationAccepted,
    OperationEvicted,
    ReconcilerDeathProven,
    ReconcilerEnded,
    ReconcilerStarted,
    RepeatAnswered,
    ResumeAccepted,
    SessionCreated,
    TombstoneExpired,
)
from supervisor.core.record.programs import (
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalRequested,
    NodeBound,
    ProgramAccepted,
    ProgramEnded,
)


def _kind(cls: type[Record]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


KINDS: Mapping[str, type[Record]] = {
    _kind(cls): cls
    for cls in (
        DaemonStarted,
        JournalRepaired,
        SessionCreated,
        OperationAccepted,
        ProgramAccepted,
        NodeBound,
        ApprovalRequested,
        ApprovalAnswered,
        ApprovalExpired,
        ProgramEnded,
        CallAccepted,
        CallRefused,
        DispatchRefusedBudgetExceeded,
        CallQueued,
        CallRestored,
        AttemptReserved,
        AttemptStarted,
        EffectAnnounced,
        EffectAnswered,
        AnnouncementRefused,
        EffectConfirmed,
        ConfirmationDisputed,
        AttemptEnded,
        AttemptInterrupted,
        DeathProven,
        CancelRequested,
        ResumeAccepted,
        ContinuationOpened,
        ContinuationEnded,
        RepeatAnswered,
        BudgetExtended,
        ArtifactsAccepted,
        OperationAbandoned,
        OperationEvicted,
        TombstoneExpired,
        ReconcilerStarted,
        ReconcilerEnded,
        ReconcilerDeathProven,
        EffectResolved,
        CallResultLost,
        EffectResultLost,
    )
}
KIND_OF: Mapping[type[Record], str] = {cls: kind for kind, cls in KINDS.items()}
