"""A snapshot counts when the chain vouches for it: its line is met, and where the journal
recorded the file's checksum, it is that one.

So nothing of a snapshot is handed over before, and nothing that follows it. Standard library
only, and no I/O: the caller brings names and a function that reads one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from supervisor.journal.chain import Walker
from supervisor.journal.codec import Frame, Line, TooNew, own_kind, parse_made
from supervisor.journal.errors import JournalCorrupt
from supervisor.journal.naming import consecutive
from supervisor.journal.snapshot import BadSnapshot, Snapshot, known, parse, snapshots_among

OnFrame = Callable[[Frame], None]
OnSnapshot = Callable[[int, memoryview], None]
"""Takes a position and the content of a snapshot; raises BadSnapshot when it cannot read it.

With position 0 there is none, and what was taken before is to be forgotten.
"""
Load = Callable[[str], bytes]


class Following:
    """Passes on a snapshot, if any, and the decisions behind it, once it is vouched for.

    The journal's record of a snapshot stands a few decisions behind its line: these wait.
    A process that ended between the two left none; then they wait for the end of the walk.
    """

    def __init__(self, found: Snapshot | None, on_frame: OnFrame, on_snapshot: OnSnapshot) -> None:
        self._waiting: list[Frame] | None = None if found is None else []
        self._found = found
        self._since = 0 if found is None else found.point.position
        self._on_frame = on_frame
        self._on_snapshot = on_snapshot

    def see(self, line: Line) -> None:
        """Every line, in order."""
        if line.position <= self._since:
            return
        if not line.payload.startswith(b"["):
            if self._waiting is not None and self._is_record(line.payload):
                self.release()
        elif self._waiting is None:
            self._on_frame(Frame(line.position, line.payload))
        else:
            self._waiting.append(Frame(line.position, line.payload))

    def _is_record(self, payload: bytes) -> bool:
        made = parse_made(payload) if own_kind(payload) == "snapshot" else None
        return made is not None and made.position == self._since

    def release(self) -> None:
        """It is vouched for, or nothing more can be said. Raises what the two callables do."""
        if self._waiting is None or self._found is None:
            return
        self._on_snapshot(self._since, self._found.content)
        waiting, self._waiting = self._waiting, None
        for frame in waiting:
            self._on_frame(frame)


def show(names: Iterable[str], load: Load, on_frame: OnFrame, on_snapshot: OnSnapshot) -> None:
    """Of a damaged journal all that is proven, and nothing else: the newest snapshot that is
    vouched for and what follows it up to the damage; without one, what is intact from the first
    segment on, as if there had never been a snapshot."""
    names = list(names)

    def pass_on(found: Snapshot | None) -> None:
        following = Following(found, on_frame, on_snapshot)
        _walk(names, load, following.see, found)
        following.release()

    for found in vouched(names, load):
        with contextlib.suppress(BadSnapshot):
            return pass_on(found)
    on_snapshot(0, memoryview(b""))
    return pass_on(None)


def vouched(names: Iterable[str], load: Load) -> Iterator[Snapshot]:
    """The snapshots that are proven, newest first, whatever else is damaged."""
    names = list(names)
    for name in snapshots_among(names):
        with contextlib.suppress(BadSnapshot, TooNew):
            found = parse(name, load(name))
            if not _walk(names, load, lambda _line: None, found).unproven:
                yield found


def _walk(
    names: Iterable[str], load: Load, see: Callable[[Line], None], found: Snapshot | None
) -> Walker:
    def emit(_name: str, _offset: int, line: Line) -> None:
        see(line)

    since = 1 if found is None else found.point.number
    vouching = () if found is None else (known(found),)
    walker = Walker(consecutive(names, since), load, emit, known=vouching)
    with contextlib.suppress(JournalCorrupt):
        walker.run()
    return walker
