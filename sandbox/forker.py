"""The loop that launcher and template share: forks on request, says so, reaps what it forked."""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.

from __future__ import annotations

import _socket
import os
import select
import sys
from struct import pack

from sandbox import linux, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from typing_extensions import override
else:

    def override(method: Callable) -> Callable:
        """As the one of ``typing``, without that module."""
        return method


__all__ = ["Forker", "override"]

_DONTWAIT, _NOSIGNAL = 0x40, 0x4000
_EMFILE = 24
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_AF_UNIX, _SEQPACKET = 1, 5
_SIGKILL = 9
_FDS_MAX = 4
# The daemon reads its answers promptly or is as good as dead.
_QUEUE_MAX = 1_024


class Forker:
    """Serves the daemon over ``control``, with one thread and no path look-up."""

    def __init__(self, control: _socket.socket) -> None:
        self.control = control
        self.me = os.pidfd_open(os.getpid())
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.children: dict[int, int] = {}  # pidfd -> what the child was lent, or -1
        self.answers: list[tuple[bytes, list[int]]] = []
        self.blocked = False  # whether an answer waits for room in the socket

    def run(self) -> None:
        """Serve until the daemon closes its end."""
        listening = True
        while listening:
            for fd, events in self.poll.poll():
                if fd != self.control.fileno():
                    self.reap(fd)
                elif events & (select.POLLIN | select.POLLHUP):
                    listening = self.listen()
            self.flush()

    def listen(self) -> bool:
        """One message of the daemon's; False at its end."""
        try:
            message, fds = wire.receive(self.control, _FDS_MAX)
        except ConnectionResetError:
            return False  # closed as well, with an answer of ours unread
        if not message:
            return False
        kind, number, flags = wire.REQUEST.unpack_from(message)
        if fds is None:
            self.answer(wire.REFUSED, number, errno=_EMFILE)
            return True
        try:
            self.obey(kind, number, flags, message[wire.REQUEST.size :], fds)
        except OSError as error:
            self.answer(wire.REFUSED, number, errno=error.errno or 0)
        for fd in fds:
            os.close(fd)
        return True

    def obey(self, kind: int, number: int, flags: int, plan: bytes, fds: list[int]) -> None:
        """What to do about one request. OSError refuses it."""
        raise NotImplementedError

    def fork(
        self,
        number: int,
        flags: int,
        cgroup: int,
        child: Callable[[_socket.socket], NoReturn],
    ) -> None:
        """Fork into ``cgroup`` and new namespaces. ``child`` gets its end of a socket of its own,
        of which the daemon gets the other."""
        made: list[int] = []  # what this process must not keep, whatever happens
        pid, pidfd = 0, -1
        try:
            theirs, ours = _socket.socketpair(_AF_UNIX, _SEQPACKET)
            made += [theirs.detach(), ours.detach()]
            pid, pidfd, given = self.clone(flags, cgroup)
            if pid == 0:
                child(_socket.socket(_AF_UNIX, _SEQPACKET, 0, made[1]))
            made.append(os.dup(pidfd))
            self.born(pid, made[0])
        except BaseException:
            if pid:
                self.discard(pid, pidfd)
            for fd in made:
                os.close(fd)
            raise
        os.close(made[1])
        self.answer(wire.PREPARED, number, pid, fds=[made[2], made[0]])
        self.children[pidfd] = given
        self.poll.register(pidfd, select.POLLIN)

    def clone(self, flags: int, cgroup: int) -> tuple[int, int, int]:
        """pid, pidfd, and a descriptor of what the child was lent, or -1."""
        return (*linux.clone3(flags, cgroup), -1)

    def born(self, pid: int, control: int) -> None:
        """The child exists and the daemon does not know yet; ``control`` is the daemon's end."""

    def discard(self, pid: int, pidfd: int) -> None:
        """End a child that got no further than clone3. Its pid is ours until it is reaped."""
        os.kill(pid, _SIGKILL)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        os.close(pidfd)

    def reap(self, pidfd: int) -> None:
        info = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        assert info is not None
        self.poll.unregister(pidfd)
        os.close(pidfd)
        self.reaped(self.children.pop(pidfd), info.si_code == os.CLD_EXITED and not info.si_status)

    def reaped(self, given: int, clean: bool) -> None:
        """A child is gone; ``clean`` when it left nothing in what it was lent."""

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
            except OSError:
                pass  # nobody listens any more: end of file ends what would have been handed over
            self.answers.pop(0)
            for fd in fds:
                os.close(fd)
        if bool(self.answers) != self.blocked:
            self.blocked = not self.blocked
            wanted = select.POLLIN | (select.POLLOUT if self.blocked else 0)
            self.poll.modify(self.control, wanted)
