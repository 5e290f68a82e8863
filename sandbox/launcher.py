"""The process that makes sandboxes: exec'd once before the daemon has threads or secrets.

One thread, next to no memory, no path look-up (a hung file system would stop every sandbox) but
for /proc/PID of its own children. It parses only the daemon's messages. When it dies, so does
every template with every init; when the daemon dies, so does it.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.

from __future__ import annotations

import _socket
import gc
import os
import resource
import select

from sandbox import birth, linux, wire
from sandbox.forker import Forker, override
from sandbox.init import Init
from sandbox.template import Template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_AF_UNIX, _SEQPACKET = 1, 5
_SIGKILL = 9


class Launcher(Forker):
    """Makes templates, and sandboxes that have no namespaces. Handlers become uid:gid."""

    def __init__(self, control: _socket.socket, uid: int, gid: int) -> None:
        super().__init__(control)
        self.uid = uid
        self.gid = gid
        self.mapped = False  # whether the child that is being made has a user namespace

    @override
    def obey(self, kind: int, number: int, flags: int, plan: bytes, fds: list[int]) -> None:
        if kind == wire.PING:
            self.answer(wire.PONG, number)
            return
        cgroup, *of_cgroup = fds or [-1]
        # Dumpable while the child is made, and the child with it: otherwise /proc/PID would
        # belong to root, and its id maps could not be written.
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        self.mapped = kind == wire.TEMPLATE
        try:
            if self.mapped:

                def template(control: _socket.socket) -> NoReturn:
                    mine = Template(control)
                    birth.guarded(control, lambda: mine.live(self.me, self.uid, self.gid, plan))

                self.fork(number, flags, cgroup, template)
            else:

                def bare(slot: _socket.socket) -> NoReturn:
                    mine = Init(slot, self.me, of_cgroup)
                    birth.guarded(slot, lambda: mine.live_in_cgroup(self.uid, self.gid, plan))

                self.fork(number, flags, cgroup, bare)
        finally:
            linux.prctl(linux.PR_SET_DUMPABLE, 0)

    @override
    def born(self, pid: int, control: int) -> None:
        """Give a template its one id; let any child go on."""
        if self.mapped:
            linux.write_maps(pid, self.uid, self.gid)
        os.write(control, wire.GO)


def main(control: int, daemon: int, uid: int, gid: int) -> None:
    """``control`` is the socket, ``daemon`` the daemon's pidfd; handlers become uid:gid."""
    linux.prctl(linux.PR_SET_PDEATHSIG, _SIGKILL)
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    if poll.poll(0):
        return  # it died before the signal was armed
    linux.keep_fds([control])
    linux.set_name(b"effectd-launch")
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    # Python's handler of SIGINT would run in PID 1 of every sandbox, and a SIGCHLD that the
    # daemon was started with ignored would reap the handlers before init does.
    linux.default_signals(range(1, 65))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if os.getuid() == uid:
        linux.limit_capabilities()
    else:
        os.setgroups([])
        linux.limit_capabilities((linux.CAP_SETUID, linux.CAP_SETGID))
    launcher = Launcher(_socket.socket(_AF_UNIX, _SEQPACKET, 0, control), uid, gid)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page it touches
    gc.disable()
    launcher.run()
