"""What a snapshot of the daemon's journal holds: the fold, a part a line."""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.core.contents import Put, in_memory
from supervisor.core.state import State
from supervisor.core.text import UnknownWhole
from supervisor.core.whole import NewerWhole, state_from
from supervisor.journal.codec import TooNew
from supervisor.journal.snapshot import BadSnapshot

_CHUNK = 1 << 18


def state_in(content: memoryview, put: Put = in_memory) -> State:
    """The state that a snapshot holds; what need not be in memory is put elsewhere as it is read.
    Raises BadSnapshot, or TooNew for a newer version's."""
    try:
        return state_from(_lines(content), put)
    except NewerWhole as error:
        raise TooNew(str(error)) from error
    except UnknownWhole as error:
        raise BadSnapshot(f"it does not read back: {error}") from error


def _lines(content: memoryview) -> Iterator[bytes]:
    """Without a copy of all of it: there may be as much as there is memory for."""
    begun: list[bytes] = []
    for begin in range(0, len(content), _CHUNK):
        *ends, rest = bytes(content[begin : begin + _CHUNK]).split(b"\n")
        for end in ends:
            yield b"".join((*begun, end))
            begun.clear()
        begun.append(rest)
    last = b"".join(begun)
    if last:
        yield last
