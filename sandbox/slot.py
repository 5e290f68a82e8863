"""One prepared sandbox as the daemon holds it: dispatch, the ways it ends, the proofs of death."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Generator
from typing import Literal

import attrs
import trio

from sandbox import census, wire
from sandbox.cgroups import Cgroup
from sandbox.spec import (
    LAYERS,
    Command,
    Ended,
    Identity,
    Lost,
    NotStarted,
    Proof,
    SandboxUnavailable,
    Started,
    Unkillable,
)

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_POPULATED_POLL_S = 0.002


@attrs.frozen
class Broken:
    """Init could not build a layer."""

    layer: str
    errno: int
    what: str


class Sandbox:
    """One attempt's sandbox. Whoever holds it ends it: `group.end`, `discard`, or `kill`.

    ``stdout`` and ``stderr`` (trio receive streams) and ``channel`` (the daemon's end of the
    handler's fd 3) exist from `dispatch` on. How much is read of them is the caller's to bound.
    """

    stdout: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream
    channel: trio.SocketStream

    def __init__(
        self, identity: Identity, pidfd: int, slot: socket.socket, cgroup: Cgroup | None
    ) -> None:
        self.identity = identity
        self.layers: tuple[str, ...] = ()
        self.contained_by = wire.BY_NAMESPACE
        self._pidfd = pidfd
        self._raw = slot
        self._slot = trio.socket.from_stdlib_socket(slot)
        self._cgroup = cgroup
        self._streams: list[trio.lowlevel.FdStream | trio.SocketStream] = []
        self._dispatched = False
        self._not_started = False
        self._end: Ended | Lost | None = None
        self._reading = trio.Lock()
        self._closed = False

    # --- before the gate

    async def ready(self) -> Broken | None:
        """Wait until init is confined and waits in turn, or says why not.

        `SandboxUnavailable` when it died without a word.
        """
        message = await self._receive()
        try:
            return self._prepared(message)
        except (ValueError, struct.error):
            raise SandboxUnavailable(
                "init",
                "the sandbox's init ended while it was being prepared",
                "Look for an out-of-memory kill in the kernel's log; else try again.",
            ) from None

    def _prepared(self, message: bytes) -> Broken | None:
        if message[:1] == wire.READY:
            names = {os.fsdecode(name) for name in wire.unpack_list(message[1:])}
            self.layers = tuple(name for name in LAYERS if name in names.union(self.layers))
            return None
        tag, number = wire.BROKEN_BODY.unpack_from(message)
        layer, what = wire.unpack_list(message[wire.BROKEN_BODY.size :])
        if tag != wire.BROKEN:
            raise ValueError(f"init said {tag!r}")
        return Broken(os.fsdecode(layer), number, os.fsdecode(what))

    async def dispatch(self, command: Command) -> Started | NotStarted:
        """Open the gate: start ``command``. Once per sandbox.

        `NotStarted` means that nothing of it ran, with exec's own errno where exec failed.
        """
        assert not self._dispatched, "a sandbox starts one command"
        self._dispatched = True
        if command.secrets and self.contained_by == wire.BY_CGROUP:
            detail = "secrets need the private file system of level strict"
            return NotStarted(errno.EOPNOTSUPP, "secrets", detail)
        message = wire.DISPATCH + wire.pack_list(
            [
                wire.pack_list([os.fsencode(word) for word in command.argv]),
                wire.pack_list([os.fsencode(w) for pair in command.env.items() for w in pair]),
                wire.pack_list([w for n, v in command.secrets.items() for w in (n.encode(), v)]),
            ]
        )
        try:
            with self._descriptors(command.stdin) as fds:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                await self._slot.sendmsg([message], rights)
        except OSError as error:
            return NotStarted(error.errno or errno.EIO, "send", _why_not_sent(error, len(message)))
        return self._answer(await self._receive(), command.argv[0])

    @contextlib.contextmanager
    def _descriptors(self, stdin: bytes) -> Generator[list[int]]:
        """The handler's fds 0 to 3, each an open file description that nobody else shares."""
        with contextlib.ExitStack() as theirs:

            def own(fd: int) -> int:
                theirs.callback(os.close, fd)
                return fd

            given = own(os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
            view = memoryview(stdin)
            while view:
                view = view[os.write(given, view) :]
            os.lseek(given, 0, os.SEEK_SET)
            fcntl.fcntl(given, fcntl.F_ADD_SEALS, _SEALS)
            # Non-blocking is a property of the description, so only our ends have it.
            fds = [given]
            for name in ("stdout", "stderr"):
                read, write = os.pipe()
                fds.append(own(write))
                setattr(self, name, trio.lowlevel.FdStream(read))
                self._streams.append(getattr(self, name))
            mine, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            self.channel = trio.SocketStream(trio.socket.from_stdlib_socket(mine))
            self._streams.append(self.channel)
            fds.append(own(channel.detach()))
            yield fds

    def _answer(self, message: bytes, program: str) -> Started | NotStarted:
        if message[:1] == wire.STARTED and len(message) == wire.STARTED_BODY.size:
            _, pid, gate = wire.STARTED_BODY.unpack(message)
            return Started(pid, gate)
        if message[:1] == wire.FAILED and len(message) >= wire.FAILED_BODY.size:
            _, number = wire.FAILED_BODY.unpack_from(message)
            stage = message[wire.FAILED_BODY.size :].decode("ascii", "replace")
            self._not_started = True
            return NotStarted(number, stage, f"{program}: {os.strerror(number)}")
        # Init died between our message and its answer, maybe after exec: only the worse can be
        # assumed.
        return Started(None, time.monotonic_ns())

    # --- the end

    async def leader_exited(self) -> Ended | Lost:
        """Wait until the leader has ended and with it the whole tree. May be called again."""
        async with self._reading:
            if self._end is None:
                self._end = await self._ended()
            return self._end

    async def _ended(self) -> Ended | Lost:
        message = await self._receive()
        if message[:1] == wire.STARTED:  # a dispatch was cancelled while it waited for this
            message = await self._receive()
        self._not_started |= message[:1] == wire.FAILED  # likewise
        if message[:1] != wire.ENDED or len(message) != wire.ENDED_BODY.size:
            return await self._lost()
        _, code, status, killed, cpu_us, gate, exited, _ = wire.ENDED_BODY.unpack(message)
        proof: Proof = "record"
        if self.contained_by == wire.BY_CGROUP:
            assert self._cgroup is not None
            killed = len([pid for pid in self._cgroup.pids() if pid != self.identity.init_pid])
            self._cgroup.kill()
            await self._unpopulated()
            proof = "cgroup"
        how: Literal["exited", "signaled"] = "exited" if code == os.CLD_EXITED else "signaled"
        peak = self._cgroup.memory_peak() if self._cgroup is not None else None
        return Ended(how, status, -(-cpu_us // 1000), peak, killed, proof, gate, exited)

    async def _lost(self) -> Lost:
        """The slot is at its end without a record: init is dead or dying, and all with it."""
        if self.contained_by == wire.BY_CGROUP:
            assert self._cgroup is not None
            self._cgroup.kill()
            await self._unpopulated()
            return Lost("its init was killed", "cgroup")
        await self._gone()
        cause = "nothing was started" if self._not_started else "its init was killed"
        return Lost(cause, "pidfd")

    def terminate(self) -> None:
        """Ask every process inside to end: SIGTERM, then SIGCONT to what is stopped."""
        self._say(wire.TERMINATE)

    def kill_inside(self) -> None:
        """SIGKILL to every process but init, which then proves the end with its record."""
        self._say(wire.KILL)

    async def kill(self, deadline_s: float = 5) -> Proof | Unkillable:
        """SIGKILL from outside to init and to the cgroup, then wait for a proof of death."""
        with trio.CancelScope(shield=True):
            self.kill_now()
            with trio.move_on_after(deadline_s):
                if self.contained_by == wire.BY_CGROUP:
                    await self._unpopulated()
                    return "cgroup"
                await self._gone()
                return "pidfd"
        if self._cgroup is not None and not self._cgroup.populated():
            return "cgroup"
        return Unkillable(self.identity, census.describe(self.identity.init_pid))

    def kill_now(self) -> None:
        """SIGKILL to init and to the cgroup, without waiting. Safe to repeat, never blocks."""
        if self._closed:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        if self._cgroup is not None:
            self._cgroup.kill()

    async def discard(self) -> None:
        """End it, whatever it does, and give back what it holds. The second time does nothing."""
        if self._closed:
            return
        await self.kill()
        await self.aclose()

    async def aclose(self) -> None:
        """Give back descriptors and the cgroup of a sandbox that is proven dead."""
        if self._closed:
            return
        self._closed = True
        self._slot.close()
        os.close(self._pidfd)
        with trio.CancelScope(shield=True):
            for stream in self._streams:
                await stream.aclose()
            if self._cgroup is not None:
                # It stays "busy" for a moment after the last process is gone.
                with trio.move_on_after(1):
                    while not self._cgroup.remove():  # noqa: ASYNC110 - rmdir(2) is all there is
                        await trio.sleep(_POPULATED_POLL_S)

    # --- the slot

    def _say(self, order: bytes) -> None:
        # Past trio's wrapper: an order never waits, and does not disturb whoever is reading.
        with contextlib.suppress(OSError):
            self._raw.send(order, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    async def _receive(self) -> bytes:
        """The next message; empty when init is gone. recv, so that descriptors are dropped."""
        try:
            return await self._slot.recv(4096)
        except OSError:
            return b""

    async def _gone(self) -> None:
        """Until init's pidfd is readable: then its pid namespace holds no other process."""
        own = os.dup(self._pidfd)  # trio lets one task wait per descriptor
        try:
            await trio.lowlevel.wait_readable(own)
        finally:
            os.close(own)

    async def _unpopulated(self) -> None:
        assert self._cgroup is not None
        while self._cgroup.populated():  # noqa: ASYNC110 - kernfs tells by POLLPRI, trio cannot wait for it
            await trio.sleep(_POPULATED_POLL_S)


def _why_not_sent(error: OSError, size: int) -> str:
    if error.errno == errno.EMSGSIZE:
        return f"arguments, environment and secrets are {size} bytes together: too much"
    if error.errno == errno.ETOOMANYREFS:
        return "too many descriptors of this uid are in flight: a handler holds them in sockets"
    return error.strerror or str(error)
