"""What a snapshot of the daemon's journal holds: the fold, a part a line."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import orjson

from supervisor.core.state import State
from supervisor.core.whole import NewerWhole, UnknownWhole, parts, state_from
from supervisor.journal.codec import TooNew
from supervisor.journal.snapshot import BadSnapshot


def lines_of(state: State) -> Iterator[bytes]:
    """Made one at a time; equal states give equal lines."""
    return (orjson.dumps(part, option=orjson.OPT_SORT_KEYS) for part in parts(state))


def state_in(content: memoryview) -> State:
    """The state that a snapshot holds. Raises BadSnapshot, or TooNew for a newer version's."""
    try:
        return state_from(orjson.loads(line) for line in BytesIO(content))
    except NewerWhole as error:
        raise TooNew(str(error)) from error
    except (UnknownWhole, orjson.JSONDecodeError) as error:
        raise BadSnapshot(f"it does not read back: {error}") from error
