"""Contents: bytes side by side, of which a little is looked at now and then.

Where they are is no part of the value: whoever has a better place than memory puts them there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Held(Protocol):
    """Bytes, or what gives them: a slice of so many of them is bytes."""

    def __getitem__(self, part: slice, /) -> bytes: ...


class Contents:
    __slots__ = ("_held", "_size")

    def __init__(self, content: bytes) -> None:
        self._held: Held = content
        self._size = len(content)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        return self._held[part]

    @property
    def in_memory(self) -> bool:
        return isinstance(self._held, bytes)

    def keep_in(self, put: Callable[[bytes], Held]) -> None:
        """Have them where `put` puts them, if they are in memory."""
        if isinstance(self._held, bytes):
            self._held = put(self._held)
