"""The one place where state moves: decide, fold, append, wait for the disk, then act.

Memory is the fold of everything queued, so `decide` and `fold` run in one turn of the
loop; answers, directives and events wait until their position is durable. Nothing
else in the program appends to the journal or changes the state.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

import attrs
import orjson
import trio

from config.load import Handler, Handlers, stale
from config.problems import ConfigError
from config.schema import Config
from sandbox import scarce
from sandbox.census import boot_id
from sandbox.client import Launcher
from sandbox.spec import Missing
from supervisor.core.contents import away, in_memory
from supervisor.core.decide import decide
from supervisor.core.decide.results import given
from supervisor.core.errors import Refusal
from supervisor.core.evolve import fold
from supervisor.core.filing import Filing
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId
from supervisor.core.moment import Moment
from supervisor.core.record import (
    AttemptEnded,
    Blob,
    EffectConfirmed,
    EffectResolved,
    ReconcilerEnded,
    Record,
    Result,
)
from supervisor.core.reserve import reserve_bytes
from supervisor.core.state import State
from supervisor.core.step import (
    BlobLost,
    CallAsked,
    ContinueAsked,
    Decision,
    EndAttempt,
    Exited,
    Input,
    Launch,
    Message,
    ResumeAsked,
    SessionAsked,
)
from supervisor.dispatch import visible
from supervisor.dispatch.blobs import Blobs, Value
from supervisor.dispatch.events import Events, Page, page_of
from supervisor.dispatch.inputs import RawInputs
from supervisor.journal.blobs import Loss
from supervisor.journal.damaged import DamagedJournal
from supervisor.journal.log import Journal, JournalFull, JournalPoisoned
from supervisor.journal.records import encode
from supervisor.memory import give_back
from supervisor.scratch import Scratch

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
# What a frame of new work may need; its own size is checked when it is appended.
_TYPICAL_FRAME = 65_536
# What a client asks for that takes room; to end, cancel, settle or answer is none of it.
_NEW_WORK = (Message, SessionAsked, ResumeAsked, CallAsked, ContinueAsked)


Groups = Callable[[int], Awaitable[frozenset[int]]]


class Unavailable(Exception):  # noqa: N818  # carries a refusal, is caught where answers are made
    """Nothing can be decided now, or nobody knows whether it was; the refusal says which."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def new_id(prefix: str) -> str:
    """`op_`, `call_`, `eff_` or `ses_` and 20 of [0-9a-z]: 103 random bits."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(20))


class Slots:
    """Places for running attempts: so many at once, and so many of one handler."""

    def __init__(self, most: int) -> None:
        self.all = trio.CapacityLimiter(most)
        self._handlers: dict[str, trio.CapacityLimiter] = {}

    def of(self, handler: Handler) -> trio.CapacityLimiter:
        most = handler.manifest.max_running
        limiter = self._handlers.setdefault(handler.name, trio.CapacityLimiter(most))
        limiter.total_tokens = most
        return limiter


# So many finished operations are not filed at the most, and what comes between two looks.
LOOSE = 512


@attrs.define
class Live:
    """A running attempt as others may touch it."""

    stop: Callable[[str], None]
    progress: tuple[int | None, str] | None = None


class Engine:
    """One state directory's state, and the tasks that carry out its directives."""

    def __init__(  # noqa: PLR0913  # made in one place, by name
        self,
        *,
        config: Config,
        handlers: Handlers,
        journal: Journal,
        launcher: Launcher,
        state: State,
        events: Events,
        scratch: Scratch,
        groups: Groups,
        unwitnessed: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.config = config
        self.handlers = handlers
        self.journal = journal
        self.launcher = launcher
        self.state = state
        self.events = events
        self.scratch = scratch
        self.groups = groups
        self.unwitnessed = unwitnessed
        """Why the journal's witness is not told any more; None while it is."""
        self.occupied: Callable[[], int] = lambda: 0
        """The bytes of disk that the state directory takes."""
        self.full: Callable[[], str | None] = lambda: None
        """Why that is too much for new work; None while it is not."""
        self.blobs = Blobs(config.state_dir)
        self.raw = RawInputs(config.state_dir)
        self.slots = Slots(config.max_running_attempts)
        self.live: dict[AttemptKey, Live] = {}
        self.unkillable: dict[AttemptKey | EffectId, str] = {}  # a reconciler by its effect
        self.layers: Mapping[str, str] = {}
        self.missing: tuple[Missing, ...] = ()
        self.draining = False
        self.poisoned = trio.Event()
        self.approvals_changed = trio.lowlevel.ParkingLot()
        self._idle = trio.lowlevel.ParkingLot()
        self._loading = trio.Lock()
        self._tasks = 0
        self._launch: Callable[[CallId, frozenset[int]], None] | None = None

    def now(self) -> Moment:
        """Both clocks. A wall clock that was set back, over a reboot even, makes nothing look
        younger than what is written down already."""
        wall = max(time.time_ns(), self.state.latest)
        return Moment(wall, time.monotonic_ns(), boot_id())

    # --- deciding ---------------------------------------------------------------------

    async def commit(self, event: Input, lent: frozenset[int] = frozenset()) -> Decision:
        """Decide, write down, wait for the disk, and set off what follows; what is launched
        may use the groups that are `lent` to it.

        Returns when everything that the decision depends on is durable; then its records
        are too. Raises Unavailable when the journal cannot take it (nothing happened), or
        failed while it was being written (nobody knows).
        """
        event = await self._set_apart(event)
        decision = decide(self.state, event)
        if decision.records:
            if isinstance(event, _NEW_WORK) and (why := self.full()) is not None:
                raise Unavailable(Refusal("LimitExceeded", why))
            decision, position = self._append(decision)
        else:
            position = self.state.position
        # Cancelling a caller never means undo, so from here on it only waits.
        with trio.CancelScope(shield=True):
            await self._durable(position)
        for directive in decision.directives:
            if isinstance(directive, Launch):
                self.launch(directive.call_id, lent)
            elif isinstance(directive, EndAttempt):
                self.stop_attempt(AttemptKey(directive.call_id, directive.attempt), "cancel")
        return decision

    async def _set_apart(self, event: Input) -> Input:
        """The event with a large result in its blob. What was said counts, whoever gives up
        waiting for it; between this and the decision nothing else happens."""
        result = given(self.state, event)
        if result is None:
            return event
        kept = result
        with trio.CancelScope(shield=True):
            kept = await self.blobs.keep(result)
        if kept is result:
            return event
        if isinstance(event, Exited):
            return attrs.evolve(event, value=kept)
        return attrs.evolve(event, result=kept)  # type: ignore[call-arg]  # `given` knows which have one

    async def make_room(self, size: int = _TYPICAL_FRAME) -> None:
        """Back-pressure for new work: wait while the queue is long or a segment is made."""
        size = min(size, self.journal.payload_limit)
        largest = self.journal.payload_limit
        await self.journal.ready(min(size, largest), reserve_bytes(self.state, self.journal.cost))

    def _append(self, decision: Decision) -> tuple[Decision, int]:
        """Fold and queue in one turn. An outcome that does not fit goes without its result."""
        try:
            return decision, self._queue(decision)
        except JournalFull as full:
            # What a program would begin is new work: its end must not wait for that.
            if decision.instead is not None:
                return self._append(decision.instead)
            if not decision.outcome:
                raise Unavailable(Refusal("JournalUnavailable", str(full))) from full
        bare = attrs.evolve(decision, records=tuple(map(_without_result, decision.records)))
        try:
            return bare, self._queue(bare)
        except JournalFull as full:
            raise Unavailable(Refusal("JournalUnavailable", str(full))) from full

    def _queue(self, decision: Decision) -> int:
        records = decision.records
        expected = self.journal.position + 1
        # Folded before it is queued: a record that cannot follow must never reach the disk.
        state = fold(self.state, expected, records)
        payload = encode(records)
        keep = reserve_bytes(state, self.journal.cost)
        if len(payload) > self.journal.payload_limit:
            if decision.outcome:
                raise JournalFull(len(payload), keep, self.journal.payload_limit, "one frame")
            detail = f"{len(payload)} bytes are more than one frame takes"
            raise Unavailable(Refusal("LimitExceeded", detail))
        small = len(payload) <= self.journal.outcome_limit
        try:
            position = self.journal.append(payload, keep=keep, outcome=decision.outcome and small)
        except JournalPoisoned as poisoned:
            raise Unavailable(Refusal("JournalUnavailable", str(poisoned))) from poisoned
        if position != expected:  # the commit thread marked an idle moment in between
            state = fold(self.state, position, records)
        if state.approvals is not self.state.approvals:
            self.approvals_changed.unpark_all()
        self.state = state
        self.raw.let_go(records, state)
        self.events.queue(position, payload, records, state)
        return position

    @property
    def crowded(self) -> bool:
        """Whether much is in memory that need not be there."""
        return len(self.state.loose_finished) >= LOOSE or self.events.crowded

    async def file(self, filing: Filing) -> None:
        """The same state in less room, a part in each turn of the loop."""
        for part in filing.parts():
            self.state = filing.into(self.state, part)
            await trio.lowlevel.checkpoint()
        await self._put_away()

    async def _put_away(self) -> None:
        """What is hardly ever looked at into less memory, or out of it while the disk has room."""
        state, events = self.state, self.events.full_pages()
        put = in_memory if self.full() is not None else self.scratch.put

        def work() -> list[Page]:
            for drawer in state.operations.filed.drawers:
                away(drawer, put)
            for block in state.tombstones.blocks:
                away(block, put)
            pages = [*map(page_of, events)]
            give_back()
            return pages

        with contextlib.suppress(OSError):  # no thread is to be had now: the next time, then
            self.events.put_in(await scarce.in_thread(work))

    async def _durable(self, position: int) -> None:
        try:
            await self.journal.durable(position)
        except JournalPoisoned as poisoned:
            raise Unavailable(Refusal("AcceptanceUnknown", str(poisoned))) from poisoned
        self.events.publish(self.journal.durable_position)

    async def settled(self) -> None:
        """Wait until everything that is decided is durable: reads answer from then on."""
        with trio.CancelScope(shield=True):
            await self._durable(self.state.position)

    async def value_of(self, operation_id: OperationId, blob: Blob) -> Value | Loss:
        """What is in a blob that results of the operation name. That it is lost is recorded
        before this returns, where records are taken.

        Raises Unavailable when it cannot be read just now, and nothing is known.
        """
        try:
            found = await self.blobs.load(blob)
        except OSError as error:
            detail = f"{self.blobs.directory / blob.digest}: {error.strerror}"
            raise Unavailable(Refusal("ResultUnreadable", detail)) from error
        if isinstance(found, Loss) and not isinstance(self.journal, DamagedJournal):
            await self.commit(BlobLost(self.now(), operation_id, blob.digest, found.value))
        return found

    # --- doing ------------------------------------------------------------------------

    def attend(
        self, nursery: trio.Nursery, run_call: Callable[[CallId, frozenset[int]], object]
    ) -> None:
        """Give launches a place to run; before this they are refused by the caller's order."""

        def launch(call_id: CallId, lent: frozenset[int]) -> None:
            self.begin()
            nursery.start_soon(run_call, call_id, lent)  # type: ignore[arg-type]  # an async function

        self._launch = launch

    def launch(self, call_id: CallId, lent: frozenset[int]) -> None:
        assert self._launch is not None, "nothing is launched before the daemon serves"
        self._launch(call_id, lent)

    def begin(self) -> None:
        """A task that must be seen to end before the daemon stops."""
        self._tasks += 1

    def finish(self) -> None:
        self._tasks -= 1
        if not self._tasks:
            self._idle.unpark_all()

    async def idle(self) -> None:
        """Wait until no attempt or reconciler is in any task's hands."""
        while self._tasks:
            await self._idle.park()

    def only_unkillable(self) -> bool:
        """Whether all that still runs was sent SIGKILL and does not die: the next start records
        it as a survivor."""
        return self._tasks == len(self.unkillable) > 0

    def stop_attempt(self, key: AttemptKey, reason: str) -> None:
        live = self.live.get(key)
        if live is not None:
            live.stop(reason)

    def stop_all(self, reason: str) -> None:
        for live in list(self.live.values()):
            live.stop(reason)

    async def refresh(self) -> None:
        """See that `handlers` are the manifests as they are. A developer's daemon notices a change
        by itself; a service is told to reload.

        While their directory cannot be listed, what was loaded stays in force.
        """
        if not self.config.origin.dev:
            return
        with contextlib.suppress(ConfigError, OSError):
            if not stale(self.config, self.handlers):
                return
            async with self._loading:
                if stale(self.config, self.handlers):
                    self.handlers = await scarce.in_thread(visible.load, self.config)

    # --- finding ----------------------------------------------------------------------

    def operation_of_call(self, call_id: str) -> OperationId | None:
        return self.state.calls.get(CallId(call_id))

    def operation_of_effect(self, effect_id: str) -> OperationId | None:
        return self.state.effects.get(EffectId(effect_id))


def spill(what: str, event: object) -> None:
    """What could not be written down is at least said where the service manager listens."""
    document = orjson.dumps(attrs.asdict(event), default=str).decode()  # type: ignore[arg-type]  # inputs are attrs values
    print(f"effectd: not recorded: {what} {document}", file=sys.stderr, flush=True)  # noqa: T201  # the disk failed


def _without_result(record: Record) -> Record:
    gone = Result(unavailable="no_space")
    match record:
        case EffectConfirmed() | AttemptEnded() | ReconcilerEnded() | EffectResolved():
            return attrs.evolve(record, result=gone) if record.result is not None else record
        case _:
            return record
