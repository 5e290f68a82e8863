"""What an operation's calls and effects come to, so that no frame looks at all of them.

Nothing is in it that is not in the operation: the fold keeps it in step, and a start makes it
again.
"""

from __future__ import annotations

from immutables import Map

from frozen import frozen
from supervisor.core.ids import CallId

_NONE = Map[CallId, None]()


@frozen
class Tally:
    # Calls with a live attempt or a place in the queue.
    moving: Map[CallId, None] = _NONE
    # Attempts; those whose tree is not proven dead; and the names of the handlers, sorted.
    attempts: int = 0
    alive: int = 0
    handlers: tuple[str, ...] = ()
    # Effects by what is known of them; of the unknown ones, those that somebody has to care
    # about; and those that a reconciler asks about.
    announced: int = 0
    applied: int = 0
    not_applied: int = 0
    unknown: int = 0
    unresolved: int = 0
    reconciling: int = 0
