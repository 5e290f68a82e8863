"""Landlock: what a kernel has of it, and what an init does to put it on itself.

Which rights and which paths is decided in `confine`, by the daemon.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.

from __future__ import annotations

import ctypes
import os
import stat
from ctypes import c_int, c_int32, c_long, c_size_t, c_uint32, c_uint64, sizeof

_syscall = ctypes.PyDLL(None, use_errno=True).syscall
_syscall.restype = c_long
# One number on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
OPTIONAL = 1


class _Ruleset(ctypes.Structure):
    # A kernel refuses a longer struct than it knows, unless the rest is zero and it is new enough
    # to look; the size is therefore cut to what the ABI has.
    _fields_ = [("files", c_uint64), ("net", c_uint64), ("scoped", c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", c_uint64), ("parent", c_int32)]


_ruleset: list[int] = []


def version() -> int:
    """The ABI that this kernel has. OSError ENOSYS: built without, EOPNOTSUPP: disabled at boot."""
    return _checked(_syscall(c_long(_CREATE_RULESET), None, c_size_t(0), c_uint32(_GET_VERSION)))


def begin(files: bytes, scoped: bytes, size: bytes) -> None:
    """A ruleset that will deny ``files`` (rights) except by rule, and ``scoped`` outside itself."""
    attributes = _Ruleset(files=int(files), scoped=int(scoped))
    number = c_long(_CREATE_RULESET)
    # The descriptor is close-on-exec from the start.
    _ruleset.append(
        _checked(_syscall(number, ctypes.byref(attributes), c_size_t(int(size)), c_uint32(0)))
    )


def allow(flags: bytes, rights: bytes, path: bytes) -> None:
    """``rights`` on ``path`` and what lies beneath; those of files alone when it is one."""
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if int(flags) & OPTIONAL:
            return
        raise
    try:
        allowed = int(rights)
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            allowed &= _OF_FILES  # EINVAL otherwise
        rule = _Beneath(allowed=allowed, parent=parent)
        number, kind = c_long(_ADD_RULE), c_int(_PATH_BENEATH)
        _checked(_syscall(number, c_int(_ruleset[-1]), kind, ctypes.byref(rule), c_uint32(0)))
    finally:
        os.close(parent)


def enforce(flags: bytes) -> None:
    """From here on for this process and its children. Needs no_new_privs."""
    ruleset = _ruleset.pop()
    try:
        _checked(_syscall(c_long(_RESTRICT_SELF), c_int(ruleset), c_uint32(int(flags))))
    finally:
        os.close(ruleset)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


assert sizeof(_Ruleset) == 24
assert sizeof(_Beneath) == 12
