"""Contents: bytes side by side, of which a little is looked at now and then.

Where they are is no part of the value: whoever has a better place than memory puts them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Held(Protocol):
    """Bytes, or what gives them: a slice of so many of them is bytes."""

    def __getitem__(self, part: slice, /) -> bytes: ...


Put = Callable[[bytes], Held]
"""Puts bytes somewhere, and gives what gives them."""


def in_memory(content: bytes) -> Held:
    """Puts them nowhere else."""
    return content


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

    def keep_in(self, put: Put) -> None:
        """Have them where `put` puts them, if they are in memory."""
        if isinstance(self._held, bytes):
            self._held = put(self._held)


class Holds(Protocol):
    def held(self) -> Iterable[Contents]:
        """All of it that need not be in memory."""
        ...


_Holds = TypeVar("_Holds", bound=Holds)


def away(holds: _Holds, put: Put) -> _Holds:
    """The same, with that where `put` puts it."""
    for one in holds.held():
        one.keep_in(put)
    return holds
