"""What a snapshot of the daemon's journal holds: the fold, a part a line."""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.core.state import State
from supervisor.core.text import UnknownWhole
from supervisor.core.whole import NewerWhole, state_from
from supervisor.journal.codec import TooNew
from supervisor.journal.snapshot import BadSnapshot


def state_in(content: memoryview) -> State:
    """The state that a snapshot holds. Raises BadSnapshot, or TooNew for a newer version's."""
    try:
        return state_from(_lines(bytes(content)))
    except NewerWhole as error:
        raise TooNew(str(error)) from error
    except UnknownWhole as error:
        raise BadSnapshot(f"it does not read back: {error}") from error


def _lines(content: bytes) -> Iterator[bytes]:
    """Each copied once: they are large."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        yield content[start:end]
        start = end + 1
