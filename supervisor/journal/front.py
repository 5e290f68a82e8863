"""What a segment holds from its beginning up to a line, proven in one step: by its digest.

A snapshot carries the digest of what had been written, so that a start need not prove line by line
what it will not fold. Where the two differ, the lines tell what is damaged. Standard library only,
and no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Protocol, Self

    class Hash(Protocol):
        """What hashlib makes."""

        def update(self, content: bytes | memoryview, /) -> None: ...
        def copy(self) -> Self: ...
        def hexdigest(self) -> str: ...


class Known(NamedTuple):
    """A line that was durable, as a snapshot `source` says: the one of segment `name`, with
    this `number`, that ends at `end`. `front` is the digest of all that the segment holds up to
    there, or "". `seal` is the digest that the snapshot's file ends with."""

    source: str
    number: int
    name: str
    end: int
    position: int
    digest: str
    front: str
    journal: str
    seal: str


class Fronts:
    """The digests of segments that are walked, each from its beginning on and in order."""

    def __init__(self, known: Iterable[Known]) -> None:
        self._known = {one.name: one for one in known if one.front}
        self._name = ""
        self._taken = 0
        self._hashed: Hash = sha256()

    def proven(self, name: str, content: bytes) -> Known | None:
        """The known line of this segment, if all up to it is as it was written."""
        known = self._known.get(name)
        if known is None or self.up_to(name, content, known.end).hexdigest() != known.front:
            return None
        return known

    def up_to(self, name: str, content: bytes, end: int) -> Hash:
        """What has taken in the segment up to `end`, not before where it was asked last."""
        if name != self._name:
            self._name, self._taken, self._hashed = name, 0, sha256()
        self._hashed.update(memoryview(content)[self._taken : end])
        self._taken = end
        return self._hashed
