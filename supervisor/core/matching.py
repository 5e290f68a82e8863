"""Which earlier write a new call of an open operation repeats: the protection of a model that
cannot know what it did before it was interrupted.

Two writes are the same when their handlers are and their inputs are, whole and canonical.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from frozen import frozen
from supervisor.core.standing import (
    effects_applied,
    effects_unknown,
    found_undone,
    settled_from_outside,
)
from supervisor.core.state import Call, Operation


class Class(enum.Enum):
    """What is known of a lineage of calls, by their ids."""

    COMPLETED = "completed"
    OPEN = "open"
    UNSETTLED = "unsettled"
    FAILED = "failed"


@frozen
class Match:
    """The newest call of the lineage that is repeated, and where that lineage stands."""

    call: Call
    stands: Class


def class_of(operation: Operation, call: Call) -> Class:
    """Failed means known: nothing of it is applied."""
    newest = operation.newest(call)
    if newest.moves:
        return Class.OPEN
    if operation.lost or effects_unknown(operation, newest):
        return Class.UNSETTLED
    if newest.succeeded and not found_undone(operation, newest):
        return Class.COMPLETED
    return Class.UNSETTLED if effects_applied(operation, newest) else Class.FAILED


def match(operation: Operation, n: int, handler: str, input_digest: str) -> Match | None:
    """The earlier write that answers a request in continuation `n`; None: it is a new one.

    Unsettled ones come first, then open, then completed ones; of each the oldest.
    """
    same = _same(operation, handler, input_digest)
    standing = [(root, class_of(operation, root)) for root in same]
    unsettled = [root for root, stands in standing if stands is Class.UNSETTLED]
    joins = [
        root for root, stands in standing if stands is Class.OPEN and _joins(operation, root, n)
    ]
    # One that has answered nobody in this continuation before one that has.
    joins.sort(key=lambda root: root.answered_in == n)
    completed = [
        root
        for root, stands in standing
        if stands is Class.COMPLETED and _answers(operation, root, n)
    ]
    for found, stands in (
        (unsettled, Class.UNSETTLED),
        (joins, Class.OPEN),
        (completed, Class.COMPLETED),
    ):
        if found:
            return Match(operation.newest(found[0]), stands)
    return None


def unsettled(operation: Operation) -> Iterator[Call]:
    """The first call of each write that is not settled, oldest first."""
    for call in operation.ordered_calls():
        written = call.retry_of is None and not call.terms.read_only
        if written and class_of(operation, call) is Class.UNSETTLED:
            yield call


def _same(operation: Operation, handler: str, input_digest: str) -> Iterator[Call]:
    for call_id in operation.writes.get(input_digest, ()):
        call = operation.calls[call_id]
        if call.terms.handler == handler:
            yield call


def _before(root: Call, n: int) -> bool:
    assert root.continuation is not None
    return root.continuation < n


def _answers(operation: Operation, root: Call, n: int) -> bool:
    """Once in each later continuation; and once to whoever was told that it is unknown, when
    somebody has found out since that it was done."""
    found_out = settled_from_outside(operation, operation.newest(root))
    return root.answered_in != n and (_before(root, n) or found_out)


def _joins(operation: Operation, root: Call, n: int) -> bool:
    """It runs since an earlier continuation, or again because it was unsettled: a second one
    beside it could make the same change. Two first tries in one continuation are two writes."""
    newest = operation.newest(root)
    again = newest.call_id != root.call_id or len(newest.attempts) > (newest.live is not None)
    return again or _before(root, n)
