"""Values whose classes share their methods are as those that attrs writes methods for."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import pytest

from supervisor.core.frozen import frozen


def made(decorate: Any) -> Any:
    """The same classes by one of the two."""

    @decorate
    class Nothing:
        pass

    @decorate
    class Point:
        x: int
        y: list[int] = attrs.field(factory=list)
        hidden: str = attrs.field(default="h", repr=False)

    @decorate
    class Further(Point):
        z: int = 0

    @decorate(kw_only=True)
    class Named:
        name: str

    return Nothing, Point, Further, Named


def values(decorate: Any) -> list[Any]:
    nothing, point, further, named = made(decorate)
    return [
        nothing(),
        point(1),
        point(1, [2]),
        point(1, hidden="other"),
        further(1),
        further(1, z=3),
        named(name="n"),
    ]


def test_they_are_equal_and_shown_as_those_of_attrs():
    ours, theirs = values(frozen), values(attrs.frozen)
    assert [*map(repr, ours)] == [*map(repr, theirs)]
    for row, one in enumerate(ours):
        for column, other in enumerate([copy.deepcopy(each) for each in ours]):
            assert (one == other) is (row == column) is (theirs[row] == theirs[column])
            assert (one != other) is not (one == other)
        assert one != theirs[row]
        assert one.__eq__(object()) is NotImplemented


def test_equal_ones_have_one_hash_and_others_another():
    _, point, further, named = made(frozen)
    assert {point(1, ()): "a", further(1, ()): "b"}[point(1, ())] == "a"
    assert hash(named(name="n")) == hash(named(name="n"))
    assert len({hash(point(1, ())), hash(further(1, ())), hash(point(2, ()))}) == 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(point(1))


def test_none_can_be_changed_but_as_a_copy():
    _, point, _, named = made(frozen)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point(1).x = 2
    with pytest.raises(TypeError):
        named("n")
    assert attrs.evolve(point(1), x=2) == point(2)
    assert not hasattr(point(1), "__dict__")
