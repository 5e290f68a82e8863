"""What every process that is forked to make sandboxes does first, and how it fails."""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.
# ruff: noqa: SIM105

from __future__ import annotations

import os
import select

from sandbox import linux, root, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import NoReturn

_NOSIGNAL = 0x4000
_SIGKILL = 9


def die_with(parent: int) -> None:
    """End when the process of the pidfd ``parent`` does. Race-free: arm first, then look.

    getppid() cannot tell, it is 0 in a new pid namespace; an end-of-file pipe cannot either,
    since siblings inherit its other end.
    """
    linux.prctl(linux.PR_SET_PDEATHSIG, _SIGKILL)
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    if poll.poll(0):
        os._exit(0)


def become(uid: int, gid: int) -> None:
    """Take on the handler's ids. Clears PDEATHSIG; restores dumpable, which it clears too."""
    # Without looking first: an unmapped uid reads as 65534, which may be the one wanted.
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # needed for /proc/self


def guarded(control: _socket.socket, life: Callable[[], NoReturn]) -> NoReturn:
    """Errors leave as messages only: stderr is /dev/null, and tracebacks tell."""
    try:
        life()
    except root.StepFailed as failed:
        _report(control, failed.layer, failed.errno, failed.what)
    except Exception as error:  # noqa: BLE001 - reported, and the process ends here
        number = (error.errno or 0) if isinstance(error, OSError) else 0
        _report(control, b"init", number, repr(error).encode(errors="replace"))
    finally:
        os._exit(1)


def _report(control: _socket.socket, layer: bytes, number: int, what: bytes) -> None:
    body = wire.pack_list([layer, what[:1024]])
    try:
        control.send(wire.BROKEN_BODY.pack(wire.BROKEN, number) + body, _NOSIGNAL)
    except OSError:
        pass
