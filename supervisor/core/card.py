"""Cards: what an operation is found by, whatever becomes of the rest of it."""

from __future__ import annotations

from frozen import frozen
from supervisor.core.catalogue import UNRESOLVED
from supervisor.core.ids import CallId, EffectId, OperationId, SessionId
from supervisor.core.record import Kind
from supervisor.core.standing import operation_state
from supervisor.core.state import Operation, Said

# What of a tally's counts a list asks for: whether there is one.
_COUNTED = (*(one.value for one in Said), UNRESOLVED)


@frozen
class Standing:
    """What an operation is found by that ever changes; the defaults are those of none."""

    state: str = ""
    handlers: tuple[str, ...] = ()
    # The words of those outcomes that an effect of it has; and UNRESOLVED.
    outcomes: tuple[str, ...] = ()


@frozen
class Card:
    operation_id: OperationId
    serial: int
    session_id: SessionId
    request_id: str
    request_digest: str
    uid: int
    updated_at: int
    standing: Standing
    # It is an open operation, and the newest of its session.
    newest: bool = False
    calls: tuple[CallId, ...] = ()
    effects: tuple[EffectId, ...] = ()
    # The digest of each result that is in a blob, as often as it is.
    blobs: tuple[str, ...] = ()


def standing_of(operation: Operation) -> Standing:
    tally = operation.tally
    outcomes = tuple(one for one in _COUNTED if getattr(tally, one))
    return Standing(operation_state(operation).value, tally.handlers, outcomes)


def card_of(operation: Operation) -> Card:
    return Card(
        operation_id=operation.operation_id,
        serial=operation.serial,
        session_id=operation.session_id,
        request_id=operation.request_id,
        request_digest=operation.request_digest,
        uid=operation.by.uid,
        updated_at=operation.updated_at,
        standing=standing_of(operation),
        newest=operation.kind is Kind.OPEN and operation.followed_by is None,
        calls=operation.call_order,
        effects=tuple(one.effect_id for one in operation.ordered_effects()),
        blobs=tuple(sorted(blob.digest for blob in operation.blobs())),
    )
