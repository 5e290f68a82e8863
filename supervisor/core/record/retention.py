"""What went with time, or to make room: one frozen class for each fact."""

from __future__ import annotations

from frozen import frozen
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.record.base import OperationRecord, Record


@frozen
class OperationAbandoned(OperationRecord):
    """Interrupted, nothing unresolved, and nobody asked for anything for `days`: cancelled."""

    days: int


@frozen
class OperationEvicted(OperationRecord):
    """A finished operation is no longer kept; its tombstone is."""


@frozen
class TombstoneExpired(Record):
    """What was left of an evicted operation is gone too: its id is as good as new."""

    operation_id: OperationId


@frozen
class TombstoneRenewed(Record):
    """It would have gone, and its session has not ended: it stays as long once more."""

    operation_id: OperationId


@frozen
class SessionEnded(Record):
    """No message came for long, and none of its operations is kept: its id names nothing."""

    session_id: SessionId
