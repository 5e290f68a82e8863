"""The daemon's end of the launcher: starts it, watches it, replaces it, asks it for sandboxes."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn, Self

import attrs
import trio

from sandbox import census, cgroups, plan, remedies, wire
from sandbox.cgroups import Cgroup
from sandbox.slot import Broken, Sandbox
from sandbox.spec import LauncherLost, SandboxUnavailable, Spec

__all__ = ["Launcher", "Sandbox"]

PREPARE_S = 5.0
PING_S = 1.0
SILENT_PINGS = 5
# A new launcher has yet to be loaded, which takes its time on a machine that is overloaded.
STARTING_PINGS = 30
# A launcher that ended five times, each within a minute of its start, will not get better.
RESTARTS_MAX = 5
RESTART_RESET_S = 60.0
# How long a preparation that failed may wait for its init to die: one that hangs in a look-up on a
# dead file system stays, without descriptors of ours, until that ends.
UNWANTED_S = 0.5
# Descriptors that the daemon keeps for itself: those in flight to handlers count against its own
# soft limit, and a handler of the same uid can hold as many in flight as it may have open.
FILES_KEPT = 1_024

_TOO_MANY = "the paths to expose do not fit into one message"

# Not `-m`: the package's directory goes last, so that nothing beside it hides the library.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from sandbox.launcher import main;"
    " main(*map(int, sys.argv[2:]))"
)


@attrs.define
class _Process:
    """One incarnation of the launcher."""

    popen: subprocess.Popen[bytes]
    pidfd: int
    control: trio.socket.SocketType
    lost: trio.Event = attrs.field(factory=trio.Event)
    buried: trio.Event = attrs.field(factory=trio.Event)
    heard: bool = False
    waiting: dict[int, _Answer] = attrs.field(factory=dict[int, "_Answer"])

    def kill(self) -> None:
        """SIGKILL, which takes every sandbox of this launcher with it."""
        if not self.buried.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


@attrs.define
class _Answer:
    come: trio.Event = attrs.field(factory=trio.Event)
    errno: int = 0
    pid: int = 0
    fds: list[int] = attrs.field(factory=list[int])


class Launcher:
    """Prepares sandboxes through a process of its own, which dies with the daemon.

    `start` it first, then `run` it in a nursery for as long as sandboxes are wanted.
    """

    def __init__(self, uid: int, gid: int, cgroup_root: Path | None) -> None:
        self.uid = uid
        self.gid = gid
        self.cgroup_root = cgroup_root
        self._process = self._spawn()
        self._numbers = 0
        self._files = _raise_file_limit()
        self._closing = trio.Event()
        self._sending = trio.Lock()

    @classmethod
    def start(
        cls,
        *,
        handler_uid: int | None = None,
        handler_gid: int | None = None,
        cgroup_root: Path | None = None,
    ) -> Self:
        """Start the launcher: the first act of ``main()``, before trio, threads and secrets.

        Handlers run as ``handler_uid`` (default: the daemon's own). ValueError for uid 0.
        """
        uid = os.getuid() if handler_uid is None else handler_uid
        gid = os.getgid() if handler_gid is None else handler_gid
        if uid == 0 or gid == 0:
            raise ValueError(
                "handlers never run as root: set handler_user to an unprivileged user"
                " (effectd-run under systemd, nobody for a try as root)"
            )
        if cgroup_root is not None and (why := cgroups.unavailable(cgroup_root)):
            raise SandboxUnavailable("cgroup", why, remedies.CGROUP)
        return cls(uid, gid, cgroup_root)

    def _spawn(self) -> _Process:
        # PDEATHSIG follows the thread that forked, not the process: a worker thread of trio's
        # ends after ten idle seconds and would take the launcher and every handler with it.
        assert threading.current_thread() is threading.main_thread()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        me = os.pidfd_open(os.getpid())
        folder = Path(__file__).resolve().parent.parent
        numbers = (theirs.fileno(), me, self.uid, self.gid)
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, folder, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), me),
                env={},
                cwd="/",
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(me)
        pidfd = os.pidfd_open(popen.pid)
        return _Process(popen, pidfd, trio.socket.from_stdlib_socket(ours))

    @property
    def pid(self) -> int:
        """The present launcher's."""
        return self._process.popen.pid

    # --- keeping it alive

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch the launcher and replace a lost one, until `close`.

        LauncherLost when it ends again and again: there is something that a restart cannot heal.
        """
        failures = 0
        task_status.started()
        try:
            while not self._closing.is_set():
                since = trio.current_time()
                await self._attend(self._process)
                await self._bury(self._process)
                if self._closing.is_set():
                    return
                long_enough = trio.current_time() - since > RESTART_RESET_S
                failures = 1 if long_enough else failures + 1
                if failures > RESTARTS_MAX:
                    raise LauncherLost(f"the launcher ended {failures} times in a row, at once")
                await trio.sleep(min(0.05 * 2**failures, 2.0) if failures > 1 else 0)
                # On the main thread, and 20 to 40 ms of it: trio would spawn from a worker.
                # When it cannot be done (no memory, no descriptors) that counts as an end.
                with contextlib.suppress(OSError):
                    self._process = self._spawn()
        finally:
            with trio.CancelScope(shield=True):
                await self._bury(self._process)

    async def close(self) -> None:
        """Let the launcher end, and with it every sandbox that is still there."""
        self._closing.set()
        self._process.kill()
        with trio.CancelScope(shield=True):
            await self._bury(self._process)

    async def _attend(self, process: _Process) -> None:
        """Until this launcher is lost: its answers, its pulse, its death."""
        if process.lost.is_set():
            return  # it could not be replaced
        async with trio.open_nursery() as nursery:

            async def first(watch: Callable[[_Process], Awaitable[None]]) -> None:
                await watch(process)
                nursery.cancel_scope.cancel()

            nursery.start_soon(first, self._receive)
            nursery.start_soon(first, self._pulse)
            nursery.start_soon(first, _death)

    async def _bury(self, process: _Process) -> None:
        if process.lost.is_set():
            await process.buried.wait()
            return
        process.lost.set()
        process.kill()
        process.control.close()
        for answer in process.waiting.values():
            answer.come.set()
        await _death(process)
        process.popen.wait()  # dead already, so this only reaps
        process.buried.set()
        os.close(process.pidfd)

    async def _pulse(self, process: _Process) -> None:
        """A stopped launcher never makes its pidfd readable; only its silence tells.

        Silence is counted in pings, not in seconds: a daemon that was itself stopped for a while
        must not take that for its launcher's death.
        """
        ping = wire.REQUEST.pack(wire.PING, 0, 0, 0)
        silent, allowed = 0, STARTING_PINGS
        with contextlib.suppress(LauncherLost):
            while silent < allowed:
                process.heard = False
                with trio.move_on_after(PING_S):
                    await self._send(process, ping, [])  # waits when its queue is full
                    await trio.sleep_forever()
                silent += 1
                if process.heard:
                    silent, allowed = 0, SILENT_PINGS

    async def _receive(self, process: _Process) -> None:
        while True:
            try:
                message, ancillary, _, _ = await process.control.recvmsg(
                    4096, socket.CMSG_SPACE(2 * 4), socket.MSG_CMSG_CLOEXEC
                )
                if not message:
                    return
                kind, number, pid, code = wire.REPLY.unpack(message)
            except (OSError, struct.error, trio.ClosedResourceError):
                return
            fds = array.array("i")
            for _, _, data in ancillary:
                fds.frombytes(data)
            process.heard = True
            answer = process.waiting.pop(number, None) if kind != wire.PONG else None
            if answer is None:
                for fd in fds:  # whoever asked has given up: end of file ends that init
                    os.close(fd)
            else:
                answer.errno, answer.pid, answer.fds = code, pid, list(fds)
                answer.come.set()

    async def _send(self, process: _Process, message: bytes, fds: list[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        async with self._sending:
            try:
                await process.control.sendmsg([message], rights)
            except (OSError, trio.ClosedResourceError) as error:
                if isinstance(error, OSError) and error.errno == errno.EMSGSIZE:
                    raise SandboxUnavailable("root", _TOO_MANY, "Declare directories.") from error
                raise LauncherLost("the launcher ended") from error

    # --- sandboxes

    async def prepare(self, spec: Spec) -> Sandbox:
        """A confined, waiting sandbox for one command, within five seconds.

        SandboxUnavailable names the layer that cannot be had; LauncherLost is worth a retry.
        """
        remedies.check_paths(spec)
        contained_by = remedies.containment(spec, has_cgroup=self.cgroup_root is not None)
        cgroup = Cgroup.make(self.cgroup_root) if self.cgroup_root is not None else None
        try:
            with trio.fail_after(PREPARE_S):
                return await self._confined(spec, contained_by, cgroup)
        except trio.TooSlowError as error:
            raise SandboxUnavailable("init", remedies.SLOW, remedies.SLOW_REMEDY) from error

    async def _confined(self, spec: Spec, contained_by: int, cgroup: Cgroup | None) -> Sandbox:
        sandbox: Sandbox | None = None
        try:
            sandbox = await self._fork(spec, contained_by, cgroup)
            if (broken := await sandbox.ready()) is not None:
                _refuse(broken, self.uid)
        except BaseException:
            with trio.CancelScope(shield=True):
                if sandbox is not None:
                    await sandbox.kill(UNWANTED_S)
                    await sandbox.aclose()
                elif cgroup is not None:
                    cgroup.kill()
                    cgroup.remove()
            raise
        return sandbox

    async def _fork(self, spec: Spec, contained_by: int, cgroup: Cgroup | None) -> Sandbox:
        process = self._process
        if process.lost.is_set():
            raise LauncherLost("the launcher ended, another is being started")
        if self.uid == os.getuid() and spec.files_max + FILES_KEPT > self._files:
            raise SandboxUnavailable("limits", f"files_max is {spec.files_max}", remedies.FILES)
        if contained_by == wire.BY_NAMESPACE:
            flags, steps = plan.clone_flags(spec), plan.strict(spec)
        else:
            counted = cgroup is not None and cgroup.limit_tasks(spec.tasks_max)
            flags, steps = 0, plan.bare(spec, counted=counted)
        self._numbers = (self._numbers + 1) % (1 << 32)
        number = self._numbers
        answer = process.waiting[number] = _Answer()
        request = wire.REQUEST.pack(wire.PREPARE, contained_by, number, flags) + steps
        fds = cgroup.open() if cgroup is not None else []
        try:
            await self._send(process, request, fds)
            await answer.come.wait()
        except BaseException:
            for fd in answer.fds:
                os.close(fd)
            raise
        finally:
            process.waiting.pop(number, None)
            for fd in fds:
                os.close(fd)
        if len(answer.fds) != 2:  # a pidfd and a slot
            if answer.errno:
                raise remedies.refused(answer.errno, contained_by)
            raise LauncherLost("the launcher ended while it prepared a sandbox")
        pidfd, slot = answer.fds
        identity = census.identify(answer.pid, str(cgroup.path) if cgroup else None)
        sandbox = Sandbox(identity, pidfd, socket.socket(fileno=slot), cgroup)
        sandbox.contained_by = contained_by
        sandbox.layers = _given(self.uid, cgroup)
        return sandbox


async def _death(process: _Process) -> None:
    own = os.dup(process.pidfd)  # trio lets one task wait per descriptor
    try:
        await trio.lowlevel.wait_readable(own)
    finally:
        os.close(own)


def _given(uid: int, cgroup: Cgroup | None) -> tuple[str, ...]:
    """The layers that the launcher itself makes."""
    separate = ("uid",) if uid != os.getuid() else ()
    return (*(("cgroup",) if cgroup is not None else ()), *separate)


def _refuse(broken: Broken, uid: int) -> NoReturn:
    cause = f"{broken.what}: {os.strerror(broken.errno)}" if broken.errno else broken.what
    remedy = remedies.for_step(broken.layer, broken.errno, uid)
    raise SandboxUnavailable(broken.layer, cause, remedy)


def _raise_file_limit() -> int:
    """As many as are allowed: descriptors in flight to handlers count against the soft limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
