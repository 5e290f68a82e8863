"""What the records of sessions add up to, and what is left of evicted operations: values only."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from frozen import frozen
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.record import By


@frozen
class Tombstone:
    """What is kept of an evicted operation, so that its message never runs again."""

    operation_id: OperationId
    session_id: SessionId
    request_id: str
    request_digest: str
    uid: int
    at: int

    @property
    def message(self) -> tuple[SessionId, str]:
        return (self.session_id, self.request_id)


@frozen
class Session:
    """A client's container for its operations."""

    session_id: SessionId
    request_id: str
    by: By
    at: int
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])
    # When its newest message was accepted (0: it had none), and how many of its operations
    # are kept.
    message_at: int = 0
    kept: int = 0

    @property
    def used_at(self) -> int:
        return max(self.at, self.message_at)

    @property
    def request(self) -> tuple[int, str]:
        """Whose request made it, and which: the same one again makes no other."""
        return (self.by.uid, self.request_id)
