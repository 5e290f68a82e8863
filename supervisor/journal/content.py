"""What a snapshot of the daemon's journal holds: the fold, a part a line."""

from __future__ import annotations

from io import BytesIO

from supervisor.core.state import State
from supervisor.core.text import UnknownWhole
from supervisor.core.whole import NewerWhole, state_from
from supervisor.journal.codec import TooNew
from supervisor.journal.snapshot import BadSnapshot


def state_in(content: memoryview) -> State:
    """The state that a snapshot holds. Raises BadSnapshot, or TooNew for a newer version's."""
    try:
        return state_from(one.rstrip(b"\n") for one in BytesIO(content))
    except NewerWhole as error:
        raise TooNew(str(error)) from error
    except UnknownWhole as error:
        raise BadSnapshot(f"it does not read back: {error}") from error
