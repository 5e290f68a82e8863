"""Decisions about what clients send: sessions, and the messages that become operations."""

from __future__ import annotations

from supervisor.core.errors import Refusal
from supervisor.core.ids import OperationId
from supervisor.core.record import (
    CallAccepted,
    ContinuationOpened,
    Kind,
    OperationAccepted,
    OperationEvicted,
    Record,
    SessionCreated,
    Trigger,
)
from supervisor.core.session_state import Tombstone
from supervisor.core.state import Operation, State
from supervisor.core.step import Decision, Launch, Message, Opened, SessionAsked, Submitted, refuse


def session_asked(state: State, event: SessionAsked) -> Decision:
    """A new session; the same request of the same user names the same one."""
    known = next(
        (s for s in state.sessions.values() if s.request == (event.by.uid, event.request_id)), None
    )
    if known is not None:
        if dict(known.labels) != dict(event.labels):
            detail = f"request_id {event.request_id!r} made {known.session_id}, with other labels"
            return refuse("RequestConflict", detail)
        return Decision(session_id=known.session_id, repeated=True)
    if len(state.sessions) >= event.sessions_max:
        return refuse(
            "LimitExceeded",
            f"there are {len(state.sessions)} sessions (limits.sessions)",
            fix="Go on in one that is there, or raise the limit. A session ends by itself, "
            "tombstone_days after its last message.",
        )
    created = SessionCreated(
        event.now.wall, event.session_id, event.request_id, event.by, event.labels
    )
    return Decision((created,), session_id=event.session_id)


def submitted(state: State, event: Submitted) -> Decision:
    """One call as one operation."""
    begun = begin(state, event, Kind.DISPATCH)
    if isinstance(begun, Decision):
        return begun
    call = CallAccepted(
        at=event.now.wall,
        operation_id=event.operation_id,
        call_id=event.call_id,
        terms=event.terms,
        input=event.input,
        timeout_ms=event.timeout_ms,
        by=event.by,
    )
    launch = Launch(event.call_id)
    return Decision((*begun, call), (launch,), operation_id=event.operation_id)


def opened(state: State, event: Opened) -> Decision:
    """An open operation, with its first continuation."""
    begun = begin(state, event, Kind.OPEN)
    if isinstance(begun, Decision):
        return begun
    first = ContinuationOpened(event.now.wall, event.operation_id, 0, Trigger.MESSAGE, event.by)
    return Decision((*begun, first), operation_id=event.operation_id)


def begin(state: State, event: Message, kind: Kind) -> tuple[Record, ...] | Decision:
    """The records that begin a new operation; or what is said of this message instead."""
    message = (event.session_id, event.request_id)
    known = state.messages.get(message)
    if known is not None:
        return _same_message(state.operations[known], event)
    gone = state.tombstones.of(message)
    if gone is not None:
        expired_one = evicted_refusal(gone, event.request_id, event.request_digest)
        return Decision(refusal=_no_session(state, event) or expired_one)
    refusal = _lost(state, event) or _no_session(state, event) or _too_many(state, event)
    if refusal is not None:
        return Decision(refusal=refusal)
    evicted: tuple[Record, ...] = ()
    if len(state.operations) >= event.operations_kept:
        oldest = state.finished.oldest
        if oldest is None:
            detail = f"{len(state.operations)} operations, none of which may go (operations_kept)"
            return refuse("LimitExceeded", detail)
        evicted = (OperationEvicted(event.now.wall, oldest),)
    accepted = OperationAccepted(
        at=event.now.wall,
        operation_id=event.operation_id,
        kind=kind,
        session_id=event.session_id,
        request_id=event.request_id,
        request_digest=event.request_digest,
        by=event.by,
        max_run_ms=event.max_run_ms,
        labels=event.labels,
    )
    return (*evicted, accepted)


def _lost(state: State, event: Message) -> Refusal | None:
    lost = state.forgotten.get((event.session_id, event.request_id))
    if lost is None:
        return None
    return Refusal(
        "EffectOutcomeUnknown",
        f"request_id {event.request_id!r} was accepted, and the journal lost what it did "
        f"(from position {lost})",
        fix="Look at the provider; ask with another request_id for what is really missing.",
    )


def _no_session(state: State, event: Message) -> Refusal | None:
    if state.has_session(event.session_id):
        return None
    return Refusal("NotFound", f"there is no session {event.session_id}")


def _too_many(state: State, event: Message) -> Refusal | None:
    unfinished = state.unfinished.get(event.session_id, 0)
    if unfinished < event.operations_max:
        return None
    return Refusal(
        "LimitExceeded",
        f"{unfinished} unfinished operations in this session (operations_per_session)",
    )


def _same_message(known: Operation, event: Message) -> Decision:
    if known.request_digest != event.request_digest:
        return Decision(refusal=_another_body(known, event.request_id))
    return Decision(operation_id=known.operation_id, repeated=True)


def evicted_refusal(known: Tombstone, request_id: str, request_digest: str) -> Refusal:
    """What is answered to the message of an evicted operation: it never runs again."""
    if known.request_digest != request_digest:
        return _another_body(known, request_id)
    return expired(known.operation_id)


def expired(operation_id: OperationId) -> Refusal:
    """What is said of an evicted operation, for as long as its tombstone stays."""
    return Refusal("OperationExpired", f"{operation_id} was evicted, and never runs again")


def _another_body(known: Operation | Tombstone, request_id: str) -> Refusal:
    detail = f"request_id {request_id!r} belongs to {known.operation_id}, with another body"
    return Refusal("RequestConflict", detail)
