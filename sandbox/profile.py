"""A template as the daemon holds it: forks the sandboxes of one spec until it is retired."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import trio

from frozen import frozen
from sandbox import census, cgroups, plan, remedies, scarce, wire
from sandbox.cgroups import Cgroup
from sandbox.process import Forked, Process, Refused, received, rights, unpacked_fds
from sandbox.root import FOLLOW
from sandbox.slot import Broken, Sandbox, broken_of
from sandbox.spec import LauncherLost, NamespacesRefused, SandboxFault, SandboxUnavailable, Spec

# How long a preparation that failed may wait for its init to die: one that hangs in a look-up on a
# dead file system stays, without descriptors of ours, until that ends.
UNWANTED_S = 0.5
# How long until everybody has noticed that a template or its launcher is dead.
NOTICED_S = 0.5
# A template answers at once, or is lost.
EXCHANGE_S = 4.0
# A cgroup stays "busy" until the last process in it is gone.
REMOVE_S = 5.0

Stamp = tuple[tuple[object, ...], ...]


class TemplateLost(SandboxFault):
    """The template ended; another can be made."""


def stamp_of(spec: Spec) -> Stamp:
    """What the paths of ``spec`` lead to now: another stamp means that a template shows what is
    gone. Blocks as long as a file system does.

    Device and inode are enough for what is mounted: a mount holds its inode, whose number cannot
    be used again meanwhile, and shows whatever happens to its contents. A link is held by nobody.
    What is hidden is looked at as well: where nothing was, nothing stands in its place.
    """
    found: list[tuple[object, ...]] = []
    looked = {**plan.sources(spec), **dict.fromkeys(spec.hidden, 0)}
    for path, flags in looked.items():
        try:
            status = os.stat(path, follow_symlinks=bool(flags & FOLLOW))  # noqa: PTH116 - on the hot path
        except OSError as error:
            found.append((error.errno,))
            continue
        is_link = status.st_mode & 0o170000 == 0o120000
        changed = status.st_ctime_ns if is_link else 0
        found.append((status.st_dev, status.st_ino, changed))
    return tuple(found)


@frozen
class Home:
    """Where sandboxes are made: for which ids, below which cgroup."""

    uid: int
    gid: int
    cgroup_root: Path | None

    def cgroup(self, spec: Spec | None = None) -> Cgroup | None:
        """A new cgroup: an attempt's with the limits of ``spec``, else a template's."""
        if self.cgroup_root is None:
            return None
        if spec is None:
            return Cgroup.make(self.cgroup_root, gid=self.gid)
        return Cgroup.make(
            self.cgroup_root,
            gid=self.gid,
            memory_max=spec.memory_max,
            tasks_max=spec.tasks_max,
        )

    def steps(self, spec: Spec) -> bytes:
        """What a template of ``spec`` is told."""
        return plan.template(spec, cgroups.bounded(self.cgroup_root))

    def sandbox(self, forked: Forked, contained_by: int, cgroup: Cgroup | None) -> Sandbox:
        """The daemon's end of an init, with the layers that were there before it.

        OSError, with all that was forked closed, when there is no descriptor for it.
        """
        try:
            identity = census.identify(forked.pid, str(cgroup.path) if cgroup else None)
        except OSError:
            forked.socket.close()
            os.close(forked.pidfd)
            raise
        sandbox = Sandbox(identity, forked.pidfd, forked.socket, cgroup)
        sandbox.contained_by = contained_by
        given = ["uid"] if self.uid != os.getuid() else []
        if contained_by == wire.BY_NAMESPACE:
            given.append("tasks")  # RLIMIT_NPROC counts in a user namespace its own processes alone
        if cgroup is not None:
            given += ["cgroup", *cgroup.limits]
        sandbox.layers = tuple(given)
        return sandbox

    async def confined(self, sandbox: Sandbox) -> Sandbox:
        """Wait until init is ready; SandboxUnavailable, and nothing left, when it cannot be."""
        broken: Broken | None = None
        confined = False
        try:
            broken = await sandbox.ready()
            confined = broken is None
        finally:
            if not confined:
                with trio.CancelScope(shield=True):
                    await sandbox.kill(UNWANTED_S)
                    await sandbox.aclose()
        if broken is not None:
            raise unavailable(broken, self.uid)
        return sandbox


def unavailable(broken: Broken, uid: int) -> SandboxUnavailable:
    """What it means that a step failed inside."""
    cause = f"{broken.what}: {os.strerror(broken.errno)}" if broken.errno else broken.what
    remedy = remedies.for_step(broken.layer, broken.errno, uid, broken.what)
    step = broken.what.partition(" ")[0]
    if remedies.without_rights(broken.layer, broken.errno, step):
        return NamespacesRefused(broken.layer, cause, remedy)
    return SandboxUnavailable(broken.layer, cause, remedy)


def _opened(cgroup: Cgroup | None) -> list[int]:
    """The directory to be born into."""
    if cgroup is None:
        return []
    return [os.open(cgroup.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]


async def removed(cgroup: Cgroup | None) -> None:
    """Give back a cgroup that nobody will hold. Bounded, and not cancellable: it stays "busy"
    until the last process in it is gone, and one may just be born."""
    if cgroup is None:
        return
    with trio.CancelScope(shield=True), trio.move_on_after(REMOVE_S):
        cgroup.kill()
        while not cgroup.remove():
            await trio.sleep(0.002)
            cgroup.kill()


@contextlib.asynccontextmanager
async def lent(cgroup: Cgroup | None, contained_by: int) -> AsyncGenerator[None]:
    """While a process is made in ``cgroup``: when it is not, the cgroup is given back, and what a
    `Refused` means, or a descriptor that could not be had, is raised instead."""
    refused: Refused | None = None
    scarcity: OSError | None = None
    made = False
    try:
        yield
        made = True
    except Refused as error:
        refused = error
    except OSError as error:
        scarcity = error
    finally:
        if not made:
            with trio.CancelScope(shield=True):
                await removed(cgroup)
    if refused is not None:
        raise remedies.refused(refused.errno, contained_by) from refused
    if scarcity is not None:
        raise scarce.refused(scarcity.errno or 0) from scarcity


class Profile:
    """One template. Its attempts outlive its retirement, not its death."""

    def __init__(self, home: Home, spec: Spec, process: Process, stamp: Stamp) -> None:
        self.spec = spec
        self.process = process
        self.stamp = stamp
        self.born = trio.current_time()
        self.ready: list[Sandbox] = []
        self.live = 0
        """Sandboxes that were given out and whose tree has not ended yet."""
        self.wanted = 0
        """Requests that wait for a sandbox."""
        self.taken_at = 0.0
        """When the last one was given out (trio's clock)."""
        self.retired = False
        self.failed = False
        """Whether nothing more is to be prepared ahead, because that failed."""
        self.changed: Callable[[], None] = lambda: None
        self._home = home
        self._layers: tuple[str, ...] = ()
        self._sending = trio.Lock()
        self._numbers = 0
        self._pidfd = -1
        self._cgroup: Cgroup | None = None
        self._control: socket.socket

    async def build(self) -> None:
        """Make the template. SandboxUnavailable, LauncherLost."""
        self._cgroup = self._home.cgroup()
        async with lent(self._cgroup, wire.BY_NAMESPACE):
            fds = _opened(self._cgroup)
            try:
                flags, steps = plan.template_flags(self.spec), self._home.steps(self.spec)
                forked = await self.process.request(wire.TEMPLATE, flags, steps, fds)
            finally:
                for fd in fds:
                    os.close(fd)
        self._pidfd = forked.pidfd
        self._control = forked.socket
        self._control.setblocking(False)
        try:
            self._layers = await self._built()
        except BaseException:
            self._kill()
            with trio.CancelScope(shield=True), trio.move_on_after(UNWANTED_S):
                self.retired = True
                await self.buried()
            raise

    async def _built(self) -> tuple[str, ...]:
        try:
            await trio.lowlevel.wait_readable(self._control)
            message = self._control.recv(4096)
        except OSError:
            message = b""
        if message[:1] == wire.READY:
            names = tuple(os.fsdecode(name) for name in wire.unpack_list(message[1:]))
            return tuple(name for name in names if name != "proc")  # an attempt has its own
        with contextlib.suppress(ValueError, struct.error):
            raise unavailable(broken_of(message), self._home.uid)
        with trio.move_on_after(NOTICED_S):
            await self.process.lost.wait()
            raise LauncherLost("the launcher ended while it made a template")
        raise SandboxUnavailable("root", remedies.DIED, remedies.DIED_REMEDY)

    async def fork(self, *, ahead: bool) -> Sandbox:
        """A confined, waiting sandbox. SandboxUnavailable; TemplateLost is worth another try.

        With ``ahead`` nobody waits for it, and it is made to dispatch a little faster.
        """
        cgroup = self._home.cgroup(self.spec)
        async with lent(cgroup, wire.BY_NAMESPACE):
            kind = wire.PREPARE_AHEAD if ahead else wire.PREPARE
            forked = await self._forked(kind, cgroup)
            sandbox = self._home.sandbox(forked, wire.BY_NAMESPACE, cgroup)
        sandbox.layers += self._layers
        failed: SandboxUnavailable
        try:
            return await self._home.confined(sandbox)
        except SandboxUnavailable as error:
            failed = error
        # It ended without a word: because its template did?
        if failed.layer == "init" and await self._is_lost():
            raise TemplateLost("the template ended") from failed
        raise failed

    async def _is_lost(self) -> bool:
        """Whether the template is dead, or is just seen to die."""
        ended = select.poll()
        with trio.move_on_after(NOTICED_S):
            while not self.retired:
                ended.register(self._pidfd, select.POLLIN)
                if ended.poll(0):
                    return True
                await trio.sleep(0.005)
        return self.retired

    async def _forked(self, kind: int, cgroup: Cgroup | None) -> Forked:
        fds = _opened(cgroup)
        try:
            async with self._sending:
                # Not cancellable: the answer, and the init with it, would come when nobody
                # reads it. A template answers at once or is lost.
                with trio.move_on_after(EXCHANGE_S, shield=True):
                    try:
                        return await self._exchange(kind, fds)
                    except (OSError, struct.error, trio.ClosedResourceError) as error:
                        if isinstance(error, OSError) and error.errno in scarce.ERRORS:
                            raise
                        raise TemplateLost("the template ended") from error
                # Not killed: its other attempts may be well.
                self.retire()
                raise TemplateLost("the template does not answer")
        finally:
            for fd in fds:
                os.close(fd)

    async def _exchange(self, kind: int, fds: list[int]) -> Forked:
        if self.retired:
            raise TemplateLost("the template is retired")
        self._numbers = (self._numbers + 1) % (1 << 32)
        # One request at a time, so there is room for it.
        self._control.sendmsg([wire.REQUEST.pack(kind, self._numbers, 0)], rights(fds))
        await trio.lowlevel.wait_readable(self._control)
        message, ancillary, _, _ = self._control.recvmsg(
            4096, socket.CMSG_SPACE(2 * 4), socket.MSG_CMSG_CLOEXEC
        )
        mine = unpacked_fds(ancillary)
        _, number, _, code = wire.REPLY.unpack(message)  # struct.error at its end
        assert number == self._numbers, "a template answers in order"
        if code:
            raise Refused(code)
        return received(mine)

    def retire(self) -> None:
        """No more from it: it ends with its last attempt."""
        if not self.retired:
            self.retired = True
            self._close()
            self.changed()

    def _close(self) -> None:
        """End of file for the template. A task that waits for its answer hears of it."""
        if self._control.fileno() >= 0:
            trio.lowlevel.notify_closing(self._control)
            self._control.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def buried(self) -> None:
        """Wait until the retired template is gone, and give back what it held."""
        try:
            await trio.lowlevel.wait_readable(self._pidfd)
        except trio.Cancelled:
            # The launcher is being ended, and this one with it.
            with trio.CancelScope(shield=True), trio.move_on_after(UNWANTED_S):
                await trio.lowlevel.wait_readable(self._pidfd)
            raise
        finally:
            self._close()
            os.close(self._pidfd)
            with trio.CancelScope(shield=True):
                await removed(self._cgroup)
