"""What the records add up to: values only. `evolve` makes them, `standing` reads them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from immutables import Map

from frozen import frozen
from supervisor.core.budget import Budget
from supervisor.core.catalogue import Catalogue
from supervisor.core.changed import changed
from supervisor.core.filed import Message
from supervisor.core.found import Found, InLine
from supervisor.core.ids import (
    AttemptKey,
    CallId,
    EffectId,
    OperationId,
    SessionId,
    is_default_session,
)
from supervisor.core.line import Line
from supervisor.core.open_state import Asked, Continuation
from supervisor.core.operations import Operations
from supervisor.core.ordered import Ordered
from supervisor.core.program_state import ProgramState
from supervisor.core.record import (
    Blob,
    By,
    DeclaredEffect,
    Exit,
    Identity,
    Kind,
    Outcome,
    Relaunch,
    Result,
    Settler,
    Terms,
    Usage,
)
from supervisor.core.session_state import Session
from supervisor.core.tally import Tally
from supervisor.core.tombstones import Tombstones


class Phase(enum.Enum):
    RESERVED = "reserved"
    STARTED = "started"
    ENDED = "ended"
    INTERRUPTED = "interrupted"


LIVE = frozenset({Phase.RESERVED, Phase.STARTED})


@frozen
class Attempt:
    number: int
    reservation_ms: int
    relaunch: Relaunch
    digest: str
    at: int
    phase: Phase = Phase.RESERVED
    identity: Identity | None = None
    layers: tuple[str, ...] = ()
    announced: int = 0
    outcome: Outcome | None = None
    active_ms: int | None = None
    exit: Exit | None = None
    usage: Usage = attrs.field(factory=Usage)
    leftovers_killed: int = 0
    late: bool = False
    code: str | None = None
    detail: str = ""
    dead: bool = False
    ended_at: int | None = None
    ended_mono: int = 0
    ended_boot: str = ""

    @property
    def live(self) -> bool:
        return self.phase in LIVE


class Said(enum.Enum):
    """What is known of one try of an effect."""

    ANNOUNCED = "announced"
    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"


UNSETTLED = frozenset({Said.ANNOUNCED, Said.UNKNOWN})


@frozen
class Try:
    call_id: CallId
    attempt: int
    outcome: Said = Said.ANNOUNCED
    settled_by: Settler | None = None
    reason: str = ""

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.call_id, self.attempt)


@frozen
class Reconciling:
    """A reconciler that is running: bound to the revision it was started on.

    A `survivor` outlived its daemon and is not proven dead: nobody hears its answer.
    """

    revision: int
    at: int
    mono: int
    identity: Identity
    survivor: bool = False


@frozen
class Effect:
    """One change in the outside world, over all the tries of its lineage."""

    effect_id: EffectId
    ordinal: int
    declared: DeclaredEffect
    request: Any
    request_digest: str
    handler_digest: str
    first_at: int
    first_mono: int
    boot_id: str
    tries: tuple[Try, ...] = ()
    result: Result | None = None
    revision: int = 0
    reconciling: Reconciling | None = None
    disputes: int = 0
    evidence_note: str = ""

    @property
    def newest(self) -> Try:
        return self.tries[-1]

    @property
    def outcome(self) -> Said:
        said = {one.outcome for one in self.tries}
        for first in (Said.APPLIED, Said.ANNOUNCED, Said.UNKNOWN):
            if first in said:
                return first
        return Said.NOT_APPLIED

    @property
    def settled_by(self) -> Settler | None:
        outcome = self.outcome
        return next((t.settled_by for t in reversed(self.tries) if t.outcome is outcome), None)

    @property
    def result_lost(self) -> bool:
        """It was applied, and what it returned is not known."""
        known = self.result is not None and self.result.available
        return self.outcome is Said.APPLIED and not known

    def moved(self) -> Effect:
        """One more record names it: an answer bound to the old revision is stale."""
        return changed(self, revision=self.revision + 1)

    def settle(self, which: Callable[[Try], bool], **changes: Any) -> Effect:
        tries = tuple(changed(t, **changes) if which(t) else t for t in self.tries)
        return changed(self, tries=tries)

    def with_result(self, applied: bool, result: Result | None) -> Effect:
        """Attach a result; a value, once given, is never replaced."""
        if not applied or not self.result_lost or (result is None and self.result is not None):
            return self
        return changed(self, result=result or Result(unavailable="missing"))


@frozen
class Call:
    call_id: CallId
    root: CallId
    terms: Terms
    input: Any
    timeout_ms: int
    by: By
    at: int
    retry_of: CallId | None = None
    retried_by: CallId | None = None
    attempts: tuple[Attempt, ...] = ()
    queued: Relaunch | None = None
    refused: str | None = None
    refused_detail: str = ""
    result: Result | None = None
    restored: bool = False
    # Of an open operation: where it was asked, for which input, and the last continuation in
    # which it answered a repeat. The first call of a lineage keeps the last two for all of it.
    continuation: int | None = None
    input_digest: str = ""
    answered_in: int | None = None
    # Its continuation was stopped: no leave, and no attempt, is given any more.
    stopped: bool = False
    node: str = ""

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def live(self) -> Attempt | None:
        last = self.last
        return last if last is not None and last.live else None

    @property
    def moves(self) -> bool:
        """It has a live attempt or a place in the queue."""
        return self.queued is not None or self.live is not None

    @property
    def succeeded(self) -> bool:
        return self.restored or any(a.outcome is Outcome.SUCCEEDED or a.late for a in self.attempts)


# One for all: an operation has several of which nothing is in most.
_NOTHING: Map[Any, Any] = Map()
_NO_TALLY = Tally()


@frozen
class Operation:
    operation_id: OperationId
    serial: int
    kind: Kind
    session_id: SessionId
    request_id: str
    request_digest: str
    by: By
    at: int
    budget: Budget
    epoch: int
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])
    authority: By | None = None
    calls: Map[CallId, Call] = _NOTHING
    call_order: tuple[CallId, ...] = ()
    effects: Map[EffectId, Effect] = _NOTHING
    lineages: Map[CallId, tuple[EffectId, ...]] = _NOTHING
    cancel_requested: bool = False
    cancel_reason: str = ""
    interrupted: bool = False
    finished: bool = False
    resumes: Map[str, tuple[int, str]] = _NOTHING
    accepted_digests: Map[str, frozenset[str]] = _NOTHING
    # Of an open operation: its continuations; what was asked for, by request id; its writes, by
    # the digest of their input; and the open operations before and after it in its session.
    continuations: tuple[Continuation, ...] = ()
    requests: Map[str, Asked] = _NOTHING
    writes: Map[str, tuple[CallId, ...]] = _NOTHING
    follows: OperationId | None = None
    followed_by: OperationId | None = None
    revision: int = 0
    position: int = 0
    updated_at: int = 0
    # The positions of records that a repair gave up while this was unfinished; () if none.
    lost: tuple[int, ...] = ()
    program: ProgramState | None = None
    tally: Tally = _NO_TALLY

    def lineage(self, call: Call) -> tuple[Effect, ...]:
        """The known effects of the call's lineage, by ordinal."""
        return tuple(self.effects[one] for one in self.lineages.get(call.root, ()))

    def ordered_calls(self) -> Iterator[Call]:
        return (self.calls[call_id] for call_id in self.call_order)

    def ordered_effects(self) -> Iterator[Effect]:
        """By call and ordinal. The map's own order is another one in every process."""
        roots = (self.lineages.get(call_id, ()) for call_id in self.call_order)
        return (self.effects[one] for lineage in roots for one in lineage)

    def blobs(self) -> Iterator[Blob]:
        """The blob of each result that is in one; one that several name comes several times."""
        for one in (*self.calls.values(), *self.effects.values()):
            if one.result is not None and one.result.blob is not None:
                yield one.result.blob

    def moving_calls(self) -> Iterator[Call]:
        """Those that have a live attempt or a place in the queue, by id."""
        return (self.calls[call_id] for call_id in sorted(self.tally.moving))

    def tries(self, call: Call) -> Iterator[Call]:
        """The calls of its lineage: the first, and each that retries the one before."""
        one: CallId | None = call.root
        while one is not None:
            known = self.calls[one]
            yield known
            one = known.retried_by

    def newest(self, call: Call) -> Call:
        """The last call of the chain that retries this one."""
        while call.retried_by is not None:
            call = self.calls[call.retried_by]
        return call

    @property
    def continuation(self) -> Continuation | None:
        """The one that is open."""
        newest = self.continuations[-1] if self.continuations else None
        return newest if newest is not None and newest.reason is None else None

    @property
    def requester(self) -> By:
        """Whose authority counts: the newest request's."""
        return self.authority or self.by


@attrs.frozen(slots=False, eq=False)  # there is one, copied several times a record (see changed.py)
class State:
    """The fold of everything queued; nothing else is ever consulted.

    Of the finished operations those are *loose* that no snapshot has filed; the others are found
    by what their drawers have. Equal are two that have equal operations, filed or not.
    """

    epoch: int = 0
    boot_id: str = ""
    position: int = 0
    # The latest wall time that any record carries.
    latest: int = 0
    accepted: int = 0
    sessions: Map[SessionId, Session] = attrs.field(factory=Map[SessionId, Session])
    operations: Operations = attrs.field(factory=Operations)
    # What finds the loose ones of the operations above; `tombstones` finds its own.
    loose_messages: Map[Message, OperationId] = attrs.field(factory=Map[Message, OperationId])
    loose_calls: Map[CallId, OperationId] = attrs.field(factory=Map[CallId, OperationId])
    loose_effects: Map[EffectId, OperationId] = attrs.field(factory=Map[EffectId, OperationId])
    loose_numbers: Map[int, OperationId] = attrs.field(factory=Map[int, OperationId])
    # Messages that were accepted in records that are lost, and the first of those positions.
    forgotten: Map[Message, int] = attrs.field(factory=Map[Message, int])
    # Calls with a live attempt or a place in the queue, and tries that have leave and no
    # confirmation: what a restart interrupts, and what needs room on disk for its end.
    moving: Map[CallId, OperationId] = attrs.field(factory=Map[CallId, OperationId])
    leaves: int = 0
    reconciling: Map[EffectId, OperationId] = attrs.field(factory=Map[EffectId, OperationId])
    undead: Map[AttemptKey, OperationId] = attrs.field(factory=Map[AttemptKey, OperationId])
    # Operations with an open continuation: what a restart ends. And the newest open operation
    # of each session, while it is kept.
    continued: Map[OperationId, int] = attrs.field(factory=Map[OperationId, int])
    newest_open: Map[SessionId, OperationId] = attrs.field(factory=Map[SessionId, OperationId])
    # Operations whose program waits for an approval.
    approvals: Map[OperationId, str] = attrs.field(factory=Map[OperationId, str])
    # How many operations of each session are not finished: what its limit counts.
    unfinished: Map[SessionId, int] = attrs.field(factory=Map[SessionId, int])
    # The loose ones that may be evicted, and those that may be abandoned: the one that no record
    # has been about for longest comes first.
    loose_finished: Line = attrs.field(factory=Line)
    interrupted: Line = attrs.field(factory=Line)
    # How many results of kept calls and effects are in each blob, by its digest.
    blobs: Map[str, int] = attrs.field(factory=Map[str, int])
    # What is left of evicted ones, in the order in which they went.
    tombstones: Tombstones = attrs.field(factory=Tombstones)
    # What lists find the operations by.
    catalogue: Catalogue = attrs.field(factory=Catalogue)

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # 3.12 has it
        if not isinstance(other, State):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]  # it is compared, and never a key

    def has_session(self, session_id: SessionId) -> bool:
        """Everybody's default session is there without being created, and never ends."""
        return is_default_session(session_id) or session_id in self.sessions

    @property
    def calls(self) -> Found[CallId]:
        filed = self.operations.filed
        return Found(self.loose_calls, filed.with_call, filed.calls)

    @property
    def effects(self) -> Found[EffectId]:
        filed = self.operations.filed
        return Found(self.loose_effects, filed.with_effect, filed.effects)

    @property
    def messages(self) -> Found[Message]:
        filed = self.operations.filed
        return Found(self.loose_messages, filed.of_message, filed.messages)

    @property
    def finished(self) -> InLine:
        """Those that may be evicted."""
        return InLine(self.loose_finished, self.operations.filed)

    def newest(
        self, wanted: Iterable[Sequence[Ordered]], below: int | None = None
    ) -> Iterator[OperationId]:
        """Those that are in one set of each group of the catalogue's, newest first; `below` is a
        serial."""
        for serial in self.catalogue.newest(wanted, below):
            one = self.loose_numbers.get(serial) or self.operations.filed.numbered(serial)
            assert one is not None, serial
            yield one

    def operation_of(self, call_id: CallId) -> Operation:
        return self.operations[self.calls[call_id]]

    def call(self, call_id: CallId) -> Call:
        return self.operation_of(call_id).calls[call_id]

    def effect(self, effect_id: EffectId) -> Effect:
        return self.operations[self.effects[effect_id]].effects[effect_id]


_LOOSE = {"loose_messages", "loose_calls", "loose_effects", "loose_numbers", "loose_finished"}
_COMPARED = (
    *(one.name for one in attrs.fields(State) if one.name not in _LOOSE),
    *("messages", "calls", "effects", "finished"),
)
