"""The process that makes sandboxes: exec'd once before the daemon has threads or secrets.

One thread, next to no memory, no path look-up (a hung file system would stop every sandbox) but
for /proc/PID of its own children. It parses only the daemon's messages. When it dies, so does
every init, by PDEATHSIG; when the daemon dies, so does it.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.

from __future__ import annotations

import _socket
import gc
import os
import resource
import select
import sys
from struct import pack, unpack

from sandbox import linux, wire
from sandbox.init import Init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CLOEXEC, _DONTWAIT, _NOSIGNAL = 0x40000000, 0x40, 0x4000
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_AF_UNIX, _SEQPACKET = 1, 5
_SIGKILL = 9
# The daemon reads its answers promptly or is as good as dead.
_QUEUE_MAX = 1_024


class Launcher:
    """Serves one daemon over ``control`` until either is gone."""

    def __init__(self, control: _socket.socket, uid: int, gid: int) -> None:
        self.control = control
        self.uid = uid
        self.gid = gid
        self.me = os.pidfd_open(os.getpid())
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.inits: dict[int, int] = {}  # pidfd -> pid
        self.answers: list[tuple[bytes, list[int]]] = []

    def run(self) -> None:
        """Serve until the daemon closes its end."""
        while True:
            for fd, events in self.poll.poll():
                if fd != self.control.fileno():
                    self.reap(fd)
                elif events & (select.POLLIN | select.POLLHUP) and not self.request():
                    return
            self.flush()

    def request(self) -> bool:
        """One message of the daemon's; False at its end."""
        message, ancillary, _, _ = self.control.recvmsg(
            wire.MESSAGE_MAX, _socket.CMSG_SPACE(3 * 4), _CLOEXEC
        )
        if not message:
            return False
        raw = b"".join(data for _, _, data in ancillary)
        fds = list(unpack(f"={len(raw) // 4}i", raw))
        kind, containment, number, flags = wire.REQUEST.unpack_from(message)
        if kind == wire.PING:
            self.answer(wire.PONG, number)
        else:
            self.prepare(number, containment, flags, message[wire.REQUEST.size :], fds)
        for fd in fds:
            os.close(fd)
        return True

    def prepare(
        self, number: int, containment: int, flags: int, plan: bytes, fds: list[int]
    ) -> None:
        """Fork an init. It reports on its own slot; here only that it exists."""
        cgroup, *of_cgroup = fds if len(fds) == 3 else (-1, -1, -1)
        made: list[int] = []  # what this process must not keep, whatever happens
        pid, pidfd = 0, -1
        # Dumpable while the child is made, and the child with it: otherwise /proc/PID would
        # belong to root, and its id maps could not be written.
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        try:
            theirs, ours = _socket.socketpair(_AF_UNIX, _SEQPACKET)
            made += [theirs.detach(), ours.detach()]
            pid, pidfd = linux.clone3(flags, cgroup)
            if pid == 0:
                slot = _socket.socket(_AF_UNIX, _SEQPACKET, 0, made[1])
                self.child(Init(slot, self.me, of_cgroup, containment), plan)
            made.append(os.dup(pidfd))
            if containment == wire.BY_NAMESPACE:
                linux.write_maps(pid, self.uid, self.gid)
            os.write(made[0], wire.GO)
        except OSError as error:
            if pid:
                self.discard(pid, pidfd)
            self.answer(wire.REFUSED, number, errno=error.errno or 0)
        else:
            slot_fd, ours_fd, pidfd_copy = made
            self.answer(wire.PREPARED, number, pid, fds=[pidfd_copy, slot_fd])
            made = [ours_fd]
            self.inits[pidfd] = pid
            self.poll.register(pidfd, select.POLLIN)
        finally:
            linux.prctl(linux.PR_SET_DUMPABLE, 0)
            for fd in made:
                os.close(fd)

    def child(self, init: Init, plan: bytes) -> NoReturn:
        """Errors leave as messages only: stderr is /dev/null, tracebacks tell."""
        try:
            init.run(self.uid, self.gid, plan)
        except Exception as error:  # noqa: BLE001 - reported, and the process ends here
            errno = (error.errno or 0) if isinstance(error, OSError) else 0
            init.broken(b"init", errno, repr(error).encode(errors="replace"))
        finally:
            os._exit(1)

    def discard(self, pid: int, pidfd: int) -> None:
        """End an init that got no further than clone3. Its pid is ours until it is reaped."""
        os.kill(pid, _SIGKILL)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        os.close(pidfd)

    def reap(self, pidfd: int) -> None:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        self.poll.unregister(pidfd)
        del self.inits[pidfd]
        os.close(pidfd)

    def answer(
        self, kind: int, number: int, pid: int = 0, *, errno: int = 0, fds: list[int] | None = None
    ) -> None:
        self.answers.append((wire.REPLY.pack(kind, number, pid, errno), fds or []))
        if len(self.answers) > _QUEUE_MAX:
            sys.exit(1)

    def flush(self) -> None:
        """Send what can be sent without waiting."""
        while self.answers:
            message, fds = self.answers[0]
            rights = [(_SOL_SOCKET, _SCM_RIGHTS, pack(f"={len(fds)}i", *fds))] if fds else []
            try:
                self.control.sendmsg([message], rights, _DONTWAIT | _NOSIGNAL)
            except BlockingIOError:
                break
            self.answers.pop(0)
            for fd in fds:
                os.close(fd)
        wanted = select.POLLIN | (select.POLLOUT if self.answers else 0)
        self.poll.modify(self.control, wanted)


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
