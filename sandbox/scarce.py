"""When this process, or the host, has no descriptor, thread or memory left: what is told of it, and
how to go on without. What is scarce now may be there a moment later: none of it is an answer."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from sandbox.spec import SandboxUnavailable

# EAGAIN is a thread that cannot be started, ETOOMANYREFS a descriptor that cannot be sent.
ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.ETOOMANYREFS}
)
FILES = frozenset({errno.EMFILE, errno.ENFILE})
_REMEDY = (
    "It heals when less runs at once. Raise LimitNOFILE= (ulimit -n), TasksMax= or the host's"
    " fs.file-max, or lower max_running_attempts."
)
_POLL_S = 0.005

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def refused(number: int) -> SandboxUnavailable:
    """What it means for a sandbox that one of `ERRORS` came in its way."""
    return SandboxUnavailable("limits", f"no sandbox could be made: {os.strerror(number)}", _REMEDY)


async def exited(pidfd: int) -> None:
    """Until the process of ``pidfd`` has ended. Any number of tasks may wait for the same one."""
    try:
        own = os.dup(pidfd)  # trio lets one task wait per descriptor
    except OSError:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while not poll.poll(0):  # noqa: ASYNC110 - there is nothing left to be woken by
            await trio.sleep(_POLL_S)
        return
    try:
        await trio.lowlevel.wait_readable(own)
    finally:
        os.close(own)


async def in_thread(
    function: Callable[[*Ts], T],
    *arguments: *Ts,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """``function`` in a thread that a cancelled caller leaves behind. OSError with EAGAIN when the
    host starts no more of them."""
    try:
        return await trio.to_thread.run_sync(
            function, *arguments, abandon_on_cancel=True, limiter=limiter
        )
    except RuntimeError as error:
        if "new thread" not in str(error):
            raise
        raise OSError(errno.EAGAIN, "no thread can be started") from error
