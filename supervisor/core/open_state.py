"""What the records of an open operation add up to beside its calls: values only."""

from __future__ import annotations

from frozen import frozen
from supervisor.core.ids import CallId
from supervisor.core.record import Answer, By, Ending, Trigger


@frozen
class Continuation:
    """One stretch of an open operation between interruptions."""

    n: int
    trigger: Trigger
    by: By
    at: int
    request_id: str = ""
    reason: Ending | None = None
    ended_at: int | None = None
    ended_mono: int = 0
    ended_boot: str = ""


@frozen
class Asked:
    """A request for a call of an open operation, and the call that answered it."""

    call_id: CallId
    request_digest: str
    continuation: int
    answer: Answer
