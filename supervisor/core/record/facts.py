"""One frozen class for each fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from frozen import frozen
from supervisor.core.ids import CallId, EffectId, SessionId
from supervisor.core.record.base import OperationRecord, Record
from supervisor.core.record.values import (
    Answer,
    By,
    DeclaredEffect,
    Ending,
    Exit,
    Identity,
    Kind,
    Outcome,
    Relaunch,
    Result,
    Settler,
    Terms,
    Trigger,
    Usage,
)


@frozen
class DaemonStarted(Record):
    """A new epoch: whatever was unfinished is interrupted.

    `alive` are attempts and `asking` reconcilers (by their effect) not proven dead;
    `rollback` says what a person accepted to be forgotten, and why.
    """

    epoch: int
    boot_id: str
    version: str
    alive: tuple[tuple[CallId, int], ...] = ()
    mono: int = 0
    asking: tuple[EffectId, ...] = ()
    rollback: str = ""


@frozen
class JournalRepaired(Record):
    """An operator gave up the records at `first`..`last`, which were damaged or missing.

    What they said of anything that was not finished before them is not known any more.
    `requests` are messages that are known to have been accepted in them.
    """

    first: int
    last: int
    by: By
    reason: str
    requests: tuple[tuple[SessionId, str], ...] = ()


@frozen
class SessionCreated(Record):
    """A client made a container for its operations; `request_id` names this for its user."""

    session_id: SessionId
    request_id: str
    by: By
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])


@frozen
class OperationAccepted(OperationRecord):
    kind: Kind
    session_id: SessionId
    request_id: str
    request_digest: str
    by: By
    max_run_ms: int
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])


@frozen
class CallAccepted(OperationRecord):
    """`node` is the path of the program's node that this call, or what it retries, is of."""

    call_id: CallId
    terms: Terms
    input: Any
    timeout_ms: int
    by: By
    retry_of: CallId | None = None
    # Of an open operation: where it was asked, by which request, for exactly which input.
    continuation: int | None = None
    request_id: str = ""
    request_digest: str = ""
    input_digest: str = ""
    node: str = ""


@frozen
class CallRefused(OperationRecord):
    """A call that was accepted, or asked to go on, was not let to start."""

    call_id: CallId
    code: str
    detail: str


@frozen
class DispatchRefusedBudgetExceeded(OperationRecord):
    call_id: CallId
    active_elapsed_ms: int
    reservation_ms: int
    remaining_ms: int
    limit_value: int


@frozen
class CallQueued(OperationRecord):
    """A resume lets this call go on: as its next attempt, or as the new call it is."""

    call_id: CallId
    relaunch: Relaunch


@frozen
class CallRestored(OperationRecord):
    """A resume handed back a recorded result; nothing was started."""

    call_id: CallId


@frozen
class AttemptReserved(OperationRecord):
    call_id: CallId
    attempt: int
    reservation_ms: int
    relaunch: Relaunch
    digest: str


@frozen
class AttemptStarted(OperationRecord):
    call_id: CallId
    attempt: int
    identity: Identity
    layers: tuple[str, ...] = ()


@frozen
class EffectAnnounced(OperationRecord):
    call_id: CallId
    attempt: int
    ordinal: int
    effect_id: EffectId
    declared: DeclaredEffect
    request: Any
    request_digest: str
    handler_digest: str
    mono: int


@frozen
class EffectAnswered(OperationRecord):
    """A relaunch announced an ordinal that is applied; its recorded result was its answer."""

    call_id: CallId
    attempt: int
    ordinal: int
    effect_id: EffectId


@frozen
class AnnouncementRefused(OperationRecord):
    call_id: CallId
    attempt: int
    name: str
    code: str
    detail: str


@frozen
class EffectConfirmed(OperationRecord):
    call_id: CallId
    attempt: int
    ordinal: int
    effect_id: EffectId
    applied: bool
    settled_by: Settler
    result: Result | None = None
    reason: str = ""


@frozen
class ConfirmationDisputed(OperationRecord):
    """A handler said something else than is recorded: kept as evidence, overwrites nothing."""

    call_id: CallId
    attempt: int
    ordinal: int
    effect_id: EffectId
    applied: bool
    reason: str = ""


@frozen
class AttemptEnded(OperationRecord):
    """Seen to end, tree proven dead. `late`: exit 0 came after the deadline."""

    call_id: CallId
    attempt: int
    outcome: Outcome
    active_ms: int
    exit: Exit | None = None
    usage: Usage = attrs.field(factory=Usage)
    leftovers_killed: int = 0
    late: bool = False
    result: Result | None = None
    code: str | None = None
    detail: str = ""
    proof: str = ""
    mono: int = 0


@frozen
class AttemptInterrupted(OperationRecord):
    """Nobody saw it end (its launcher or init died); `dead` when its tree is proven dead."""

    call_id: CallId
    attempt: int
    reason: str
    dead: bool
    mono: int = 0


@frozen
class DeathProven(OperationRecord):
    """An interrupted attempt's tree is gone; `by` when an operator attests it."""

    call_id: CallId
    attempt: int
    proof: str
    by: By | None = None
    reason: str = ""
    mono: int = 0


@frozen
class CancelRequested(OperationRecord):
    by: By
    reason: str = ""


@frozen
class ResumeAccepted(OperationRecord):
    resume_request_id: str
    revision: int
    digest: str
    by: By


@frozen
class ContinuationOpened(OperationRecord):
    """An open operation takes calls. `after` is the continuation that this one follows."""

    n: int
    trigger: Trigger
    by: By
    after: int | None = None
    request_id: str = ""


@frozen
class ContinuationEnded(OperationRecord):
    """No more calls in this one. What runs goes on, unless the reason is `stop`."""

    n: int
    reason: Ending
    by: By
    mono: int = 0


@frozen
class RepeatAnswered(OperationRecord):
    """A request for a write that was asked before is answered by that write's call.

    It uses up the call's one answer in this continuation.
    """

    call_id: CallId
    continuation: int
    request_id: str
    request_digest: str
    answer: Answer
    by: By


@frozen
class BudgetExtended(OperationRecord):
    max_run_ms: int
    reason: str
    by: By


@frozen
class ArtifactsAccepted(OperationRecord):
    """An admin accepts that a handler's digest is another one than its calls began with."""

    handler: str
    digest: str
    reason: str
    by: By


@frozen
class ReconcilerStarted(OperationRecord):
    effect_id: EffectId
    revision: int
    by: By
    identity: Identity
    mono: int = 0


@frozen
class ReconcilerEnded(OperationRecord):
    """The provider's answer; `applied` is None when it could not tell: evidence only."""

    effect_id: EffectId
    applied: bool | None
    settles: bool
    result: Result | None = None
    detail: str = ""


@frozen
class ReconcilerDeathProven(OperationRecord):
    """A reconciler that outlived its daemon is gone; `by` when an operator attests it."""

    effect_id: EffectId
    proof: str
    by: By | None = None
    reason: str = ""


@frozen
class EffectResolved(OperationRecord):
    effect_id: EffectId
    applied: bool
    evidence: str
    by: By
    result: Result | None = None


@frozen
class CallResultLost(OperationRecord):
    """The blob of what the call gave is `missing` or `damaged`: nobody has the value any more."""

    call_id: CallId
    reason: str


@frozen
class EffectResultLost(OperationRecord):
    """The same of what the effect returned; who knows it may supply it, once."""

    effect_id: EffectId
    reason: str
