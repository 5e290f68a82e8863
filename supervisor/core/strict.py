"""One strict converter between frozen values and JSON types: what was written and nothing else.

Defaults are left out; an unknown field, another type or a missing field is refused, never
guessed. `journal/records` uses it for records, `core/whole` for the fold.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from cattrs import BaseConverter, Converter
from immutables import Map

Structure = Callable[[Any, Any], Any]


def strict_converter() -> Converter:
    # Detailed errors cost a third of the time to read a journal, and say no more to anyone
    # than which kind of record it was.
    made = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
    for kind in (int, str, bool):
        made.register_structure_hook(kind, exactly(kind))
    # JSON types as they are: cattrs would walk through them and copy each container.
    made.register_unstructure_hook_func(_is_json, lambda value: value)
    for of, structure in ((tuple, _tuple_of), (Map, _map_of), (frozenset, _frozenset_of)):
        made.register_structure_hook_factory(_origin_is(of), _with_args(structure))
    # cattrs asks the enumeration, and of what may be missing which it is, for every value.
    made.register_structure_hook_factory(_is_enum, _enum_of)
    made.register_structure_hook_factory(_is_optional, _with_args(_optional_of))
    made.register_unstructure_hook_factory(_origin_is(Map), _map_out)
    made.register_unstructure_hook_func(_origin_is(frozenset), _sorted)
    return made


def exactly(kind: type) -> Structure:
    """A structure hook that takes this very type; raises TypeError for any other."""

    def structure(value: Any, _: Any) -> Any:
        # cattrs would turn "7" into 7 and true into 1.
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {value!r}")
        return value

    return structure


def _is_json(cls: Any) -> bool:
    return cls is Any or cls == Mapping[str, str]


_array, _object, _text = exactly(list), exactly(dict), exactly(str)


def _origin_is(wanted: type) -> Callable[[Any], bool]:
    def check(cls: Any) -> bool:
        return get_origin(cls) is wanted

    return check


def _with_args(
    make: Callable[[BaseConverter, tuple[Any, ...]], Structure],
) -> Callable[[Any, BaseConverter], Structure]:
    return lambda cls, converter: make(converter, get_args(cls))


def _is_enum(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, enum.Enum)


def _enum_of(cls: type[enum.Enum]) -> Structure:
    members: dict[Any, enum.Enum] = {one.value: one for one in cls}

    def structure(value: Any, _: Any) -> enum.Enum:
        return members[_text(value, None)]

    return structure


def _is_optional(cls: Any) -> bool:
    args = get_args(cls)
    return get_origin(cls) in {Union, UnionType} and len(args) == 2 and type(None) in args


def _optional_of(converter: BaseConverter, kinds: tuple[Any, ...]) -> Structure:
    (kind,) = (one for one in kinds if one is not type(None))
    hook = converter.get_structure_hook(kind)
    return lambda value, _: None if value is None else hook(value, kind)


def _tuple_of(converter: BaseConverter, kinds: tuple[Any, ...]) -> Structure:
    """A JSON array and nothing else: cattrs would take a text apart into its letters."""
    any_length = kinds[-1] is Ellipsis
    parts = [(kind, converter.get_structure_hook(kind)) for kind in kinds if kind is not Ellipsis]

    def structure(value: Any, _: Any) -> tuple[Any, ...]:
        items: list[Any] = _array(value, None)
        wanted = parts * len(items) if any_length else parts
        return tuple(hook(one, kind) for one, (kind, hook) in zip(items, wanted, strict=True))

    return structure


def _frozenset_of(converter: BaseConverter, kinds: tuple[Any, ...]) -> Structure:
    items_of = _tuple_of(converter, (kinds[0], ...))
    return lambda value, _: frozenset(items_of(value, None))


def _map_of(converter: BaseConverter, kinds: tuple[Any, ...]) -> Structure:
    """A JSON object; its keys are texts, as they are in every map of the fold."""
    kind = kinds[1]
    hook = converter.get_structure_hook(kind)

    def structure(value: Any, _: Any) -> Map[Any, Any]:
        return Map({key: hook(one, kind) for key, one in _object(value, None).items()})

    return structure


def _sorted(value: frozenset[str]) -> list[str]:
    return sorted(value)


def _map_out(cls: Any, converter: BaseConverter) -> Callable[[Map[Any, Any]], dict[str, Any]]:
    """Sorted: the map's own order is another one in every process."""
    hook = converter.get_unstructure_hook(get_args(cls)[1])

    def unstructure(value: Map[Any, Any]) -> dict[str, Any]:
        return {key: hook(value[key]) for key in sorted(value)}

    return unstructure
