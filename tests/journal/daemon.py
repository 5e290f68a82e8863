"""A daemon in miniature on a disk that forgets: the real core over the journal's own committer.

No thread is started: what is queued is written where `sync` says, so that a run is the same one
every time. Decisions are folded when they are queued, and count when they are durable.
"""

from __future__ import annotations

import json
from typing import Any

from supervisor.core.evolve import fold
from supervisor.core.ids import CallId
from supervisor.core.record import Outcome, Record
from supervisor.core.state import Said, State
from supervisor.journal import opening, snapshot
from supervisor.journal.codec import Frame
from supervisor.journal.commit import Committer
from supervisor.journal.records import decode, encode
from supervisor.journal.snapshot import Place
from tests.core.made import KEY, MS, NOON, Core, effect, terms
from tests.journal.fakeos import FakeOs

SIZE, ALIGN = 8_192, 512
JOURNAL = "0" * 32
TERMS = (terms(effect()), terms(effect(contract=KEY)))
Decisions = list[tuple[int, bytes]]  # each with its position


def held(content: memoryview) -> Decisions:
    """What is in a snapshot of this daemon's: a fold that forgets nothing."""
    return [
        (position, payload.encode()) for position, payload in json.loads(bytes(content) or b"[]")
    ]


def started(os_: FakeOs, found: Decisions) -> opening.Opened:
    """Open what is on the disk; `found` has what was handed over, also when it raises."""

    def begin(_position: int, content: memoryview) -> None:
        found[:] = held(content)

    def more(frame: Frame) -> None:
        found.append((frame.position, frame.payload))

    return opening.open_directory(os_, 0, more, begin, segment_bytes=SIZE, align=ALIGN)


class Daemon(Core):
    """`found` is what it started with, `queued` what it decided since."""

    def __init__(self, os_: FakeOs, made: int) -> None:
        """`made` is how many names are taken."""
        self.os = os_
        self.found: Decisions = []
        self.queued: Decisions = []
        opened = started(os_, self.found)
        self.committer = Committer(
            os_,
            0,
            opened.writer,
            opened.spares,
            segment_bytes=SIZE,
            align=ALIGN,
            attested=opened.walked.tip.durable >= opened.walked.tip.last_frame,
        )
        self.taken = made
        super().__init__()

    def restart(self, *alive: Any, **members: Any) -> Any:
        """The first decision of a start; nothing outlived the daemon before."""
        self.made, self.state = self.taken, folded(self.found)
        self.wall = max(NOON, self.state.latest) + MS
        self.boot_id = f"boot-{self.made}"
        return super().restart(*alive, **members)

    def put(self, *records: Record) -> None:
        payload = encode(records)
        self._make_room(len(payload))
        position = self.committer.put(payload, 0, outcome=False)
        self.state = fold(self.state, position, decode(payload))
        self.queued.append((position, payload))

    def _make_room(self, size: int) -> None:
        while not self.committer.admits(size, 0):
            self.committer._make_spare()

    def sync(self) -> None:
        """What the commit thread does. Raises what it would end of."""
        while self.committer._queue:
            self.committer._commit(self.committer._take())

    def close(self) -> None:
        """Write what is queued, and the mark of a clean end."""
        self.committer.stop()
        self.committer.join()

    def durable(self) -> Decisions:
        return [one for one in self.queued if one[0] <= self.committer.durable]

    def snapshot(self) -> None:
        """Of all that is durable; then what no start needs any more is let go."""
        self.sync()
        self.committer.pin()
        point = self.committer.pinned
        assert point is not None
        content = [(position, payload.decode()) for position, payload in self.found + self.queued]
        where = Place(point, JOURNAL)
        snapshot.make(self.os, 0, where, [json.dumps(content).encode()], self._note)
        snapshot.let_go(self.os, 0, None)

    def _note(self, payload: bytes) -> None:
        self._make_room(len(payload))
        self.committer.note(payload)
        self.sync()

    # What clients and handlers do.

    def goes_on(self, pick: int) -> None:
        """A new request, or the next thing that happens to one of the calls."""
        calls = sorted(self.state.calls)
        if pick % 3 == 0 or not calls:
            self.submit(TERMS[pick % 2], self.name("r"))
        else:
            self._moves(self.newest(CallId(calls[pick % len(calls)])))

    def _moves(self, call_id: CallId) -> None:
        call = self.call(call_id)
        if call.queued is not None:
            self.ready(call_id)
        elif call.live is None:
            self.resume(call_id)
        elif call.live.announced == 0:
            self.announce(call_id)
        elif self.effect(call_id).outcome is Said.ANNOUNCED:
            self.confirm(call_id)
        else:
            self.exit(call_id, Outcome.SUCCEEDED)


def folded(decisions: Decisions) -> State:
    state = State()
    for position, payload in decisions:
        state = fold(state, position, decode(payload))
    return state
