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
import termios
import time
from collections.abc import Callable
from typing import Literal

import trio

from frozen import frozen
from sandbox import remedies, scarce, tree, wire
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


@frozen
class Broken:
    """Init could not build a layer."""

    layer: str
    errno: int
    what: str


def broken_of(message: bytes) -> Broken:
    """What a BROKEN says; ValueError or struct.error when ``message`` is anything else."""
    tag, number = wire.BROKEN_BODY.unpack_from(message)
    layer, what = wire.unpack_list(message[wire.BROKEN_BODY.size :])
    if tag != wire.BROKEN:
        raise ValueError(f"it said {tag!r}")
    return Broken(os.fsdecode(layer), number, os.fsdecode(what))


class Sandbox:
    """One attempt's sandbox. Whoever holds it ends it: `group.end`, `discard`, or `kill`.

    ``stdout``, ``stderr`` and ``channel`` (the daemon's end of the handler's fd 3) are trio
    streams. How much is read of them is the caller's to bound.

    It takes over ``pidfd`` and ``slot``: OSError when no more descriptors can be had, with these
    closed as well.
    """

    def __init__(
        self, identity: Identity, pidfd: int, slot: socket.socket, cgroup: Cgroup | None
    ) -> None:
        self.identity = identity
        self.layers: tuple[str, ...] = ()
        self.contained_by = wire.BY_NAMESPACE
        self._pidfd = pidfd
        self._slot = slot
        slot.setblocking(False)
        self._cgroup = cgroup
        # Made while init is being confined, so that it costs a dispatch nothing. Each is an open
        # file description that nobody else shares: non-blocking is a property of it, and so only
        # our ends have it. read(2) on a socket drops the descriptors that a handler may send.
        self._theirs: list[int] = []
        with contextlib.ExitStack() as unmade:
            unmade.callback(os.close, pidfd)
            unmade.callback(slot.close)
            unmade.callback(self._close_theirs)
            self._theirs.append(_nothing())  # until there is something for it to read
            self.stdout = self._pipe(unmade)
            self.stderr = self._pipe(unmade)
            self.channel = self._socket()
            unmade.pop_all()
        self._dispatched = False
        self._not_started = False
        self._record = b""
        self._end: Ended | Lost | None = None
        self._reading = trio.Lock()
        self._closed = False
        self.on_end: Callable[[], None] | None = None
        """Called once, when the tree has ended or the sandbox is given back."""

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
                remedies.DIED_REMEDY,
            ) from None

    def _prepared(self, message: bytes) -> Broken | None:
        if message[:1] == wire.READY:
            names = {*self.layers, *map(os.fsdecode, wire.unpack_list(message[1:]))}
            self.layers = tuple(name for name in LAYERS if name in names)
            return None
        return broken_of(message)

    def waits(self) -> bool:
        """Whether its init still waits for a command: one may have been killed meanwhile."""
        try:
            self._slot.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

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
            # One that waits has read all there was, so there is room for this one message.
            self._send(message, command.stdin)
        except OSError as error:
            return NotStarted(error.errno or errno.EIO, "send", _why_not_sent(error, len(message)))
        return self._answer(await self._receive(), command.argv[0])

    def _send(self, message: bytes, stdin: bytes) -> None:
        """The command with the handler's fds 0 to 3, of which no end stays here."""
        try:
            if stdin:
                os.close(self._theirs.pop(0))
                self._theirs.insert(0, _readable(stdin))
            fds = array.array("i", self._theirs)
            self._slot.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        finally:
            self._close_theirs()

    def _pipe(self, unmade: contextlib.ExitStack) -> trio.lowlevel.FdStream:
        read, write = os.pipe()
        self._theirs.append(write)
        stream = trio.lowlevel.FdStream(read)
        unmade.callback(stream.close)
        # Opening /dev/stderr asks the pipe's mode, and its owner is not the handler's uid.
        os.fchmod(write, 0o622)
        return stream

    def _socket(self) -> trio.lowlevel.FdStream:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._theirs.append(theirs.detach())
        return trio.lowlevel.FdStream(mine.detach())

    def _close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())

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

    @property
    def ended(self) -> Ended | Lost | None:
        """How it ended, once somebody has waited for that."""
        return self._end

    async def leader_exited(self) -> Ended | Lost:
        """Wait until the leader has ended and with it the whole tree. May be called again."""
        async with self._reading:
            if self._end is None:
                self._end = await self._ended()
                self._over()
            return self._end

    @property
    def lost(self) -> bool:
        """Whether its init is known to have been killed, so that nobody saw the end."""
        return isinstance(self._end, Lost)

    def _over(self) -> None:
        if self.on_end is not None:
            over, self.on_end = self.on_end, None
            over()

    async def _ended(self) -> Ended | Lost:
        message = self._record or await self._receive()
        if message[:1] == wire.STARTED:  # a dispatch was cancelled while it waited for this
            message = await self._receive()
        self._not_started |= message[:1] == wire.FAILED  # likewise
        if message[:1] != wire.ENDED or len(message) != wire.ENDED_BODY.size:
            return await self._lost()
        self._record = message  # whoever waits may be cancelled before the cgroup is empty
        _, code, status, killed, started, rss_kib, cpu_us, gate, exited, _ = wire.ENDED_BODY.unpack(
            message
        )
        proof: Proof = "record"
        if self.contained_by == wire.BY_CGROUP:
            assert self._cgroup is not None
            killed = len([pid for pid in self._cgroup.pids() if pid != self.identity.init_pid])
            self._cgroup.kill()
            await self._unpopulated()
            proof = "cgroup"
        how: Literal["exited", "signaled"] = "exited" if code == os.CLD_EXITED else "signaled"
        group = self._cgroup
        return Ended(
            how,
            status,
            -(-cpu_us // 1000),
            group.memory_peak() if group is not None and "memory" in group.limits else None,
            killed,
            proof,
            gate,
            exited,
            rss_kib * 1024,
            started if started >= 0 else None,
        )

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

    def heard(self) -> bool:
        """Whether init has read every order; what it has yet to act on is the kernel's."""
        unread = fcntl.ioctl(self._slot, termios.TIOCOUTQ, bytes(4))  # for sockets: SIOCOUTQ
        return unread == bytes(4)

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
        return Unkillable(self.identity, tree.describe(self.identity.init_pid))

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
        # The record has proven that nothing is left but init, which is on its way out.
        if not isinstance(self._end, Ended) or self._end.proof != "record":
            await self.kill()
        await self.aclose()

    async def aclose(self) -> None:
        """Give back descriptors and the cgroup of a sandbox that is proven dead."""
        if self._closed:
            return
        self._closed = True
        self._over()
        trio.lowlevel.notify_closing(self._slot)
        self._slot.close()
        os.close(self._pidfd)
        self._close_theirs()
        for stream in (self.stdout, self.stderr, self.channel):
            stream.close()
        if self._cgroup is not None:
            with trio.CancelScope(shield=True):
                # It stays "busy" for a moment after the last process is gone.
                with trio.move_on_after(1):
                    while not self._cgroup.remove():  # noqa: ASYNC110 - rmdir(2) is all there is
                        await trio.sleep(_POPULATED_POLL_S)

    # --- the slot

    def _say(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            self._slot.send(order, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    async def _receive(self) -> bytes:
        """The next message; empty when init is gone. recv, so that descriptors are dropped."""
        while True:
            await trio.lowlevel.wait_readable(self._slot)
            try:
                return self._slot.recv(4096)
            except (BlockingIOError, ConnectionResetError):
                # A reset says that init ended with an order unread: once, in front of its record.
                continue
            except OSError:
                return b""

    async def _gone(self) -> None:
        """Until init's pidfd is readable: then its pid namespace holds no other process."""
        await scarce.exited(self._pidfd)

    async def _unpopulated(self) -> None:
        assert self._cgroup is not None
        while self._cgroup.populated():
            await trio.sleep(_POPULATED_POLL_S)
            self._cgroup.kill()  # it may have had no descriptor for that before


def _nothing() -> int:
    """A descriptor from which nothing is read."""
    return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)


def _readable(data: bytes) -> int:
    """A descriptor from which ``data`` is read, and that nobody can write to."""
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _why_not_sent(error: OSError, size: int) -> str:
    if error.errno == errno.EMSGSIZE:
        return f"arguments, environment and secrets are {size} bytes together: too much"
    if error.errno == errno.ETOOMANYREFS:
        return "too many descriptors of this uid are in flight: a handler holds them in sockets"
    return error.strerror or str(error)
