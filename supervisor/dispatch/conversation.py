"""The daemon's half of one attempt's conversation: fd 3, standard output and error.

Nothing is answered before it is durable. Whatever is sent and however fast, memory is bounded
by the manifest's result size, what is read by its `output_max_bytes`, and the daemon's time by
a pace; a handler that does not read its answers holds up only itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio

from sandbox import scarce
from sandbox.output import BoundedOutput
from sandbox.slot import Sandbox
from supervisor import channel
from supervisor.core.checkpoint import canonical_digest
from supervisor.core.decide.results import next_known_result
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey, EffectId
from supervisor.core.record import Result, Settler
from supervisor.core.standing import giving_effect
from supervisor.core.step import (
    Announced,
    AnswerApplied,
    Confirmed,
    GiveLeave,
    RefuseAnnouncement,
    SayRecorded,
)
from supervisor.dispatch import output
from supervisor.dispatch.blobs import Value
from supervisor.dispatch.engine import Engine, Unavailable, new_id, spill
from supervisor.dispatch.flow import Pace, Quota

_READ = 65_536
# Lines on fd 3 that are not in the protocol, or that were refused: each costs a record or a line.
FAULTS_MAX = 1_000
FAULTS_SHOWN = 20
# Reads of stdout and stderr together: 64 MiB at full speed, then 6 MiB a second.
PRINTS = (1_000, 100)
# Reads and messages of fd 3: two for each effect, three thousand effects at full speed.
WORDS = (6_000, 500)
# The same for a handler that is over its quota and has yet to end: what it confirms still counts.
LAST_WORDS = (16, 16)
PROGRESS_S = 0.25
# Of progress only the newest counts, but each line has to be looked at: so many are one step.
PROGRESS_LINES = 32
# After the tree is dead only what was sent before is left in pipes and sockets. Whoever was given
# such a descriptor from inside keeps it open, and is not waited for any longer.
DRAIN_S = 0.5
# More than all pipes and sockets of one attempt can hold: what comes after that many bytes was
# written later, by somebody else.
REST_BYTES = 4 << 20
# But what has come is recorded, as long as that may take on a slow disk.
RECORD_S = 60.0
# A hundred thousand lines may be left: others have their turn between so many of them.
REST_BATCH = 64
ANSWER_S = 0.5


class Conversation:
    """Reads everything an attempt says until its end, and answers."""

    def __init__(
        self,
        engine: Engine,
        key: AttemptKey,
        sandbox: Sandbox,
        secrets: Sequence[bytes],
        stop: Callable[[str], None],
        output_max_bytes: int,
    ) -> None:
        self._engine = engine
        self._key = key
        self._sandbox = sandbox
        self._secrets = secrets
        self._stop = stop
        terms = engine.state.call(key.call_id).terms
        # A result that cannot be one frame cannot be kept.
        largest = min(terms.result_max_bytes, engine.journal.payload_limit // 2)
        self._channel = channel.Channel(largest)
        self._out = BoundedOutput(largest, output.TAIL_BYTES)
        self._err = BoundedOutput(output.TAIL_BYTES, output.TAIL_BYTES)
        self._quota = Quota(output_max_bytes)
        self._prints, self._words = Pace(*PRINTS), Pace(*WORDS)
        self._given: Result | None = None
        self._closed: str | None = None
        self._dead = trio.Event()
        self._waiting: set[trio.CancelScope] = set()
        self._left = Quota(REST_BYTES)
        self._rest = 0
        self._faults = 0
        self._confirmed_once: set[int] = set()
        self._done: list[trio.Event] = []
        self._progress: tuple[int | None, str] | None = None
        self._progressed = trio.Event()
        self.limit: str | None = None
        """Which limit it ran into: `output`, `effects` or `faults`; `limit_detail` says more."""
        self.limit_detail = ""

    def start(self, nursery: trio.Nursery) -> None:
        readers = (
            lambda: self._drain(self._sandbox.stdout, self._out),
            lambda: self._drain(self._sandbox.stderr, self._err),
            self._converse,
        )
        for reader in readers:
            done = trio.Event()
            self._done.append(done)
            nursery.start_soon(self._until_end, reader, done)
        nursery.start_soon(self._show_progress)

    async def _until_end(self, reader: Callable[[], object], done: trio.Event) -> None:
        # A handler that closes its end early, or dies, is at its end like any other.
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await reader()  # type: ignore[misc]  # an async function
        done.set()

    def close(self, code: str) -> None:
        """From now on no leave is given; confirmations still count."""
        self._closed = self._closed or code

    def died(self) -> None:
        """The tree is dead: what it asked for is moot, what it said still counts."""
        self._dead.set()
        for read in self._waiting:
            read.deadline = trio.current_time() + DRAIN_S

    async def read_to_end(self) -> None:
        """Until all that was sent before the death is recorded."""
        with trio.move_on_after(RECORD_S):
            for done in self._done:
                await done.wait()

    async def _read(self, stream: trio.abc.ReceiveStream) -> bytes:
        """What comes next; empty at the end, and when nothing more can be expected."""
        with trio.CancelScope() as scope:
            if self._dead.is_set():
                scope.deadline = trio.current_time() + DRAIN_S
            self._waiting.add(scope)
            try:
                data = bytes(await stream.receive_some(_READ))
            finally:
                self._waiting.discard(scope)
            return data if not self._dead.is_set() or self._left.spend(len(data)) else b""
        return b""

    async def _drain(self, stream: trio.lowlevel.FdStream, into: BoundedOutput) -> None:
        while data := await self._read(stream):
            into.add(data)
            if not self._within_quota(len(data)):
                # What is left stays in its pipe, and the handler's next write waits there.
                await self._dead.wait()
            await self._keep_pace(self._prints)

    def _within_quota(self, size: int) -> bool:
        # Of one that has ended the rest is bounded already, and may hold its result.
        if self._quota.spend(size) or self._dead.is_set():
            return True
        if self.limit is None:
            detail = (
                f"more than {self._quota.most} bytes on standard output, standard error and fd 3"
            )
            self._over("output", detail)
        return False

    def _over(self, limit: str, detail: str) -> None:
        """It ran into a limit, and ends for that; the first one counts."""
        if self.limit is None:
            self.limit, self.limit_detail = limit, detail
            self._words = Pace(*LAST_WORDS)
            self._channel.only_confirmations = True
            self.close("LimitExceeded")
            self._stop("limit")

    async def _keep_pace(self, pace: Pace, steps: int = 1) -> None:
        # When all are dead only a bounded rest is left, and its end is waited for.
        if not self._dead.is_set():
            await pace.take(steps)
            return
        self._rest = (self._rest + 1) % REST_BATCH
        if not self._rest:
            await trio.lowlevel.checkpoint()

    # --- fd 3 -------------------------------------------------------------------------

    async def _converse(self) -> None:
        while data := await self._read(self._sandbox.channel):
            self._within_quota(len(data))
            before = self._channel.progressed
            for message in self._channel.feed(data):
                await self._hear(message)
                await self._keep_pace(self._words)
            unheard = self._channel.progressed - before
            await self._keep_pace(self._words, 1 + unheard // PROGRESS_LINES)

    async def _show_progress(self) -> None:
        """The newest progress, four times a second at most."""
        while True:
            await self._progressed.wait()
            self._progressed = trio.Event()
            live = self._engine.live.get(self._key)
            if live is not None:
                live.progress = self._progress
            await trio.sleep(PROGRESS_S)

    async def _hear(self, message: channel.Message) -> None:
        match message:
            case channel.Announce(name, request):
                if not self._dead.is_set():
                    await self._announced(name, request)
            case channel.Confirm():
                await self._confirmed(message)
            case channel.Progress(thousandths, text):
                self._progress = (thousandths, text)
                self._progressed.set()
            case channel.ResultGiven(result):
                self._given = self._clean(result)
            case channel.Fault(detail):
                await self._fault(detail)

    async def _fault(self, detail: str) -> None:
        """Not in the protocol: kept with its stderr, and answered."""
        if self._count_fault() and self._faults <= FAULTS_SHOWN:
            self._err.add(f"effectd: fd 3: {detail}\n".encode())
            await self._say(channel.refused(Refusal("InvalidInput", detail)))

    def _count_fault(self) -> bool:
        """One line more that was good for nothing; False when they are too many."""
        self._faults += 1
        if self._faults >= FAULTS_MAX:
            self._over(
                "faults", f"{FAULTS_MAX} lines on fd 3 that are not in the protocol or refused"
            )
        return self._faults < FAULTS_MAX

    def _clean(self, result: Result) -> Result:
        return Result(output.redact_json(result.value, self._secrets), result.unavailable)

    async def _announced(self, name: str, request: object) -> None:
        closed = self._closed
        try:
            digest = canonical_digest(request)
        except (ValueError, RecursionError):
            await self._fault(f"the request of {name[:64]!r} cannot be kept exactly (RFC 8785)")
            return
        if closed is None and output.holds_secret(request, self._secrets):
            closed, request, digest = "SecretInRequest", None, ""
        event = Announced(
            self._engine.now(),
            self._key.call_id,
            self._key.attempt,
            name[:256],
            request,
            digest,
            EffectId(new_id("eff_")),
            closed,
        )
        try:
            at_hand = await self._value_at_hand()
            await self._engine.make_room()
            decision = await self._engine.commit(event)
        except Unavailable as unavailable:
            self._count_fault()
            await self._say(channel.refused(unavailable.refusal))
            return
        for directive in decision.directives:
            await self._follow(_with_value(directive, at_hand))

    async def _value_at_hand(self) -> Value | None:
        """What the next ordinal's recorded answer has in a blob: read before it is promised. One
        that is lost is recorded as that here, and is no answer any more."""
        engine = self._engine
        if self._key.call_id not in engine.state.calls:
            return None
        operation = engine.state.operation_of(self._key.call_id)
        result = next_known_result(operation, self._key)
        if result is None or result.blob is None:
            return None
        found = await engine.value_of(operation.operation_id, result.blob)
        return found if isinstance(found, Value) else None

    async def _follow(self, directive: object) -> None:
        match directive:
            case GiveLeave(ordinal) if self._closed is not None and not self._dead.is_set():
                await self._take_back(ordinal, self._closed)
            case RefuseAnnouncement(refusal, ends):
                self._count_fault()  # each is a record
                # One that does not read its answers is not waited for when it has to end.
                with trio.move_on_after(ANSWER_S if ends else float("inf")):
                    await self._say(channel.answer(directive))
                if ends:
                    self._over("effects", refusal.detail)
            case GiveLeave() | AnswerApplied() | SayRecorded():
                await self._say(channel.answer(directive))
            case _:
                raise AssertionError(f"not for a handler: {directive}")

    async def _take_back(self, ordinal: int, code: str) -> None:
        """A cancel or the deadline came while the announcement was on its way to disk."""
        event = Confirmed(
            self._engine.now(),
            self._key.call_id,
            self._key.attempt,
            ordinal,
            applied=False,
            reason="leave was not given",
            settled_by=Settler.SUPERVISOR,
        )
        with contextlib.suppress(Unavailable):
            await self._engine.commit(event)
        await self._say(channel.refused(Refusal(code, "no leave is given any more")))

    async def _confirmed(self, said: channel.Confirm) -> None:
        if self._faults >= FAULTS_MAX and said.ordinal in self._confirmed_once:
            return  # each would be a record, and the first one counts anyway
        event = Confirmed(
            self._engine.now(),
            self._key.call_id,
            self._key.attempt,
            said.ordinal,
            said.applied,
            self._clean(said.result) if said.result is not None else None,
            output.redact(said.reason.encode(), self._secrets).decode(),
        )
        try:
            decision = await self._engine.commit(event)
        except Unavailable as unavailable:
            spill("a confirmation", event)
            await self._say(channel.refused(unavailable.refusal, said.ordinal))
            return
        if decision.refusal is not None:
            self._count_fault()
            await self._say(channel.refused(decision.refusal, said.ordinal))
            return
        self._confirmed_once.add(said.ordinal)
        for directive in decision.directives:
            await self._follow(directive)

    async def _say(self, line: bytes) -> None:
        # One that died meanwhile hears nothing more, but what it said before is read to the end.
        if not self._dead.is_set():
            with contextlib.suppress(trio.BrokenResourceError):
                await self._sandbox.channel.send_all(line)

    # --- what is left of it -----------------------------------------------------------

    def value(self) -> Result | None:
        """The call's own result: a message of its, else what it printed; None when the result
        of the effect that it announced is the call's."""
        operation = self._engine.state.operation_of(self._key.call_id)
        giving = giving_effect(operation, operation.calls[self._key.call_id])
        if giving is not None and not giving.declared.whole_call:
            return None
        if self._given is not None:
            return self._given
        return output.result_of(self._out, self._secrets)

    async def keep_output(self) -> None:
        """A disk that is full, or a thread that cannot be had, loses it and nothing else."""
        streams = {"stdout": self._out, "stderr": self._err}
        if any(stream.total for stream in streams.values()):
            directory = Path(self._engine.config.state_dir) / "output"
            key = self._key
            with contextlib.suppress(OSError):
                await scarce.in_thread(
                    output.keep, directory, key.call_id, key.attempt, streams, self._secrets
                )


def _with_value(directive: object, at_hand: Value | None) -> object:
    if at_hand is None or not isinstance(directive, AnswerApplied):
        return directive
    return attrs.evolve(directive, result=Result(at_hand.value))
