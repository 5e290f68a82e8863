"""`attrs.frozen` for values that there are many classes of.

attrs writes and compiles methods of its own for each class, and of all that a start loads this
takes longest. Here a class has its slots at once, shares with all others how its values are
compared, hashed and shown, and gets from attrs what only attrs can make (its initializer, the
list of its members) when somebody asks for that first: most classes are not asked in a start.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

__all__ = ["frozen"]

# What attrs makes for a class of ours, when one of these is asked for.
_MADE_LATER = ("__attrs_attrs__", "__init__", "__match_args__", "__getstate__", "__setstate__")


if TYPE_CHECKING:
    from attrs import frozen
else:

    def frozen(cls: type | None = None, /, *, kw_only: bool = False) -> Any:
        """As `attrs.frozen`: equal are two of one class with equal members.

        The class is no exception, its annotations are text (`from __future__ import
        annotations`), and no method of it says `super()` without arguments.
        """
        if cls is None:
            return lambda given: frozen(given, kw_only=kw_only)
        named = [name for name, what in cls.__annotations__.items() if not _is_of_class(what)]
        # The values that stand there are defaults: attrs finds them in the class as it was given.
        body = {name: one for name, one in vars(cls).items() if name not in (*named, *_OF_DICT)}
        body["__slots__"] = tuple(
            one for one in (*named, "__weakref__") if not _inherited(cls, one)
        )
        body["__qualname__"] = cls.__qualname__
        later = _Later(cls, kw_only=kw_only)
        shared = {**_SHARED, **{name: _Member(later, name) for name in _MADE_LATER}}
        later.made = type(cls)(cls.__name__, cls.__bases__, {**shared, **body})
        return later.made


class _Later:
    """A class `made` of ours, of which attrs knows nothing yet, and the one that it was made of."""

    made: Any

    def __init__(self, given: type, *, kw_only: bool) -> None:
        self._given = given
        self._kw_only = kw_only

    def complete(self) -> None:
        """Put what attrs makes in its place. Two threads may do so: they make the same."""
        full = attrs.frozen(self._given, eq=False, repr=False, kw_only=self._kw_only)
        for name in _MADE_LATER:
            if isinstance(_own(self.made, name), _Member):
                setattr(self.made, name, _own(full, name))


class _Member:
    """One member of a class that is not there before somebody asks for it."""

    def __init__(self, later: _Later, name: str) -> None:
        self._later = later
        self._name = name

    def __get__(self, value: object, owner: type) -> Any:
        self._later.complete()
        found = _own(self._later.made, self._name)
        return found.__get__(value, owner) if callable(found) else found


def _own(cls: type, name: str) -> Any:
    return vars(cls)[name]


_OF_DICT = ("__dict__", "__weakref__")


def _is_of_class(annotation: str) -> bool:
    return annotation.startswith(("ClassVar", "typing.ClassVar"))


def _inherited(cls: type, slot: str) -> bool:
    """A slot that is made twice takes room twice. A value of `object` alone has none."""
    bases = cls.__mro__[1:]
    return any(slot in vars(one).get("__slots__", ()) for one in bases) or (
        slot == "__weakref__" and any(slot in vars(one) for one in bases)
    )


class _Members(dict[type, Callable[[Any], Any]]):
    """What gets the members of a value of each class that count, in one step."""

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        names = [one.name for one in attrs.fields(cls) if one.eq]
        # Those without any have their class in common.
        self[cls] = found = attrgetter(*names) if names else type
        return found


_MEMBERS = _Members()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    members = _MEMBERS[self.__class__]
    return members(self) == members(other)


def _hash(self: Any) -> int:
    return hash((self.__class__, _MEMBERS[self.__class__](self)))


def _shown(self: Any) -> str:
    """As attrs shows it."""
    members = ((one, getattr(self, one.name)) for one in attrs.fields(self.__class__) if one.repr)
    shown = ", ".join(f"{one.name}={value!r}" for one, value in members)
    return f"{self.__class__.__qualname__.rpartition('>.')[2]}({shown})"


@attrs.frozen
class _Frozen:
    """One whose values cannot be changed, as attrs has it: what says so does not know its class."""


_SHARED = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _shown,
    "__setattr__": _Frozen.__setattr__,
    "__delattr__": _Frozen.__delattr__,
}
