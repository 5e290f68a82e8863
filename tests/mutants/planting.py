"""How a bug is planted in a function of the core, and its test run.

An edit replaces one piece of a function's source, in place, so that everybody who
imported the function runs the edited one; it is undone when its context ends.
"""

from __future__ import annotations
import __future__

import contextlib
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import pytest

from supervisor.core.errors import IllegalTransition

# What a bug that is there makes of a test. Anything else may be a fault of the planting.
NOTICED = (AssertionError, IllegalTransition, KeyError, pytest.fail.Exception)


class Edit:
    """Pairs of what stands in the function's source exactly once, and what is planted there."""

    def __init__(self, function: Callable[..., Any], *pairs: str) -> None:
        self.function = function
        self.pairs = list(zip(pairs[::2], pairs[1::2], strict=True))

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        original = self.function.__code__
        self.function.__code__ = self._edited()
        try:
            yield
        finally:
            self.function.__code__ = original

    def _edited(self):
        source = textwrap.dedent(inspect.getsource(self.function))
        for old, new in self.pairs:
            assert source.count(old) == 1, f"{self.function.__name__} has no one {old!r}"
            source = source.replace(old, new)
        flags = __future__.annotations.compiler_flag
        found: dict[str, Any] = {}
        exec(compile(source, "<planted>", "exec", flags), self.function.__globals__, found)
        made = found[self.function.__name__]
        return (made.fget if isinstance(made, property) else made).__code__


class Plantable(Protocol):
    def planted(self) -> contextlib.AbstractContextManager[None]: ...


@contextlib.contextmanager
def planted(edits: Iterable[Plantable]) -> Iterator[None]:
    """All of them."""
    with contextlib.ExitStack() as stack:
        for edit in edits:
            stack.enter_context(edit.planted())
        yield


def rows(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """Every row that pytest would run the test with."""
    columns = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args[0], mark.args[1]
            names = (names,) if isinstance(names, str) else tuple(names)
            columns.append([_row(names, value) for value in values])
    for parts in itertools.product(*columns):
        yield {name: value for part in parts for name, value in part.items()}


def _row(names: tuple[str, ...], value: Any) -> dict[str, Any]:
    value = getattr(value, "values", value) if not isinstance(value, dict) else value
    return {names[0]: value} if len(names) == 1 else dict(zip(names, value, strict=True))
