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
from struct import unpack

from sandbox import linux, root, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CLOEXEC = 0x40000000  # MSG_CMSG_CLOEXEC: Python receives descriptors inheritable otherwise
_NOSIGNAL = 0x4000
_SIGKILL, _SIGTERM, _SIGCONT = 9, 15, 18
# What posix_spawn resets in the handler: all but KILL and STOP, and the two that glibc keeps.
_ALL_SIGNALS = [n for n in range(1, 65) if n not in (9, 19, 32, 33)]
_CREDENTIALS = b"/run/credentials/"
# So many strays are reaped between two looks at the slot: a fork storm must not keep init busy.
_REAP_BATCH = 64


class Init:
    """One sandbox from the inside. Built by the launcher's child, which never returns from `run`.

    ``watch`` is the launcher's pidfd. ``cgroup`` is the sandbox's own cgroup.kill and cgroup.procs
    (or -1, -1): with ``contained_by`` BY_CGROUP they replace the pid namespace.
    """

    def __init__(
        self, slot: _socket.socket, watch: int, cgroup: list[int], contained_by: int
    ) -> None:
        self.slot = slot
        self.watch = watch
        self.cgroup_kill, self.cgroup_procs = cgroup
        self.contained_by = contained_by
        self.signals = -1

    def run(self, uid: int, gid: int, plan: bytes) -> NoReturn:
        """Confine this process, say so, then serve one dispatch."""
        keep = [self.slot.fileno(), self.watch, self.cgroup_kill, self.cgroup_procs]
        linux.keep_fds([fd for fd in keep if fd >= 0])
        linux.set_name(b"effectd-init")
        if self.contained_by == wire.BY_NAMESPACE:
            self.die_with_launcher()
        else:
            # Without a pid namespace orphans would go to the host's init, uncounted.
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        if self.slot.recv(1) != wire.GO:  # the id maps are written
            os._exit(0)
        self.become(uid, gid)
        os.umask(0o022)
        layers = self.build(plan)
        os.umask(0o077)
        os.setsid()
        # Not before the oom score is written: /proc/self belongs to root from here on. It keeps
        # a handler of the same uid from tracing init or reading its memory.
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        self.signals = linux.block_child_signal()
        self.say(wire.READY + wire.pack_list(layers))
        self.serve()

    def die_with_launcher(self) -> None:
        """Race-free: arm first, then look whether the launcher died before that.

        getppid() cannot tell, it is 0 in a new pid namespace; an end-of-file pipe cannot either,
        since siblings inherit its other end.
        """
        linux.prctl(linux.PR_SET_PDEATHSIG, _SIGKILL)
        poll = select.poll()
        poll.register(self.watch, select.POLLIN)
        if poll.poll(0):
            os._exit(0)

    def become(self, uid: int, gid: int) -> None:
        """Take on the handler's ids, in the user namespace the only ones that exist."""
        # Without looking first: an unmapped uid reads as 65534, which may be the one wanted.
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # cleared by the change, needed for /proc/self
        if self.contained_by == wire.BY_NAMESPACE:
            self.die_with_launcher()  # cleared by the change as well

    def build(self, plan: bytes) -> list[bytes]:
        """Carry out the plan; the layers in force, in order. A failed step ends this process."""
        layers: dict[bytes, bool] = {}
        for packed in wire.unpack_list(plan):
            layer, name, *arguments = wire.unpack_list(packed)
            optional = layer.endswith(b"?")
            layer = layer.rstrip(b"?")
            if not layers.setdefault(layer, True):
                continue  # an earlier step of this layer failed, and the sandbox may do without
            try:
                root.STEPS[name](*arguments)
            except OSError as error:
                layers[layer] = False
                if not optional:
                    self.broken(layer, error.errno or 0, b" ".join((name, *arguments)))
        return [layer for layer, in_force in layers.items() if in_force]

    def broken(self, layer: bytes, number: int, what: bytes) -> NoReturn:
        body = wire.pack_list([layer, what[:1024]])
        self.say(wire.BROKEN_BODY.pack(wire.BROKEN, number) + body)
        os._exit(1)

    def say(self, message: bytes) -> None:
        try:
            self.slot.send(message, _NOSIGNAL)
        except OSError:
            self.abandon()

    def abandon(self) -> NoReturn:
        """Nobody listens any more: the daemon or the launcher is dead."""
        if self.cgroup_kill >= 0:
            os.write(self.cgroup_kill, b"1")
        os._exit(0)

    def serve(self) -> NoReturn:
        """Wait for the one dispatch; start it; see it end."""
        poll = select.poll()
        poll.register(self.slot, select.POLLIN)
        if self.contained_by == wire.BY_CGROUP:
            poll.register(self.watch, select.POLLIN)
        else:
            os.close(self.watch)
        if any(fd == self.watch for fd, _ in poll.poll()):
            self.abandon()
        message, ancillary, _, _ = self.slot.recvmsg(
            wire.MESSAGE_MAX, _socket.CMSG_SPACE(4 * 4), _CLOEXEC
        )
        if message[:1] != wire.DISPATCH:
            self.abandon()
        raw = b"".join(data for _, _, data in ancillary)
        fds = list(unpack(f"={len(raw) // 4}i", raw))
        if len(fds) != 4:  # the kernel drops what does not fit under RLIMIT_NOFILE
            self.failed(OSError(errno.EMFILE, ""), b"send")
        gate = time.monotonic_ns()
        leader = self.start(message[1:], fds)
        self.say(wire.STARTED_BODY.pack(wire.STARTED, leader, gate))
        for fd in fds:
            os.close(fd)
        poll.register(self.signals, select.POLLIN)
        self.attend(poll, leader)
        self.end(leader, gate)

    def start(self, request: bytes, fds: list[int]) -> int:
        """The handler's pid. exec's own errno otherwise, and nothing has run."""
        argv, env, secrets = (wire.unpack_list(part) for part in wire.unpack_list(request))
        try:
            for name, value in zip(secrets[::2], secrets[1::2], strict=True):
                _write_secret(_CREDENTIALS + name, value)
        except OSError as error:
            self.failed(error, b"secrets")
        try:
            return os.posix_spawn(
                argv[0],
                argv,
                dict(zip(env[::2], env[1::2], strict=True)),
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(fds)],
                setsid=True,
                setsigmask=[],
                setsigdef=_ALL_SIGNALS,
            )
        except OSError as error:
            self.failed(error, b"exec")

    def failed(self, error: OSError, stage: bytes) -> NoReturn:
        self.say(wire.FAILED_BODY.pack(wire.FAILED, error.errno or 0) + stage)
        os._exit(0)

    def attend(self, poll: select.poll, leader: int) -> None:
        """Until the leader has ended: pass on the daemon's word, reap what was orphaned."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        timeout: int | None = None
        while os.waitid(os.P_PID, leader, flags) is None:
            for fd, _ in poll.poll(timeout):
                if fd == self.slot.fileno():
                    self.obey(self.slot.recv(1))
                elif fd == self.watch:
                    self.abandon()
            try:
                while os.read(self.signals, 4096):
                    pass
            except BlockingIOError:
                pass
            timeout = 0 if _reap(leader, _REAP_BATCH) else None

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
        if self.contained_by == wire.BY_NAMESPACE:
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

    def end(self, leader: int, gate: int) -> NoReturn:
        """The leader has ended: so does everything else, at once. The record is the proof."""
        exited = time.monotonic_ns()
        killed = 0
        info = os.waitid(os.P_PID, leader, os.WEXITED)
        assert info is not None
        if self.contained_by == wire.BY_NAMESPACE:
            _reap(leader, 1 << 30)  # what had ended by itself was not killed
            # One pass is enough: a fork that is under way fails when its parent has a fatal
            # signal pending, so nobody can be born behind this call's back.
            self.signal_all(_SIGKILL)
            killed = _reap_all()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_us = round((usage.ru_utime + usage.ru_stime) * 1_000_000)
        self.say(
            wire.ENDED_BODY.pack(
                *(wire.ENDED, info.si_code, info.si_status, killed),
                *(cpu_us, gate, exited, time.monotonic_ns()),
            )
        )
        if self.contained_by == wire.BY_CGROUP:
            self.slot.recv(1)  # the daemon writes cgroup.kill, or is dead
            self.abandon()
        os._exit(0)


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


def _reap_all() -> int:
    """Wait until there is no child left, and so no other process in the pid namespace."""
    count = 0
    try:
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED)
            count += 1
    except ChildProcessError:
        return count


def _write_secret(path: bytes, value: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    fd = os.open(path, flags, 0o400)
    try:
        view = memoryview(value)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
