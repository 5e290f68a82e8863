"""What an init does to put the system call filter on itself. The daemon made the program."""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_ulong, c_ushort

_prctl = ctypes.PyDLL(None, use_errno=True).prctl
# prctl rather than seccomp(2): it has the same name on every architecture.
_SET_SECCOMP, _MODE_FILTER = 22, 2
_INSTRUCTION = 8


class _Program(ctypes.Structure):
    _fields_ = [("length", c_ushort), ("instructions", c_char_p)]


_prctl.argtypes = [c_int, c_ulong, POINTER(_Program), c_ulong, c_ulong]
_program: list[bytes] = []


def take(program: bytes) -> None:
    """Keep the program for `enforce`. Two steps, so that an error need not quote it."""
    _program[:] = [program]


def enforce() -> None:
    """From here on every call of this process and its children is judged. Needs no_new_privs."""
    program = _program.pop()
    whole = _Program(len(program) // _INSTRUCTION, program)
    if _prctl(_SET_SECCOMP, _MODE_FILTER, whole, 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
