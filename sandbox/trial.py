"""Applies layers one by one in throw-away children. `probe` runs this as a process of its own.

stdin: a packed list of layer, clone flags and plan, repeated. stdout: for each layer a line
``LAYER ERRNO STEP``; errno 0 means that it was applied, KILLED that the child was ended.
"""

from __future__ import annotations

import os
import sys
import time

from sandbox import linux, root, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_WAIT_S = 3.0
KILLED = -1
"""In the place of an errno: the child had no time to say what it met."""


def main(uid: int, gid: int, cgroup: int, cgroup_kill: int, _: int) -> None:
    """Try everything that stdin names; with ``cgroup`` >= 0 also birth and death in a cgroup."""
    if os.getuid() != uid:
        os.setgroups([])
    items = wire.unpack_list(sys.stdin.buffer.read())
    for layer, flags, plan in zip(items[::3], items[1::3], items[2::3], strict=True):
        errno, step = _try(int(flags), wire.unpack_list(plan), uid, gid)
        _report(layer, errno, step)
    if cgroup >= 0:
        _report(b"cgroup", _try_cgroup(cgroup, cgroup_kill), b"cgroup.kill")


def _report(layer: bytes, errno: int, step: bytes) -> None:
    os.write(1, b"%s %d %s\n" % (layer, errno, step))


def _try(flags: int, plan: list[bytes], uid: int, gid: int) -> tuple[int, bytes]:
    """(errno, the step that failed) of one child in new namespaces."""
    go_read, go = os.pipe()
    said, say = os.pipe()
    try:
        pid, pidfd = linux.clone3(flags)
    except OSError as error:
        for fd in (go_read, go, said, say):
            os.close(fd)
        return error.errno or 1, b"clone3"
    if pid == 0:
        os.close(go)
        _apply(go_read, say, plan, (uid, gid))
    os.close(go_read)
    os.close(say)
    try:
        if flags & linux.CLONE_NEWUSER:
            linux.write_maps(pid, uid, gid)
        os.write(go, b"G")
    except OSError as error:
        os.kill(pid, 9)
        result = error.errno or 1, b"id maps"
    else:
        text = os.read(said, 4096)
        number, _, step = text.partition(b" ")
        # Without a word it was killed: a unit's SystemCallFilter= ends who makes a call that it
        # does not list.
        result = (int(number), step) if text else (KILLED, b"the child was ended")
    os.close(go)
    os.close(said)
    info = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)
    if result[0] == KILLED and info is not None and info.si_code != os.CLD_EXITED:
        return KILLED, b"the child was ended by signal %d" % info.si_status
    return result


def _apply(go: int, say: int, plan: list[bytes], ids: tuple[int, int]) -> NoReturn:
    step = b"setresuid"
    try:
        if os.read(go, 1):
            uid, gid = ids
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            linux.prctl(linux.PR_SET_DUMPABLE, 1)
            for packed in plan:
                _, name, *arguments = wire.unpack_list(packed)
                step = b" ".join((name, *arguments))
                root.STEPS[name](*arguments)
            os.write(say, b"0 ")
    except OSError as error:
        os.write(say, b"%d %s" % (error.errno or 1, step))
    finally:
        os._exit(0)


def _try_cgroup(cgroup: int, cgroup_kill: int) -> int:
    """Whether a child can be born into the cgroup and dies with it."""
    try:
        pid, pidfd = linux.clone3(0, cgroup)
        if pid == 0:
            time.sleep(_WAIT_S)
            os._exit(0)
        os.write(cgroup_kill, b"1")
    except OSError as error:
        return error.errno or 1
    info = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)
    return 0 if info is not None and info.si_status == 9 else 1
