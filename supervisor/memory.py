"""Memory that was taken for a moment goes back to the system.

The C library keeps what was freed for whoever wants some next, in each of many heaps: after a
start that read a long history, or when thousands of operations were filed, that is much.
"""

from __future__ import annotations

import ctypes
from typing import Any

# As malloc.h has them. Setting the second one keeps it as it is: else it grows with what is freed.
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
# One interpreter runs at a time: its threads hardly ever meet in the library.
_HEAPS = 2
_LARGE = 1 << 18

_libc = ctypes.CDLL(None)
# glibc's: others have none.
_mallopt: Any = getattr(_libc, "mallopt", None)
_malloc_trim: Any = getattr(_libc, "malloc_trim", None)


def spare() -> None:
    """Have few heaps, and what is large outside of them: once, before there are many threads."""
    if _mallopt is not None:
        _mallopt(_M_ARENA_MAX, _HEAPS)
        _mallopt(_M_MMAP_THRESHOLD, _LARGE)


def give_back() -> None:
    """Takes milliseconds, in which other threads run."""
    if _malloc_trim is not None:
        _malloc_trim(0)
