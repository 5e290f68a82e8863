"""The daemon's half of one attempt's conversation: fd 3, standard output and error.

Nothing is answered before it is durable. Memory is bounded by the manifest's result
size, whatever is sent; a handler that does not read its answers holds up only itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from sandbox.output import BoundedOutput
from sandbox.slot import Sandbox
from supervisor import channel
from supervisor.core.checkpoint import canonical_digest
from supervisor.core.errors import Refusal
from supervisor.core.ids import AttemptKey, EffectId
from supervisor.core.record import Result, Settler
from supervisor.core.step import (
    Announced,
    AnswerApplied,
    Confirmed,
    GiveLeave,
    RefuseAnnouncement,
    SayRecorded,
)
from supervisor.dispatch import output
from supervisor.dispatch.engine import Engine, Unavailable, new_id, spill

_READ = 65_536
FAULTS_MAX = 1_000
FAULTS_SHOWN = 20


class Conversation:
    """Reads everything an attempt says until its end, and answers."""

    def __init__(
        self,
        engine: Engine,
        key: AttemptKey,
        sandbox: Sandbox,
        secrets: Sequence[bytes],
        stop: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._key = key
        self._sandbox = sandbox
        self._secrets = secrets
        self._stop = stop
        terms = engine.state.call(key.call_id).terms
        self._terms = terms
        # A result that cannot be one frame cannot be kept.
        largest = min(terms.result_max_bytes, engine.journal.payload_limit // 2)
        self._channel = channel.Channel(largest)
        self._out = BoundedOutput(largest, output.TAIL_BYTES)
        self._err = BoundedOutput(output.TAIL_BYTES, output.TAIL_BYTES)
        self._given: Result | None = None
        self._closed: str | None = None
        self._dead = False
        self._faults = 0
        self._done: list[trio.Event] = []
        self.limit = "LimitExceeded"
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
        self._dead = True

    async def read_to_end(self) -> None:
        for done in self._done:
            await done.wait()

    async def _drain(self, stream: trio.lowlevel.FdStream, into: BoundedOutput) -> None:
        while data := await stream.receive_some(_READ):
            into.add(data)

    # --- fd 3 -------------------------------------------------------------------------

    async def _converse(self) -> None:
        while data := await self._sandbox.channel.receive_some(_READ):
            for message in self._channel.feed(data):
                await self._hear(message)

    async def _hear(self, message: channel.Message) -> None:
        match message:
            case channel.Announce(name, request):
                if not self._dead:
                    await self._announced(name, request)
            case channel.Confirm():
                await self._confirmed(message)
            case channel.Progress(thousandths, text):
                live = self._engine.live.get(self._key)
                if live is not None:
                    live.progress = (thousandths, text)
            case channel.ResultGiven(result):
                self._given = self._clean(result)
            case channel.Fault(detail):
                await self._fault(detail)

    async def _fault(self, detail: str) -> None:
        self._faults += 1
        if self._faults <= FAULTS_SHOWN:
            self._err.add(f"effectd: fd 3: {detail}\n".encode())
        if self._faults == FAULTS_MAX:
            self.limit_detail = f"{FAULTS_MAX} lines on fd 3 that are not in the protocol"
            self.close("LimitExceeded")
            self._stop("limit")
        elif not self._dead and self._faults <= FAULTS_SHOWN:
            await self._say(channel.refused(Refusal("InvalidInput", detail)))

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
            await self._engine.make_room()
            decision = await self._engine.commit(event)
        except Unavailable as unavailable:
            await self._say(channel.refused(unavailable.refusal))
            return
        for directive in decision.directives:
            await self._follow(directive)

    async def _follow(self, directive: object) -> None:
        match directive:
            case GiveLeave(ordinal) if self._closed is not None and not self._dead:
                await self._take_back(ordinal, self._closed)
            case RefuseAnnouncement(refusal, True):
                self.limit, self.limit_detail = refusal.code, refusal.detail
                await self._say(channel.answer(directive))
                self._stop("limit")
            case GiveLeave() | AnswerApplied() | RefuseAnnouncement() | SayRecorded():
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
            await self._say(channel.refused(decision.refusal, said.ordinal))
            return
        for directive in decision.directives:
            await self._follow(directive)

    async def _say(self, line: bytes) -> None:
        if not self._dead:
            await self._sandbox.channel.send_all(line)

    # --- what is left of it -----------------------------------------------------------

    def value(self) -> Result | None:
        """The call's own result: a message of its, else what it printed; None when the
        sole announced effect's result is the call's."""
        sole = self._terms.sole_effect
        if sole is not None and not sole.whole_call:
            return None
        if self._given is not None:
            return self._given
        return output.result_of(self._out, self._secrets)

    async def keep_output(self) -> None:
        streams = {"stdout": self._out, "stderr": self._err}
        if any(stream.total for stream in streams.values()):
            directory = Path(self._engine.config.state_dir) / "output"
            await trio.to_thread.run_sync(
                output.keep,
                directory,
                self._key.call_id,
                self._key.attempt,
                streams,
                self._secrets,
            )
