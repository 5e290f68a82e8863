"""`attrs.frozen` for values that there are many classes of: records, inputs, commands.

attrs writes and compiles a method of its own for each class, and of all that a start loads this
takes longest. Here all classes share how a value is compared, hashed and shown.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

__all__ = ["frozen"]

# What gets all members of a value of each class in one step.
_MEMBERS: dict[type, Callable[[Any], Any]] = {}


if TYPE_CHECKING:
    from attrs import frozen
else:

    def frozen(cls: type | None = None, /, **options: Any) -> Any:
        """As `attrs.frozen`: equal are two of one class with equal members."""
        if cls is None:
            return lambda given: frozen(given, **options)
        made = attrs.frozen(cls, eq=False, repr=False, **options)
        # Those without any member have their class in common.
        names = [one.name for one in attrs.fields(made)]
        _MEMBERS[made] = attrgetter(*names) if names else type
        made.__eq__, made.__hash__, made.__repr__ = _equal, _hash, _shown
        return made


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
