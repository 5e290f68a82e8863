"""A persistent set of natural numbers in which the next one below or above is found at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from immutables import Map

from supervisor.core.changed import changed

# A tree of bitmaps: a node of the lowest level says which numbers of its block are in the set,
# one above it which blocks of the level below are not empty. Nodes are kept by block and level.
_BITS, _LEVELS, _LEVEL_BITS = 10, 4, 2
_LAST = (1 << _BITS) - 1
END = 1 << (_BITS * _LEVELS)
"""Above every number that a set can hold."""


@attrs.frozen(slots=False)  # copied often (see changed.py)
class Ordered:
    """Members are from 0 to END - 1. Equal sets are equal values, however they were made."""

    nodes: Map[int, int] = attrs.field(factory=Map[int, int])
    size: int = 0

    def __len__(self) -> int:
        return self.size

    def __contains__(self, number: object) -> bool:
        assert isinstance(number, int)
        return bool(self._node(number >> _BITS, 0) >> (number & _LAST) & 1)

    def __iter__(self) -> Iterator[int]:
        """The least first."""
        number = self.at_least(0)
        while number is not None:
            yield number
            number = self.at_least(number + 1)

    def __reversed__(self) -> Iterator[int]:
        number = self.at_most(END - 1)
        while number is not None:
            yield number
            number = self.at_most(number - 1)

    def joined(self, number: int) -> Ordered:
        if number in self:
            return self
        nodes, place = self.nodes, number
        for level in range(_LEVELS):
            place, bit = place >> _BITS, 1 << (place & _LAST)
            key = place << _LEVEL_BITS | level
            before = nodes.get(key, 0)
            nodes = nodes.set(key, before | bit)
            if before:
                break
        return changed(self, nodes=nodes, size=self.size + 1)

    def left(self, number: int) -> Ordered:
        if number not in self:
            return self
        nodes, place = self.nodes, number
        for level in range(_LEVELS):
            place, bit = place >> _BITS, 1 << (place & _LAST)
            key = place << _LEVEL_BITS | level
            rest = nodes[key] & ~bit
            nodes = nodes.set(key, rest) if rest else nodes.delete(key)
            if rest:
                break
        return changed(self, nodes=nodes, size=self.size - 1)

    def at_most(self, number: int) -> int | None:
        """The greatest member that is not above `number`."""
        place = number
        for level in range(_LEVELS):
            place, bit = place >> _BITS, place & _LAST
            # The number itself may be it; a block beside it may not.
            lower = self._node(place, level) & ((1 << bit + (level == 0)) - 1)
            if lower:
                place = place << _BITS | _highest(lower)
                for under in reversed(range(level)):
                    place = place << _BITS | _highest(self._node(place, under))
                return place
        return None

    def at_least(self, number: int) -> int | None:
        """The least member that is not below `number`."""
        place = number
        for level in range(_LEVELS):
            place, bit = place >> _BITS, place & _LAST
            beside = bit + (level > 0)
            higher = self._node(place, level) >> beside << beside
            if higher:
                place = place << _BITS | _lowest(higher)
                for under in reversed(range(level)):
                    place = place << _BITS | _lowest(self._node(place, under))
                return place
        return None

    def _node(self, block: int, level: int) -> int:
        return self.nodes.get(block << _LEVEL_BITS | level, 0)


def _highest(node: int) -> int:
    return node.bit_length() - 1


def _lowest(node: int) -> int:
    return (node & -node).bit_length() - 1


def ordered(numbers: Iterable[int]) -> Ordered:
    """The set of these: faster than joining one after the other."""
    nodes: dict[int, int] = {}
    size = 0
    for number in numbers:
        place = number
        for level in range(_LEVELS):
            place, bit = place >> _BITS, 1 << (place & _LAST)
            key = place << _LEVEL_BITS | level
            before = nodes.get(key, 0)
            nodes[key] = before | bit
            if level == 0:
                size += not before & bit
            if before:
                break
    return Ordered(Map(nodes), size)
