"""A sandbox's processes as the host sees them: listed, told about, killed around their init.

For when init does not do it: one that is stopped or waits for a processor, or that has no pid
namespace to send SIGKILL to as a whole. Init itself is spared, since its record tells the most.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import trio

from frozen import frozen
from sandbox import census, scarce
from sandbox.cgroups import Cgroup, put
from sandbox.spec import Identity

# A tree is walked on the event loop: so many processes take some ten milliseconds.
WALK_MAX = 512
# Tasks freeze within a millisecond or two, unless one is in an uninterruptible sleep.
FREEZE_S = 0.05
_POLL_S = 0.002
_FREEZER = "cgroup.freeze"
_SHOWN = 3


async def kill_all_but_init(identity: Identity, *, hold_still: bool) -> bool:
    """SIGKILL to every process of that sandbox but its init; False when one may not be signalled.

    ``hold_still`` freezes its cgroup meanwhile, so that no fork outruns the list. Without a cgroup
    it is one pass over a tree that may grow behind it. False as well when no descriptor is left
    to look at it with.
    """
    cgroup = Cgroup.recorded(identity.cgroup)
    try:
        if cgroup is None:
            return _kill_below(identity)
        if hold_still:
            return await _kill_frozen(cgroup, identity.init_pid)
        return _kill_listed(cgroup, identity.init_pid)
    except OSError as error:
        if error.errno not in scarce.ERRORS:
            raise
        return False


def thaw(identity: Identity) -> bool:
    """Let that sandbox's cgroup go on; False when a frozen one around it holds it still. Who is
    frozen takes SIGKILL, and nothing else."""
    cgroup = Cgroup.recorded(identity.cgroup)
    if cgroup is None:
        return True
    with contextlib.suppress(OSError):  # no descriptor left for it
        put(cgroup.path / _FREEZER, "0")
    return not any(map(_is_to_freeze, cgroup.path.parents))


def _is_to_freeze(cgroup: Path) -> bool:
    with contextlib.suppress(OSError):  # above the hierarchy, or at its root, there is none
        return (cgroup / _FREEZER).read_text(encoding="ascii").strip() == "1"
    return False


async def _kill_frozen(cgroup: Cgroup, spared: int) -> bool:
    freezer = cgroup.path / _FREEZER
    put(freezer, "1")
    try:
        with trio.move_on_after(FREEZE_S):
            while not _frozen(cgroup):  # noqa: ASYNC110 - kernfs tells by POLLPRI, trio cannot wait for it
                await trio.sleep(_POLL_S)
        return _kill_listed(cgroup, spared)
    finally:
        put(freezer, "0")


def _frozen(cgroup: Cgroup) -> bool:
    with contextlib.suppress(OSError):
        return "frozen 1" in (cgroup.path / "cgroup.events").read_text(encoding="ascii")
    return True  # it is gone


def _kill_listed(cgroup: Cgroup, spared: int) -> bool:
    with contextlib.ExitStack() as stack:
        held = [_hold(stack, pid) for pid in cgroup.pids() if pid != spared]
        # A pid that was recycled before it was held is not listed any more.
        listed = set(cgroup.pids())
        return _kill(one for one in held if one is not None and one.pid in listed)


def _kill_below(identity: Identity) -> bool:
    with contextlib.ExitStack() as stack:
        init = _hold(stack, identity.init_pid)
        if init is None or census.start_time(init.pid) != identity.start_time:
            return True  # gone, and with it all
        held = [init]
        for parent in held:
            held += _children_held(stack, parent)
            if len(held) > WALK_MAX:
                break
        return _kill(iter(held[1:]))


@frozen
class _Held:
    """A process by its pidfd. While it lives, its pid is nobody else's."""

    pid: int
    pidfd: int

    def lives(self) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return not poll.poll(0)


def _hold(stack: contextlib.ExitStack, pid: int) -> _Held | None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in scarce.FILES:
            raise
        return None  # gone
    stack.callback(os.close, pidfd)
    return _Held(pid, pidfd)


def _children_held(stack: contextlib.ExitStack, parent: _Held) -> list[_Held]:
    """Its children, for certain: a pid that a tree let go of may be a stranger's a moment later."""
    found = [
        (child, _parent(child.pid)) for pid in _children(parent.pid) if (child := _hold(stack, pid))
    ]
    if not parent.lives():
        return []  # what was read above may be about somebody else; they are init's children now
    return [child for child, above in found if above == parent.pid and child.lives()]


def _kill(processes: Iterator[_Held]) -> bool:
    refused = False
    for process in processes:
        try:
            signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:
            refused = True  # it became another uid by a set-id program
    return not refused


def descendants(pid: int) -> Iterator[int]:
    """Who seems to be below ``pid`` now, zombies too: to be shown, never to be killed."""
    found = [pid]
    for parent in found:
        found += _children(parent)
        if len(found) > WALK_MAX:
            break
    return iter(found[1:])


def _children(pid: int) -> list[int]:
    """Each thread has a list of those that it forked itself."""
    children: list[int] = []
    with contextlib.suppress(OSError):  # ended meanwhile
        for task in os.scandir(f"/proc/{pid}/task"):
            children += map(int, Path(task.path, "children").read_text(encoding="ascii").split())
    return children


def _parent(pid: int) -> int | None:
    fields = census.stat_fields(pid)
    return int(fields[1]) if fields else None


def describe(init: int) -> str:
    """What of a sandbox is still there, and where in the kernel it waits, for a person."""
    inside = list(descendants(init))
    if not inside:
        return census.describe(init)
    told = ", ".join(map(census.describe, inside[:_SHOWN]))
    more = f", and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
    return f"below init {init}: {told}{more}"
