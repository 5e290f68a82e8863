"""Any record, of any kind, as Hypothesis draws it from the classes themselves."""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import attrs
from hypothesis import strategies as st

from supervisor.core.record import KINDS

# What I-JSON carries without loss: no surrogates, whole numbers that a double can hold.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def of(kind: Any) -> st.SearchStrategy[Any]:
    simple = {int: WHOLE, str: TEXT, bool: st.booleans(), type(None): st.none(), Any: JSON}
    if isinstance(kind, NewType):
        return of(kind.__supertype__)
    if kind in simple:
        return simple[kind]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    if attrs.has(kind):
        return record(kind)
    return _generic(get_origin(kind), get_args(kind))


def _generic(origin: Any, args: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin in {Union, types.UnionType}:
        return st.one_of([of(one) for one in args])
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(of(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*[of(one) for one in args])
    assert issubclass(origin, Mapping)
    return st.dictionaries(of(args[0]), of(args[1]), max_size=2)


def record(cls: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{field.name: of(hints[field.name]) for field in attrs.fields(cls)})


RECORDS = {kind: record(cls) for kind, cls in KINDS.items()}
ANY_RECORD = st.sampled_from(sorted(RECORDS)).flatmap(lambda kind: RECORDS[kind])
