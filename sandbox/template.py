"""One profile's root, built once; forks the inits that wait in it.

PID 1 of a pid namespace of its own, so that its death ends every attempt it ever made. An attempt
still gets its own user namespace, in which the template's mounts are locked, its own pid, mount,
IPC, cgroup and network namespaces, /proc, /tmp and /run. End of file on its socket means that
nothing more is wanted: it ends with its last attempt.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.

from __future__ import annotations

import _socket
import gc
import os

from sandbox import birth, linux, root, wire
from sandbox.forker import Forker, override
from sandbox.init import Init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_NOSIGNAL = 0x4000
# More network namespaces than that are not kept for the next attempt.
_FREE_MAX = 8


class Template(Forker):
    """Built in the launcher's child, which never returns from `live`."""

    def live(self, launcher: int, uid: int, gid: int, plan: bytes) -> NoReturn:
        """Build the root, say so, then serve. ``launcher`` is the launcher's pidfd."""
        self.ids = uid, gid
        linux.keep_fds([self.control.fileno(), self.me, launcher])
        linux.set_name(b"effectd-root")
        birth.die_with(launcher)
        if self.control.recv(1) != wire.GO:  # the id maps are written
            os._exit(0)
        birth.become(uid, gid)
        birth.die_with(launcher)  # cleared by the change of ids
        os.close(launcher)
        self.build(plan)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        gc.collect()
        gc.freeze()
        self.control.send(wire.READY + wire.pack_list(self.layers), _NOSIGNAL)
        self.run()
        self.poll.unregister(self.control)
        while self.children:
            for fd, _ in self.poll.poll():
                self.reap(fd)
        os._exit(0)

    def build(self, plan: bytes) -> None:
        of_root, of_attempt, flags, own_network, traceable = wire.unpack_list(plan)
        self.attempt = root.unpacked(of_attempt)
        self.flags = int(flags)
        self.traceable = bool(int(traceable))
        # The host's, in which a child finds itself before it has one of its own.
        self.proc = os.open(b"/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.home = -1
        self.free: list[int] = []
        if int(own_network):
            self.home = self.network()
        os.umask(0o022)
        self.layers = root.carry_out(root.unpacked(of_root))
        os.umask(0o077)
        os.setsid()

    def network(self) -> int:
        """A descriptor of the network namespace that this process is in."""
        return os.open("self/ns/net", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)

    @override
    def obey(self, kind: int, number: int, flags: int, plan: bytes, fds: list[int]) -> None:  # noqa: ARG002 - a template has its own
        """Fork an init. It reports on its own slot; here only that it exists."""

        def child(slot: _socket.socket) -> NoReturn:
            mine = Init(slot, -1, [], ahead=kind == wire.PREPARE_AHEAD, traceable=self.traceable)
            birth.guarded(slot, lambda: mine.live_in_namespace(self.proc, self.ids, self.attempt))

        self.fork(number, self.flags, fds[0] if fds else -1, child)

    @override
    def clone(self, flags: int, cgroup: int) -> tuple[int, int, int]:
        """Into a network namespace that is the child's alone: a used one that was left clean, or
        a new one. Nothing of ours is made in it; the slot's socket exists by now."""
        if self.home < 0:
            return super().clone(flags, cgroup)
        if self.free:
            lent = self.free.pop()
            linux.enter_namespace(lent, linux.CLONE_NEWNET)
        else:
            linux.new_namespace(linux.CLONE_NEWNET)
            lent = -1
        try:
            if lent < 0:
                linux.loopback_up()
                lent = self.network()
            pid, pidfd = linux.clone3(flags, cgroup)
            if pid == 0:
                return 0, -1, -1
        except OSError:
            if lent >= 0:
                self.free.append(lent)  # nobody was in it
            linux.enter_namespace(self.home, linux.CLONE_NEWNET)
            raise
        linux.enter_namespace(self.home, linux.CLONE_NEWNET)
        return pid, pidfd, lent

    @override
    def reaped(self, given: int, clean: bool) -> None:
        if given < 0:
            return
        if clean and len(self.free) < _FREE_MAX:
            self.free.append(given)
        else:
            os.close(given)
