"""The messages between daemon, launcher, template and init: fixed structs and lists of strings.

Standard library only and no ``enum``: the launcher loads this module. What an init says is parsed
with sizes checked, because an init shares its uid with the handler it started.
"""

from __future__ import annotations

import _socket
import os
from struct import Struct, unpack

# One message never exceeds this; it is what both ends pass to recv(2). It is above the kernel's
# default SO_SNDBUF, so a message that could be sent is never cut off.
MESSAGE_MAX = 1 << 18

# --- daemon -> launcher
TEMPLATE, BARE, PING = 1, 2, 3
# --- daemon -> template
PREPARE, PREPARE_AHEAD = 4, 5
# --- launcher and template -> daemon
PREPARED, PONG, REFUSED = 1, 2, 3
# --- launcher -> its children, then daemon -> init (the first byte)
GO, DISPATCH, TERMINATE, KILL = b"G", b"D", b"T", b"K"
# --- template and init -> daemon (the first byte)
READY, BROKEN, STARTED, FAILED, ENDED = b"R", b"B", b"S", b"F", b"E"

# How an init contains its tree.
BY_NAMESPACE, BY_CGROUP = 0, 1

REQUEST = Struct("=BxxxIQ")  # kind, id, clone flags; then the plan
REPLY = Struct("=BxxxIii")  # kind, id, pid (0: see the pidfd), errno
STARTED_BODY = Struct("=cxxxiq")  # tag, pid inside, gate (monotonic ns)
FAILED_BODY = Struct("=cxxxi")  # tag, errno; then the stage
BROKEN_BODY = Struct("=cxxxi")  # tag, errno; then [layer, what was tried]
# tag, si_code, si_status, killed, tasks started (-1: not known), largest resident set in KiB,
# cpu microseconds, gate, leader's exit, tree's end (monotonic ns)
ENDED_BODY = Struct("=cxxxiiiiqqqqq")

_CLOEXEC, _CTRUNC = 0x40000000, 0x8  # MSG_CMSG_CLOEXEC: Python's are inheritable otherwise


def receive(source: _socket.socket, most: int) -> tuple[bytes, list[int] | None]:
    """The next message and the descriptors that came with it, which are the caller's to close.

    None instead of these, with all that came closed, when the kernel dropped any: for the limit of
    open files, or as more than ``most``. What it dropped is at the end of the list, so whoever
    went on with the rest would take it for a request for less.
    """
    message, ancillary, flags, _ = source.recvmsg(
        MESSAGE_MAX, _socket.CMSG_SPACE(4 * most), _CLOEXEC
    )
    raw = b"".join(data for _, _, data in ancillary)
    fds = list(unpack(f"={len(raw) // 4}i", raw))
    if not flags & _CTRUNC:
        return message, fds
    for fd in fds:
        os.close(fd)
    return message, None


def pack_list(items: list[bytes]) -> bytes:
    """``items`` with their lengths in front, so that any byte may occur in any of them."""
    head = Struct(f"<{1 + len(items)}I").pack(len(items), *map(len, items))
    return head + b"".join(items)


def unpack_list(data: bytes) -> list[bytes]:
    """The inverse of `pack_list`; ValueError when ``data`` is anything else."""
    if len(data) < 4:
        raise ValueError("a list needs at least its count")
    count = int.from_bytes(data[:4], "little")
    at = 4 + 4 * count
    if at > len(data):
        raise ValueError(f"a list of {count} strings does not fit into {len(data)} bytes")
    items: list[bytes] = []
    for size in Struct(f"<{count}I").unpack_from(data, 4):
        items.append(data[at : at + size])
        at += size
    if at != len(data):
        raise ValueError(f"a list that ends at byte {at} came in {len(data)} bytes")
    return items
