"""The one converter: parsed TOML to values, strictly, with every fault reported.

Nothing is coerced and no key is ignored. cattrs collects what its hooks raise into one tree
of exceptions; `structured` walks it and returns faults with dotted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_origin

import attrs
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from config.manifest import Manifest
from config.problems import Fault, WrongValueError, nearest, shown
from config.schema import Config
from config.values import Principal, Reader, parse_flag, parse_integer, parse_text

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

# What a file cannot say: the loader knows it.
_OMITTED: Final[Mapping[type, str]] = {Config: "origin", Manifest: "name"}
# Guessing what each key meant takes its time, and nobody reads a thousand of them.
MAX_UNKNOWN: Final = 50
_REQUIRED: Final = {
    "manifest": "add manifest = 1, the version of this format",
    "command": 'add command = ["/path/to/program"]',
    "timeout_ms": "add timeout_ms, the longest that one attempt may run, in milliseconds",
    "name": "add name = ..., unique in this manifest",
    "contract": "add contract = one of none, idempotency_key, reconciliation, no_safe_retry",
}


def structured(document: Mapping[str, object], kind: type[T]) -> T | tuple[Fault, ...]:
    """The document as a `kind`, or everything that is wrong with it."""
    try:
        return _CONVERTER.structure(document, kind)
    except BaseValidationError as error:
        return tuple(_faults(error, "", kind))


def document_of(config: Config) -> dict[str, Any]:
    """The configuration as plain TOML values, such that `structured` gives it back."""
    return attrs.asdict(
        config,
        filter=lambda field, _: field.name != _OMITTED[Config],
        value_serializer=lambda _, _field, value: _plain(value),
    )


def _plain(value: object) -> object:
    match value:
        case None:
            return ""
        case Path():
            return str(value)
        case Principal():
            return value.text
        case tuple():
            return [_plain(each) for each in cast("tuple[object, ...]", value)]
        case _:
            return value


def _faults(error: BaseException, at: str, kind: type) -> Iterator[Fault]:
    at, kind = _below(error, at, kind)
    match error:
        case WrongValueError():
            yield Fault(at, error.message, error.fix)
        case ForbiddenExtraKeysError():
            unknown = sorted(error.extra_fields)
            for key in unknown[:MAX_UNKNOWN]:
                yield _unknown(key, at, error.cl, kind)
            if len(unknown) > MAX_UNKNOWN:
                more = f"{len(unknown) - MAX_UNKNOWN} more keys are unknown"
                yield Fault(at, more, "this is hardly the right file: name another")
        case BaseValidationError():
            for inner in error.exceptions:
                yield from _faults(inner, at, kind)
        case KeyError():
            name = at.rpartition(".")[2]
            yield Fault(at, "it is required", _REQUIRED.get(name, f"add {name}"))
        case _:
            raise error


def _below(error: BaseException, at: str, kind: type) -> tuple[str, type]:
    """The dotted key of `error`, which stands below `at`."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return (f"{at}.{note.name}" if at else note.name), kind
        if isinstance(note, IterableValidationNote):
            index = note.index
            return (f"{at}[{index}]" if isinstance(index, int) else f"{at}.{index}"), kind
    return at, kind


def _unknown(key: str, at: str, table: type, top: type) -> Fault:
    """An unknown key: the nearest of its own table, else the table where it belongs."""
    where = f"{at}.{key}" if at else key
    own = nearest(key, _keys(table))
    if own is not None:
        fix = f"did you mean {at + '.' if at else ''}{own}? Rename or remove it"
        return Fault(where, "this key is unknown", fix)
    elsewhere = [path for path in _paths(top) if path.rpartition(".")[2] == key]
    if elsewhere:
        home = elsewhere[0].rpartition(".")[0]
        fix = f"it belongs in [{home}]" if home else "it belongs above the first [table]"
        return Fault(where, "this key is unknown here", fix)
    return Fault(where, "this key is unknown", f"known here: {', '.join(_keys(table))}")


def _keys(table: type) -> list[str]:
    return [field.name for field in attrs.fields(table) if field.name != _OMITTED.get(table)]


def _paths(table: type, at: str = "") -> Iterator[str]:
    """Every dotted key below a table, without those of lists."""
    for field in attrs.fields(attrs.resolve_types(table)):
        if field.name == _OMITTED.get(table):
            continue
        yield at + field.name
        if isinstance(field.type, type) and attrs.has(field.type):
            yield from _paths(field.type, f"{at}{field.name}.")


def _reader_of(kind: Any) -> Reader | None:
    for note in getattr(kind, "__metadata__", ()):
        if hasattr(note, "read"):
            return cast(Reader, note)
    return None


def _read_annotated(kind: Any) -> Hook:
    reader = _reader_of(kind)
    assert reader is not None
    return lambda value, _: reader.read(value)


def _read_literal(kind: Any) -> Hook:
    words = get_args(kind)

    def hook(value: Any, _: Any) -> Any:
        # True == 1, so the type has to agree as well.
        if any(type(value) is type(word) and value == word for word in words):
            return value
        known = ", ".join(f'"{word}"' if isinstance(word, str) else str(word) for word in words)
        guess = nearest(value, map(str, words)) if isinstance(value, str) else None
        fix = f'did you mean "{guess}"? Allowed: {known}'
        raise WrongValueError(
            f"expected {'one of ' if len(words) > 1 else ''}{known}, got {shown(value)}",
            fix if guess else f"write {'one of these' if len(words) > 1 else known}",
        )

    return hook


def _read_list(kind: Any, converter: Converter) -> Hook:
    inner = _hook_of(converter, list, get_args(kind)[:1])

    def hook(value: Any, _: Any) -> Any:
        if isinstance(value, dict):
            raise WrongValueError(
                "expected a list, got a table",
                "write [[...]] with two brackets for a list of tables, or [...] for a list",
            )
        if type(value) is not list:
            raise WrongValueError(
                f"expected a list, got {shown(value)}", "put it between square brackets"
            )
        return tuple(inner(value, kind))

    return hook


def _read_table(kind: Any, converter: Converter) -> Hook:
    omitted = {_OMITTED[kind]: override(omit=True)} if kind in _OMITTED else {}
    # Its keyword arguments are one per attribute, which no checker can follow.
    make: Any = make_dict_structure_fn
    inner: Hook = make(kind, converter, _cattrs_detailed_validation=True, **omitted)

    def hook(value: Any, target: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongValueError(
                f"expected a table, got {shown(value)}", "write key = { ... } or [key]"
            )
        return inner(value, target)

    return hook


def _read_mapping(kind: Any, converter: Converter) -> Hook:
    inner = _hook_of(converter, dict, get_args(kind))

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongValueError(
                f"expected a table, got {shown(value)}", "write { NAME = value, ... }"
            )
        return inner(value, kind)

    return hook


def _hook_of(converter: Converter, generic: Any, arguments: tuple[Any, ...]) -> Hook:
    """The converter's own reader of `generic[arguments]`, a type known only at run time."""
    return converter.get_structure_hook(generic[arguments])


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)

    def factory(fits: Callable[[Any], bool], make: Callable[[Any], Hook]) -> None:
        converter.register_structure_hook_factory(fits, make)

    converter.register_structure_hook(bool, lambda value, _: parse_flag(value))
    converter.register_structure_hook(int, lambda value, _: parse_integer(value))
    converter.register_structure_hook(str, lambda value, _: parse_text(value))
    # The newest factory is asked first.
    factory(attrs.has, lambda kind: _read_table(kind, converter))
    factory(_is_generic(tuple), lambda kind: _read_list(kind, converter))
    factory(_is_generic(Mapping), lambda kind: _read_mapping(kind, converter))
    factory(_is_generic(Literal), _read_literal)
    factory(lambda kind: _reader_of(kind) is not None, _read_annotated)
    return converter


def _is_generic(origin: object) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


_CONVERTER: Final = _make_converter()
