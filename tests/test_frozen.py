"""Values whose classes share their methods are as those that attrs writes methods for."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
import weakref
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from frozen import frozen


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
        uncounted: int = attrs.field(default=0, eq=False)
        many: ClassVar[int] = 3

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


def test_what_does_not_count_makes_no_difference():
    *_, named = made(frozen)
    assert named(name="n", uncounted=1) == named(name="n", uncounted=2)
    assert hash(named(name="n", uncounted=1)) == hash(named(name="n", uncounted=2))
    assert named.many == named(name="n").many == 3


def test_what_a_class_says_itself_holds():
    class Own:
        x: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

    ours, theirs = frozen(Own), attrs.frozen(Own)
    for cls in (ours, theirs):
        assert (repr(cls(1)), cls(1) == cls(2), cls.__hash__) == ("mine", True, None)


def shape(cls: Any) -> Any:
    """What a class looks like to whoever asks it."""
    members = [(one.name, one.default, one.kw_only, one.type) for one in attrs.fields(cls)]
    slots = [one for each in cls.__mro__ for one in getattr(each, "__slots__", ())]
    return members, str(inspect.signature(cls)), cls.__match_args__, sorted(slots)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    "first", ["__init__", "__attrs_attrs__", "__match_args__", "__getstate__", "__setstate__"]
)
def test_a_class_is_as_attrs_makes_it_whatever_is_asked_first(first: str, at: int):
    ours, theirs = made(frozen)[at], made(attrs.frozen)[at]
    getattr(ours, first)
    assert shape(ours) == shape(theirs)


@frozen
class Placed:
    """One that pickle finds by its name."""

    x: int
    y: int = 2


def test_values_are_copied_matched_and_referred_to_weakly():
    value = Placed(1)
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == copy.deepcopy(value) == value
    assert weakref.ref(value)() is value
    match value:
        case Placed(x, 2):
            assert x == 1
        case _:
            raise AssertionError(value)


def test_threads_that_ask_first_at_once_get_one_class():
    for _ in range(20):
        _, point, _, _ = made(frozen)
        barrier = threading.Barrier(4)
        found: list[Any] = []

        def ask(point: Any = point, barrier: Any = barrier, found: Any = found) -> None:
            barrier.wait(30)
            found.append(point(1, [2]))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [point(1, [2])] * 4


def ours() -> Iterator[type]:
    """Every class of the daemon's that `frozen` made."""
    root = Path(__file__).parents[1]
    for file in sorted(one for name in PACKAGES for one in (root / name).rglob("*.py")):
        if "from frozen import frozen" not in file.read_text():
            continue
        name = ".".join(file.relative_to(root).with_suffix("").parts)
        for value in vars(import_module(name)).values():
            if isinstance(value, type) and value.__module__ == name and attrs.has(value):
                yield value


PACKAGES = ("supervisor", "sandbox", "config")


def test_the_slots_of_each_class_are_what_attrs_calls_its_members():
    count = 0
    for cls in ours():
        if "__dict__" in dir(cls):
            continue
        slots = [one for each in cls.__mro__ for one in vars(each).get("__slots__", ())]
        names = [one.name for one in attrs.fields(cls)]
        assert sorted({*slots} - {"__weakref__", "_attrs_cached_hash"}) == sorted(names), cls
        count += 1
    assert count > 200
