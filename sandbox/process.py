"""One incarnation of the launcher, as the daemon talks to it."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import trio

from frozen import frozen
from sandbox import scarce, wire
from sandbox.spec import LauncherLost, SandboxUnavailable

PING_S = 1.0
SILENT_PINGS = 5
# A new launcher has yet to be loaded, which takes its time on a machine that is overloaded.
STARTING_PINGS = 30

_TOO_MANY = "the paths to expose do not fit into one message"

# Not `-m`: the package's directory goes last, so that nothing beside it hides the library.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from sandbox.launcher import main;"
    " main(*map(int, sys.argv[2:]))"
)


class Refused(Exception):  # noqa: N818 - what it is
    """The launcher, or a template, could not fork what it was asked for."""

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.errno = number


@frozen
class Forked:
    """A child: its pid as this process numbers it, its pidfd, our end of its socket."""

    pid: int
    pidfd: int
    socket: socket.socket


def received(fds: list[int]) -> Forked:
    """What came with a PREPARED: a pidfd and a socket.

    The pid is read from the pidfd, since the sender may live in a pid namespace of its own.
    OSError when there is no descriptor for that, or none was left for the two: both are closed.
    """
    try:
        text = _fdinfo(fds)
    except OSError:
        for fd in fds:
            os.close(fd)
        raise
    pidfd, slot = fds
    at = text.index(b"Pid:\t") + 5
    return Forked(int(text[at : text.index(b"\n", at)]), pidfd, _seqpacket(slot))


def _fdinfo(fds: list[int]) -> bytes:
    if len(fds) != 2:  # the kernel drops what does not fit under RLIMIT_NOFILE
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    with open(f"/proc/self/fdinfo/{fds[0]}", "rb") as file:  # noqa: PTH123 - on the hot path
        return file.read()


def _seqpacket(fd: int) -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=fd)


def _started(control: int, uid: int, gid: int) -> subprocess.Popen[bytes]:
    """The launcher's process, which is given ``control`` and a pidfd of this one."""
    me = os.pidfd_open(os.getpid())
    folder = Path(__file__).resolve().parent.parent
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, folder, *map(str, (control, me, uid, gid))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control, me),
            env={},
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(me)


def unpacked_fds(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for _, _, data in ancillary:
        fds.frombytes(data)
    return list(fds)


def rights(fds: list[int]) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []


@attrs.define
class _Answer:
    come: trio.Event = attrs.field(factory=trio.Event)
    given: bool = False
    """Whether the launcher answered; it is lost otherwise."""
    errno: int = 0
    fds: list[int] = attrs.field(factory=list[int])


class Process:
    """A running launcher. `attend` it until it is lost, then `bury` it."""

    def __init__(self, uid: int, gid: int) -> None:
        # PDEATHSIG follows the thread that forked, not the process: a worker thread of trio's
        # ends after ten idle seconds and would take the launcher and every handler with it.
        assert threading.current_thread() is threading.main_thread()
        with contextlib.ExitStack() as unmade:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            unmade.callback(ours.close)
            with theirs:
                self.popen = _started(theirs.fileno(), uid, gid)
            unmade.callback(self.popen.wait)
            unmade.callback(self.popen.kill)
            self.pidfd = os.pidfd_open(self.popen.pid)
            unmade.pop_all()
        self.lost = trio.Event()
        self.served = False
        """Whether it has made a child."""
        self._buried = trio.Event()
        self._control = trio.socket.from_stdlib_socket(ours)
        self._sending = trio.Lock()
        self._waiting: dict[int, _Answer] = {}
        self._numbers = 0
        self._heard = False

    def kill(self) -> None:
        """SIGKILL, which takes every template and sandbox of this launcher with it."""
        if not self._buried.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    async def attend(self) -> None:
        """Until this launcher is lost: its answers, its pulse, its death."""
        if self.lost.is_set():
            return  # it could not be replaced
        async with trio.open_nursery() as nursery:

            async def first(watch: Callable[[], Awaitable[None]]) -> None:
                await watch()
                nursery.cancel_scope.cancel()

            nursery.start_soon(first, self._receive)
            nursery.start_soon(first, self._pulse)
            nursery.start_soon(first, self._death)

    async def bury(self) -> None:
        """End it for certain and give back what it held."""
        if self.lost.is_set():
            await self._buried.wait()
            return
        self.lost.set()
        self.kill()
        self._control.close()
        for answer in self._waiting.values():
            answer.come.set()
        await self._death()
        self.popen.wait()  # dead already, so this only reaps
        self._buried.set()
        os.close(self.pidfd)

    async def request(self, kind: int, flags: int, plan: bytes, fds: list[int]) -> Forked:
        """Have a child forked. `Refused` with the launcher's errno; LauncherLost; OSError when
        there is no descriptor for the child."""
        self._numbers = (self._numbers + 1) % (1 << 32)
        number = self._numbers
        answer = self._waiting[number] = _Answer()
        try:
            await self._send(wire.REQUEST.pack(kind, number, flags) + plan, fds)
            await answer.come.wait()
        except BaseException:
            for fd in answer.fds:
                os.close(fd)
            raise
        finally:
            self._waiting.pop(number, None)
        if answer.errno:
            raise Refused(answer.errno)
        if not answer.given:
            raise LauncherLost("the launcher ended while it prepared a sandbox")
        return received(answer.fds)

    # --- the socket

    async def _pulse(self) -> None:
        """A stopped launcher never makes its pidfd readable; only its silence tells.

        Silence is counted in pings, not in seconds: a daemon that was itself stopped for a while
        must not take that for its launcher's death.
        """
        ping = wire.REQUEST.pack(wire.PING, 0, 0)
        silent, allowed = 0, STARTING_PINGS
        with contextlib.suppress(LauncherLost):
            while silent < allowed:
                self._heard = False
                with trio.move_on_after(PING_S):
                    await self._send(ping, [])  # waits when its queue is full
                    await trio.sleep_forever()
                silent += 1
                if self._heard:
                    silent, allowed = 0, SILENT_PINGS

    async def _receive(self) -> None:
        while True:
            try:
                message, ancillary, _, _ = await self._control.recvmsg(
                    4096, socket.CMSG_SPACE(2 * 4), socket.MSG_CMSG_CLOEXEC
                )
                if not message:
                    return
                kind, number, _, code = wire.REPLY.unpack(message)
            except (OSError, struct.error, trio.ClosedResourceError):
                return
            fds = unpacked_fds(ancillary)
            self._heard = True
            self.served |= kind == wire.PREPARED
            answer = self._waiting.pop(number, None) if kind != wire.PONG else None
            if answer is None:
                for fd in fds:  # whoever asked has given up: end of file ends that child
                    os.close(fd)
            else:
                answer.given, answer.errno, answer.fds = True, code, fds
                answer.come.set()

    async def _send(self, message: bytes, fds: list[int]) -> None:
        if self.lost.is_set():
            raise LauncherLost("the launcher ended, another is being started")
        async with self._sending:
            try:
                await self._control.sendmsg([message], rights(fds))
            except (OSError, trio.ClosedResourceError) as error:
                if isinstance(error, OSError) and error.errno == errno.EMSGSIZE:
                    raise SandboxUnavailable("root", _TOO_MANY, "Declare directories.") from error
                if isinstance(error, OSError) and error.errno in scarce.ERRORS:
                    raise
                raise LauncherLost("the launcher ended") from error

    async def _death(self) -> None:
        await scarce.exited(self.pidfd)
