"""JSON Schemas of inputs and results: checked when loaded, never fetched from anywhere."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaResource

from config.problems import WrongValueError
from frozen import frozen

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_DEPTH: Final = 64
MESSAGE_MAX: Final = 500  # characters: jsonschema repeats the instance, however large
# An empty registry retrieves nothing; jsonschema's own default would ask the network.
_OFFLINE: Final[Registry[Any]] = Registry()


def parse_schema(text: str) -> dict[str, Any]:
    """A file's text as a usable schema, or `WrongValueError` saying what is wrong with it."""
    try:
        schema = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except RecursionError:
        raise WrongValueError("it is nested too deeply", "flatten it with $defs") from None
    except ValueError as error:
        raise WrongValueError(f"it is not JSON ({error})", "correct it") from None
    if not isinstance(schema, dict):
        raise WrongValueError("it is not a JSON object", 'write a schema like {"type": "object"}')
    checked = cast("dict[str, Any]", schema)
    _check(checked)
    return checked


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """The compiled schema. It resolves references within itself and fetches nothing."""
    return Draft202012Validator(dict(schema), registry=_OFFLINE)


@frozen
class InputFault:
    """Why an input is refused. `pointer` (RFC 6901) is empty when the whole input is meant."""

    pointer: str
    message: str


def input_fault(schema: Mapping[str, Any], value: Any) -> InputFault | None:
    """The one fault that is told of an input: the outermost, and of equals the first by place.

    Everybody who refuses an input asks here, so that a rehearsal and the daemon say the same.
    """
    found = _compiled(json.dumps(schema)).iter_errors(value)  # pyright: ignore[reportUnknownMemberType]  # the stubs' overload has an untyped side
    errors: list[ValidationError] = sorted(found, key=_outermost)
    if not errors:
        return None
    steps = (str(part).replace("~", "~0").replace("/", "~1") for part in errors[0].absolute_path)
    return InputFault("".join(f"/{step}" for step in steps), errors[0].message[:MESSAGE_MAX])


def _outermost(error: ValidationError) -> tuple[int, str, str]:
    path = error.absolute_path
    return len(path), "/".join(map(str, path)), "/".join(map(str, error.absolute_schema_path))


@functools.lru_cache(maxsize=256)
def _compiled(schema: str) -> Draft202012Validator:
    """Made once for each schema, not for each input. By its text, since a table has no hash."""
    return validator(json.loads(schema))


def _check(schema: dict[str, Any]) -> None:
    dialect = schema.get("$schema", DIALECT)
    if dialect != DIALECT:
        raise WrongValueError(
            f"$schema is {dialect!r}", f'effectd reads 2020-12: write "{DIALECT}" or remove it'
        )
    _require_shallow(schema, 0)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        at = "/".join(map(str, error.absolute_path))
        raise WrongValueError(
            f"it is no JSON Schema 2020-12: {error.message[:200]} (at /{at})", "correct it"
        ) from None
    root: SchemaResource = Resource.from_contents(schema, default_specification=DRAFT202012)
    for resource, resolver in _subschemas(root, _OFFLINE.resolver_with_root(root)):
        _check_references(resource.contents, resolver)


def _require_shallow(value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise WrongValueError(f"it is nested more than {MAX_DEPTH} deep", "flatten it with $defs")
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    for each in inner:
        _require_shallow(each, depth + 1)


def _subschemas(resource: SchemaResource, resolver: Any) -> Iterator[tuple[SchemaResource, Any]]:
    yield resource, resolver
    for inner in resource.subresources():
        yield from _subschemas(inner, resolver.in_subresource(inner))


def _check_references(schema: object, resolver: Any) -> None:
    if not isinstance(schema, dict):
        return
    for keyword in ("$ref", "$dynamicRef"):
        reference = cast("dict[str, Any]", schema).get(keyword)
        if reference is None:
            continue
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise WrongValueError(
                f"the reference {reference!r} leads to nothing in this file, and effectd fetches"
                " no schema",
                'put what it names under $defs and refer to it as "#/$defs/NAME"',
            ) from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return table


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
