"""PID 1 of one sandbox: builds it, waits, starts the handler, ends the tree, proves it dead.

One process per sandbox, fully confined before it waits. It is reached by its slot socket alone:
every signal is at its default, and PID 1 ignores those from inside the sandbox. End of file on
the slot means that the daemon is dead, and init's exit takes the whole pid namespace with it.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.
# ruff: noqa: SIM105

from __future__ import annotations

import _socket
import errno
import os
import resource
import select
import time
from struct import pack

from sandbox import birth, linux, root, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_NOSIGNAL = 0x4000
_SIGKILL, _SIGTERM, _SIGCONT = 9, 15, 18
# What posix_spawn resets in the handler: all but KILL and STOP, and the two that glibc keeps.
_ALL_SIGNALS = [n for n in range(1, 65) if n not in (9, 19, 32, 33)]
_CREDENTIALS = b"/run/credentials/"
# So many strays are reaped between two looks at the slot: a fork storm must not keep init busy.
_REAP_BATCH = 64
# Exit status 0 tells the template that the network namespace may be used again.
_UNCLEAN = 1


class Init:
    """One sandbox from the inside. Built by a forked child, which never returns from its life.

    ``cgroup`` is the sandbox's own cgroup.kill and cgroup.procs: they replace the pid namespace
    where there is none. ``watch`` is then the launcher's pidfd. ``ahead``: nobody waits for this
    sandbox yet, so there is time to touch every page that a dispatch will need.
    """

    def __init__(
        self,
        slot: _socket.socket,
        watch: int,
        cgroup: list[int],
        *,
        ahead: bool = False,
        traceable: bool = False,
    ) -> None:
        self.slot = slot
        self.watch = watch
        self.cgroup_kill, self.cgroup_procs = cgroup or (-1, -1)
        self.by_namespace = not cgroup
        self.ahead = ahead
        self.traceable = traceable
        self.signals = -1
        self.load = -1
        self.last_pid = 0

    def live_in_namespace(self, proc: int, ids: tuple[int, int], steps: list[Any]) -> NoReturn:
        """Forked by a template, in new namespaces; its death is the template's, PID 1 above."""
        linux.keep_fds([self.slot.fileno(), proc])
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        linux.map_self(proc, *ids)
        os.close(proc)
        layers = root.carry_out(steps)
        try:
            self.load = os.open(b"/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # a sandbox may do without /proc
        self.live(layers)

    def live_in_cgroup(self, uid: int, gid: int, plan: bytes) -> NoReturn:
        """Forked by the launcher; no namespace is new."""
        keep = [self.slot.fileno(), self.watch, self.cgroup_kill, self.cgroup_procs]
        linux.keep_fds(keep)
        # Without a pid namespace orphans would go to the host's init, uncounted.
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        if self.slot.recv(1) != wire.GO:
            os._exit(0)
        birth.become(uid, gid)
        os.umask(0o077)
        self.live(root.carry_out(root.unpacked(plan)))

    def live(self, layers: list[bytes]) -> NoReturn:
        """Confined: say so, then serve one dispatch."""
        linux.set_name(b"effectd-init")
        os.setsid()
        if self.traceable:
            try:
                linux.prctl(linux.PR_SET_PTRACER, linux.ANY_TRACER)
            except OSError:
                pass  # a kernel without Yama has no tracers to name
        else:
            # Not before the last use of /proc/self, which belongs to root from here on. It keeps
            # a handler of the same uid from tracing init or reading its memory.
            linux.prctl(linux.PR_SET_DUMPABLE, 0)
        self.signals = linux.block_child_signal()
        if self.ahead:
            self.warm()
        self.last_pid = self.newest_pid()
        self.say(wire.READY + wire.pack_list(layers))
        self.serve()

    def warm(self) -> None:
        """Go through a dispatch of nothing: a fork's first write to each page would cost then."""
        here, there = _socket.socketpair(1, 5)
        null = os.open(b"/dev/null", os.O_RDWR | os.O_CLOEXEC)
        request = wire.pack_list([wire.pack_list([b"/-"]), wire.pack_list([b"A", b"B"]), b"\0" * 4])
        rights = [(1, 1, pack("=4i", null, null, null, null))]
        there.sendmsg([wire.DISPATCH + request], rights, _NOSIGNAL)
        message, fds = _received(here)
        argv, env, _ = (wire.unpack_list(part) for part in wire.unpack_list(message[1:]))
        try:
            _spawn(argv, env, fds)
        except OSError:
            pass  # there is no such program
        here.send(wire.STARTED_BODY.pack(wire.STARTED, 0, time.monotonic_ns()), _NOSIGNAL)
        for fd in (*fds, null):
            os.close(fd)
        poll = select.poll()
        poll.register(self.signals, select.POLLIN)
        poll.poll(0)
        _is_left()
        here.send(self.record(0, 0, 0, 0, time.monotonic_ns()), _NOSIGNAL)
        _left_no_socket()
        here.close()
        there.close()

    def say(self, message: bytes) -> None:
        try:
            self.slot.send(message, _NOSIGNAL)
        except OSError:
            self.abandon()

    def abandon(self) -> NoReturn:
        """Nobody listens any more: the daemon or the launcher is dead."""
        if self.cgroup_kill >= 0:
            os.write(self.cgroup_kill, b"1")
        os._exit(_UNCLEAN)

    def serve(self) -> NoReturn:
        """Wait for the one dispatch; start it; see it end."""
        poll = select.poll()
        poll.register(self.slot, select.POLLIN)
        if not self.by_namespace:
            poll.register(self.watch, select.POLLIN)
            if any(fd == self.watch for fd, _ in poll.poll()):
                self.abandon()
        message, fds = _received(self.slot)
        if not message and self.by_namespace:
            os._exit(0)  # discarded before it was used
        if message[:1] != wire.DISPATCH:
            self.abandon()
        if len(fds) != 4:  # the kernel drops what does not fit under RLIMIT_NOFILE
            self.failed(OSError(errno.EMFILE, ""), b"send")
        gate = time.monotonic_ns()
        leader = self.start(message[1:], fds)
        self.say(wire.STARTED_BODY.pack(wire.STARTED, leader, gate))
        for fd in fds:
            os.close(fd)
        poll.register(self.signals, select.POLLIN)
        self.end(self.attend(poll, leader), gate)

    def start(self, request: bytes, fds: list[int]) -> int:
        """The handler's pid. exec's own errno otherwise, and nothing has run."""
        argv, env, secrets = (wire.unpack_list(part) for part in wire.unpack_list(request))
        try:
            for name, value in zip(secrets[::2], secrets[1::2], strict=True):
                _write_secret(_CREDENTIALS + name, value)
        except OSError as error:
            self.failed(error, b"secrets")
        try:
            return _spawn(argv, env, fds)
        except OSError as error:
            self.failed(error, b"exec")

    def failed(self, error: OSError, stage: bytes) -> NoReturn:
        self.say(wire.FAILED_BODY.pack(wire.FAILED, error.errno or 0) + stage)
        os._exit(0)

    def attend(self, poll: select.poll, leader: int) -> os.waitid_result:
        """How the leader ended. Until then: pass on the daemon's word, reap what was orphaned."""
        flags = os.WEXITED | os.WNOHANG
        timeout: int | None = None
        while (info := os.waitid(os.P_PID, leader, flags)) is None:
            for fd, _ in poll.poll(timeout):
                if fd == self.slot.fileno():
                    self.obey(_order(self.slot))
                elif fd == self.watch:
                    self.abandon()
            try:
                while os.read(self.signals, 4096):
                    pass
            except BlockingIOError:
                pass
            timeout = 0 if _reap(leader, _REAP_BATCH) else None
        return info

    def obey(self, order: bytes) -> None:
        if not order:
            self.abandon()
        if order == wire.TERMINATE:
            self.signal_all(_SIGTERM)
            self.signal_all(_SIGCONT)  # what is stopped could not act on SIGTERM
        elif order == wire.KILL:
            self.signal_all(_SIGKILL)

    def signal_all(self, number: int) -> None:
        """To every process of the sandbox but init itself."""
        if self.by_namespace:
            try:
                os.kill(-1, number)
            except ProcessLookupError:
                pass
            return
        # kill(-1) would reach every process of this uid. A pid is looked up, then held by a
        # pidfd, then looked up again: had it been recycled, it would no longer be listed.
        for pid in self.members():
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                if pid in self.members():
                    linux.send_signal(pidfd, number)
            except OSError:
                pass  # ended meanwhile, or became another uid by a set-id program
            finally:
                os.close(pidfd)

    def members(self) -> list[int]:
        """The pids in this sandbox's cgroup, init's own left out."""
        pids = os.pread(self.cgroup_procs, 1 << 16, 0).split()
        return [pid for pid in map(int, pids) if pid != os.getpid()]

    def end(self, leader: os.waitid_result, gate: int) -> NoReturn:
        """The leader has ended: so does everything else, at once. The record is the proof."""
        exited = time.monotonic_ns()
        killed = 0
        # Whoever lives in here descends from init: where no child is, there is nobody.
        if self.by_namespace and _is_left():
            # One pass is enough: a fork that is under way fails when its parent has a fatal
            # signal pending, so nobody can be born behind this call's back.
            self.signal_all(_SIGKILL)
            killed = _reap_all()
        self.say(self.record(leader.si_code, leader.si_status, killed, gate, exited))
        if not self.by_namespace:
            _order(self.slot)  # the daemon writes cgroup.kill, or is dead
            self.abandon()
        os._exit(0 if not killed and _left_no_socket() else _UNCLEAN)

    def record(self, code: int, status: int, killed: int, gate: int, exited: int) -> bytes:
        """What is said of a tree that has ended."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_us = round((usage.ru_utime + usage.ru_stime) * 1_000_000)
        return wire.ENDED_BODY.pack(
            *(wire.ENDED, code, status, killed, self.started()),
            *(usage.ru_maxrss, cpu_us, gate, exited, time.monotonic_ns()),
        )

    def started(self) -> int:
        """How many tasks the handler started, itself included; -1 when that cannot be known."""
        return self.newest_pid() - self.last_pid if self.load >= 0 else -1

    def newest_pid(self) -> int:
        """The pid that was given last: they are given in order, to threads as well."""
        return int(os.pread(self.load, 128, 0).rsplit(None, 1)[1]) if self.load >= 0 else 0


def _reap(leader: int, most: int) -> bool:
    """Reap up to ``most`` strays, never the leader; True when more may wait.

    waitid() shows zombies in no order that could be relied on: a leader in front hides the rest,
    which is fine, because then the tree is about to be ended.
    """
    flags = os.WEXITED | os.WNOHANG
    for _ in range(most):
        try:
            info = os.waitid(os.P_ALL, 0, flags | os.WNOWAIT)
        except ChildProcessError:
            return False
        if info is None or info.si_pid == leader:
            return False
        os.waitid(os.P_PID, info.si_pid, flags)
    return True


def _is_left() -> bool:
    """Whether a child still lives, once those that ended by themselves are reaped."""
    try:
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None:
            pass
    except ChildProcessError:
        return False
    return True


def _reap_all() -> int:
    """Wait until there is no child left, and so no other process in the pid namespace."""
    count = 0
    try:
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED)
            count += 1
    except ChildProcessError:
        return count


def _left_no_socket() -> bool:
    """Whether the network namespace is as it was: no socket in it, no connection that lingers."""
    try:
        fd = os.open(b"/proc/net/sockstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    words = os.read(fd, 4096).split()
    os.close(fd)
    # sockets: used N / TCP: inuse N orphan N tw N ...
    return words[2] == words[5] == words[9] == b"0"


def _order(slot: _socket.socket) -> bytes:
    """One byte of the daemon's, or nothing at its end."""
    try:
        return slot.recv(1)
    except ConnectionResetError:
        return b""  # closed as well, with something that we said unread


def _received(slot: _socket.socket) -> tuple[bytes, list[int]]:
    """The next message with its descriptors; without any when not all of them came."""
    try:
        message, fds = wire.receive(slot, 4)
    except ConnectionResetError:
        return b"", []
    return message, fds or []


def _spawn(argv: list[bytes], env: list[bytes], fds: list[int]) -> int:
    """The handler's pid, once exec has happened; exec's OSError otherwise."""
    return os.posix_spawn(
        argv[0],
        argv,
        dict(zip(env[::2], env[1::2], strict=True)),
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(fds)],
        setsid=True,
        setsigmask=[],
        setsigdef=_ALL_SIGNALS,
    )


def _write_secret(path: bytes, value: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    fd = os.open(path, flags, 0o400)
    try:
        view = memoryview(value)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
