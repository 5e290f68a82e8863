"""Every kind of record: a class's name in snake case is its kind on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from supervisor.core.record import facts, programs, retention
from supervisor.core.record.base import Record


def _records() -> Iterator[type[Record]]:
    """The classes of these modules, in the order in which they stand there."""
    for module in (facts, programs, retention):
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                assert issubclass(value, Record), f"{value} is no record"
                yield value


def _kind(cls: type[Record]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


KINDS: Mapping[str, type[Record]] = {_kind(cls): cls for cls in _records()}
KIND_OF: Mapping[type[Record], str] = {cls: kind for kind, cls in KINDS.items()}
