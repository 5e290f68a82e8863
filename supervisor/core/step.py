"""What can happen, what it leads to, and what is then to be done: values.

Inputs are what happened; directives are imperatives for the shell, which carries them
out only when the decision's records are durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from frozen import frozen
from supervisor.core.errors import Refusal
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId
from supervisor.core.moment import Moment
from supervisor.core.record import (
    By,
    Ending,
    Exit,
    Identity,
    Outcome,
    Reconciler,
    Record,
    Relaunch,
    Result,
    Settler,
    Terms,
    Trigger,
    Usage,
)


@frozen
class Input:
    now: Moment


@frozen
class Restarted(Input):
    """`alive` and `asking` are the attempts and reconcilers that could not be proven dead;
    `rollback` says what an accepted roll-back forgets and why."""

    epoch: int
    version: str
    alive: frozenset[tuple[CallId, int]] = frozenset()
    asking: frozenset[EffectId] = frozenset()
    rollback: str = ""


@frozen
class SessionAsked(Input):
    """A client asks for a container of its operations; `session_id` is made by the shell."""

    session_id: SessionId
    request_id: str
    by: By
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])
    sessions_max: int = 1_000


@frozen(kw_only=True)
class Message(Input):
    """A client asks for one operation, under an id that names it for ever in its session.

    Our ids are made by the shell beforehand.
    """

    operation_id: OperationId
    session_id: SessionId
    request_id: str
    request_digest: str
    by: By
    max_run_ms: int
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])
    operations_max: int = 10_000
    operations_kept: int = 200_000


@frozen(kw_only=True)
class Submitted(Message):
    """One call as one operation: a dispatch."""

    call_id: CallId
    terms: Terms
    input: Any
    timeout_ms: int


@frozen(kw_only=True)
class Opened(Message):
    """An operation whose calls its client decides one by one."""


@frozen
class Ready(Input):
    """A slot is taken and a sandbox waits at its gate: may the attempt be made?"""

    call_id: CallId
    digest: str
    identity: Identity
    layers: tuple[str, ...]
    margin_ms: int
    effect_id: EffectId


@frozen
class Withheld(Input):
    """A queued call cannot start: no sandbox, no handler, no authority."""

    call_id: CallId
    refusal: Refusal


@frozen
class Announced(Input):
    call_id: CallId
    attempt: int
    name: str
    request: Any
    request_digest: str
    effect_id: EffectId
    closed: str | None = None


@frozen
class Confirmed(Input):
    call_id: CallId
    attempt: int
    ordinal: int
    applied: bool
    result: Result | None = None
    reason: str = ""
    settled_by: Settler = Settler.HANDLER


@frozen
class Exited(Input):
    """The attempt's tree is proven dead and fd 3 is read to its end.

    `value` is what the handler printed or sent; `code` says why it was cut off.
    """

    call_id: CallId
    attempt: int
    outcome: Outcome
    active_ms: int
    exit: Exit | None = None
    usage: Usage = attrs.field(factory=Usage)
    leftovers_killed: int = 0
    value: Result | None = None
    code: str | None = None
    detail: str = ""
    proof: str = "record"


@frozen
class Lost(Input):
    call_id: CallId
    attempt: int
    reason: str
    dead: bool


@frozen
class ProvenDead(Input):
    call_id: CallId
    attempt: int
    proof: str
    by: By | None = None
    reason: str = ""


@frozen
class ReconcilerProvenDead(Input):
    effect_id: EffectId
    proof: str
    by: By | None = None
    reason: str = ""


@frozen
class CancelAsked(Input):
    operation_id: OperationId
    by: By
    reason: str


@frozen
class ResumeAsked(Input):
    operation_id: OperationId
    by: By
    resume_request_id: str
    revision: int
    digest: str
    new_call_id: CallId
    margin_ms: int


@frozen
class CallAsked(Input):
    """A call of an open operation; `continuation` is the one that it is meant for, if it says.

    `call_id` is made by the shell, for a call that has to be made.
    """

    operation_id: OperationId
    call_id: CallId
    by: By
    request_id: str
    request_digest: str
    terms: Terms
    input: Any
    timeout_ms: int
    margin_ms: int
    continuation: int | None = None


@frozen
class ContinueAsked(Input):
    """Open the continuation after that one."""

    operation_id: OperationId
    by: By
    trigger: Trigger
    after: int
    request_id: str


@frozen
class EndAsked(Input):
    """End the open continuation, for a reason that is a client's to give."""

    operation_id: OperationId
    by: By
    n: int
    reason: Ending


@frozen
class ExtendAsked(Input):
    operation_id: OperationId
    by: By
    max_run_ms: int
    reason: str


@frozen
class ArtifactsAsked(Input):
    """Accept the digests that the handlers named here have now."""

    operation_id: OperationId
    by: By
    digests: Mapping[str, str]
    reason: str


@frozen
class ReconcileAsked(Input):
    """May the reconciler of this effect run? Answered by RunReconciler, nothing is written."""

    effect_id: EffectId


@frozen
class ReconcilerReady(Input):
    effect_id: EffectId
    by: By
    identity: Identity


@frozen
class ReconcilerAnswered(Input):
    effect_id: EffectId
    applied: bool | None
    result: Result | None = None
    detail: str = ""


@frozen
class ResolveAsked(Input):
    effect_id: EffectId
    by: By
    applied: bool
    evidence: str
    if_revision: int | None
    result: Result | None = None


@frozen
class BlobLost(Input):
    """A blob that results of the operation are kept in is `missing` or `damaged`."""

    operation_id: OperationId
    digest: str
    reason: str


@frozen
class TimePassed(Input):
    """Is anything kept too long? Asked again until nothing is left to do."""

    operations_kept: int
    finished_days: int
    tombstone_days: int
    abandon_days: int


# --- what is to be done -----------------------------------------------------------------


@frozen
class Launch:
    """Take a slot, prepare a sandbox, come back with Ready."""

    call_id: CallId


@frozen
class OpenGate:
    """The attempt is durable: check what may have changed, then let the handler run."""

    call_id: CallId
    attempt: int
    timeout_ms: int
    relaunch: Relaunch
    effect_id: EffectId | None


@frozen
class GiveLeave:
    ordinal: int
    effect_id: EffectId


@frozen
class AnswerApplied:
    ordinal: int
    result: Result


@frozen
class RefuseAnnouncement:
    """`ends` says that the attempt is to be ended as well."""

    refusal: Refusal
    ends: bool = False


@frozen
class SayRecorded:
    ordinal: int


@frozen
class EndAttempt:
    call_id: CallId
    attempt: int


@frozen
class RunReconciler:
    effect_id: EffectId
    reconciler: Reconciler
    revision: int


Directive = (
    Launch
    | OpenGate
    | GiveLeave
    | AnswerApplied
    | RefuseAnnouncement
    | SayRecorded
    | EndAttempt
    | RunReconciler
)


@frozen
class Decision:
    """One decision is one frame. `outcome` marks facts that may use the reserved room."""

    records: tuple[Record, ...] = ()
    directives: tuple[Directive, ...] = ()
    refusal: Refusal | None = None
    outcome: bool = False
    operation_id: OperationId | None = None
    session_id: SessionId | None = None
    repeated: bool = False
    # It may not start now, and may when a sibling has ended.
    waits: bool = False
    # The same without what a program does next: what is decided when that does not fit.
    instead: Decision | None = None


def refuse(code: str, detail: str, **members: Any) -> Decision:
    return Decision(refusal=Refusal(code, detail, **members))
