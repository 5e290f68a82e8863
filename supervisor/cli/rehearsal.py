"""A handler's run without its effects: the sandbox, the protocol and the input are real.

Every announcement is answered `refused`, which is what a handler hears when it may not go on;
so nothing outside is changed, and nothing is journaled. What the daemon would add (budget,
durability, relaunch) is not part of it: `handlers try --allow-effects` runs a whole daemon.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import trio

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config
    from sandbox.client import Launcher, Sandbox
    from sandbox.output import BoundedOutput
    from sandbox.spec import Command, Ended, Lost, NotStarted, Spec, Unkillable
    from supervisor.channel import Message
    from supervisor.cli.denials.judge import Judge
    from supervisor.cli.denials.values import Denial

    Watch = Callable[[int], Judge]

T = TypeVar("T")

OUTPUT_BYTES = 65_536
READ_BYTES = 65_536
DRAIN_S = 0.5
# Each system call of a traced handler costs two more switches of process.
TRACED_SLOWER = 5
REFUSED = "a rehearsal gives no leave; --allow-effects does"


class Heard(NamedTuple):
    """One message of the conversation: when, who said it, what, and what of it a request was."""

    at_ms: int
    said: str
    detail: Any = None
    request: Any = None


class Run(NamedTuple):
    """How one rehearsal went. `ended` is exited, signaled, timed_out, not_started or lost.

    `untraced` says why nobody watched its system calls; where somebody did, `denials` is all that
    was denied, and times are longer than they would be.
    """

    ended: Literal["exited", "signaled", "timed_out", "not_started", "lost"]
    status: int | None
    active_ms: int
    layers: tuple[str, ...]
    conversation: tuple[Heard, ...]
    stdout: str
    stderr: str
    detail: str = ""
    memory_peak_bytes: int | None = None
    cpu_ms: int | None = None
    untraced: str = "nobody asked for it"
    denials: tuple[Denial, ...] = ()

    @property
    def traced(self) -> bool:
        """Whether every system call of it was seen."""
        return not self.untraced

    @property
    def requests(self) -> list[tuple[str, Any]]:
        """The announcements: effect and request, in order."""
        return [
            (str(one.detail), one.request) for one in self.conversation if one.said == ANNOUNCED
        ]

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        made = dict(self._asdict())
        made["conversation"] = [dict(one._asdict()) for one in self.conversation]
        made["denials"] = [one.document() for one in self.denials]
        return made


ANNOUNCED = "announces"


def command_for(config: Config, handler: Handler, value: Any) -> Command:
    """The command as the daemon would start it, for a call of no operation."""
    from supervisor.core.ids import AttemptKey, CallId, OperationId
    from supervisor.dispatch.command import command_of, secrets_of

    key = AttemptKey(CallId("call_" + "0" * 20), 0)
    secrets = secrets_of(config, handler)
    return command_of(handler, OperationId("op_" + "0" * 20), key, None, secrets, value)


def rehearse(
    config: Config,
    handler: Handler,
    spec: Spec,
    command: Command,
    times: int,
    watch: Watch | None = None,
) -> list[Run]:
    """Run it so often, each in a fresh sandbox. Raises SandboxUnavailable, LauncherLost.

    `watch` makes, for a sandbox's PID 1, who judges what is denied in it; without one nothing is
    traced. Must be called on the main thread: the launcher dies with the thread that starts it.
    """
    from sandbox.client import Launcher
    from supervisor.cli.denials.watch import ids_of

    uid, gid = ids_of(config)
    launcher = Launcher.start(handler_uid=uid, handler_gid=gid)
    return run_here(_times, launcher, handler, spec, command, times, watch)


def run_here(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """`trio.run`, with Ctrl-C as itself again: a nursery hands it out in a group."""
    try:
        return trio.run(function, *arguments)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from group
        raise


async def _times(
    launcher: Launcher,
    handler: Handler,
    spec: Spec,
    command: Command,
    times: int,
    watch: Watch | None,
) -> list[Run]:
    from sandbox.spec import SandboxFault

    runs: list[Run] = []
    fault: SandboxFault | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        try:
            while len(runs) < times:
                sandbox = await launcher.prepare(spec)
                runs.append(await _watched(sandbox, handler, command, watch))
        except SandboxFault as error:
            # Handed over outside of the nursery, which would wrap it.
            fault = error
        finally:
            with trio.CancelScope(shield=True):
                await launcher.close()
    if fault is not None:
        raise fault
    return runs


async def _watched(
    sandbox: Sandbox, handler: Handler, command: Command, watch: Watch | None
) -> Run:
    """One run, with its system calls watched where that is wanted and can be had."""
    from sandbox.spec import SandboxFault
    from supervisor.cli.denials.tracer import NotTraced, tracing

    if watch is None:
        return await _once(sandbox, handler, command)
    judge = watch(sandbox.identity.init_pid)
    went: Run | SandboxFault | None = None
    try:
        async with tracing(sandbox.identity.init_pid, judge):
            try:
                went = await _once(sandbox, handler, command, slower=TRACED_SLOWER)
            except SandboxFault as error:
                went = error
    except NotTraced as error:
        run = await _once(sandbox, handler, command)
        return run._replace(untraced=str(error))
    if isinstance(went, SandboxFault):
        raise went
    assert went is not None, "nothing else is caught"
    return went._replace(untraced="", denials=tuple(judge.found))


async def _once(sandbox: Sandbox, handler: Handler, command: Command, *, slower: int = 1) -> Run:
    from sandbox.spec import NotStarted

    try:
        started = await sandbox.dispatch(command)
        if isinstance(started, NotStarted):
            return _not_started(sandbox, started)
        return await _Talk(sandbox, handler).through(slower)
    finally:
        with trio.CancelScope(shield=True):
            await sandbox.discard()


def _not_started(sandbox: Sandbox, started: NotStarted) -> Run:
    detail = f"{started.stage}: {started.detail}"
    return Run("not_started", started.errno, 0, sandbox.layers, (), "", "", detail)


class _Talk:
    """One run: reads everything it says, refuses every announcement, ends its whole tree."""

    def __init__(self, sandbox: Sandbox, handler: Handler) -> None:
        from sandbox.output import BoundedOutput
        from supervisor.channel import Channel

        self._sandbox = sandbox
        self._handler = handler
        self._channel = Channel(handler.manifest.output.result_max_bytes)
        self._out = BoundedOutput(OUTPUT_BYTES, OUTPUT_BYTES)
        self._err = BoundedOutput(OUTPUT_BYTES, OUTPUT_BYTES)
        self._heard: list[Heard] = []
        self._begun = time.monotonic_ns()
        self._open = 3
        self._drained = trio.Event()

    async def through(self, slower: int) -> Run:
        """Until its tree is proven dead; its timeout counts so many times over."""
        from sandbox.group import end

        manifest = self._handler.manifest
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, self._sandbox.stdout, self._out)
            nursery.start_soon(self._read, self._sandbox.stderr, self._err)
            nursery.start_soon(self._converse)
            with trio.move_on_after(slower * manifest.timeout_ms / 1000) as deadline:
                await self._sandbox.leader_exited()
            late = deadline.cancelled_caught
            how = await end(self._sandbox, grace_ms=manifest.grace_ms, ask=late)
            with trio.move_on_after(DRAIN_S):
                await self._drained.wait()
            nursery.cancel_scope.cancel()
        return self._run(how, late=late)

    def _run(self, how: Ended | Lost | Unkillable, *, late: bool) -> Run:
        from sandbox.spec import Ended

        common = (self._sandbox.layers, tuple(self._heard), _text(self._out), _text(self._err))
        if not isinstance(how, Ended):
            return Run("lost", None, self._now_ms(), *common, str(how))
        active_ms = (how.exit_ns - how.gate_ns) // 1_000_000
        return Run(
            "timed_out" if late else how.how,
            how.status,
            active_ms,
            *common,
            memory_peak_bytes=how.memory_peak_bytes,
            cpu_ms=how.cpu_ms,
        )

    def _now_ms(self) -> int:
        return (time.monotonic_ns() - self._begun) // 1_000_000

    async def _read(self, stream: trio.lowlevel.FdStream, into: BoundedOutput) -> None:
        while data := await stream.receive_some(READ_BYTES):
            into.add(data)
        self._closed()

    def _closed(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._drained.set()

    async def _converse(self) -> None:
        try:
            while data := await self._sandbox.channel.receive_some(READ_BYTES):
                for message in self._channel.feed(data):
                    answer = self._answer(message)
                    if answer:
                        await self._sandbox.channel.send_all(answer)
        except trio.BrokenResourceError:
            pass  # it went away in the middle of a message
        self._closed()

    def _answer(self, message: Message) -> bytes:
        """What the handler hears; everything is kept for the person who watches."""
        from supervisor import channel
        from supervisor.core.errors import Refusal

        def heard(said: str, detail: Any = None, request: Any = None) -> None:
            self._heard.append(Heard(self._now_ms(), said, detail, request))

        match message:
            case channel.Announce(name, request):
                heard(ANNOUNCED, name, request)
                if self._handler.manifest.effect_named(name) is None:
                    heard("undeclared", f"the manifest declares no effect {name!r}")
                return channel.refused(Refusal("AccessDenied", REFUSED))
            case channel.Confirm(ordinal):
                heard("confirms without leave", ordinal)
                return channel.refused(Refusal("AccessDenied", REFUSED))
            case channel.Progress(thousandths, text):
                heard("progress", {"thousandths": thousandths, "message": text})
            case channel.ResultGiven(result):
                heard("result", result.value)
            case channel.Fault(detail):
                heard("not in the protocol", detail)
        return b""


def _text(output: BoundedOutput) -> str:
    cut = f"\n[{output.omitted} bytes were not kept]\n" if output.omitted else ""
    head, tail = (part.decode("utf-8", "replace") for part in (output.head, output.tail))
    return head + cut + tail
