"""Records to the bytes of a frame's payload, and back: one strict converter.

A payload is a JSON array, one object a record, keys sorted, defaults left out; `k` names
the kind. An unknown kind or field is refused, never skipped: a newer writer made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_origin

import orjson
from cattrs import BaseConverter, Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from supervisor.core.errors import SupervisorError
from supervisor.core.record import KIND_OF, KINDS, Record


class UnknownRecord(SupervisorError):  # noqa: N818  # says what was met, as trio names them
    """A payload that this version cannot read: altered, or written by a newer one."""


Structure = Callable[[Any, Any], Any]


def _converter() -> Converter:
    # Detailed errors cost a third of the time to read a journal, and say no more to anyone
    # than which kind of record it was.
    made = Converter(forbid_extra_keys=True, omit_if_default=True, detailed_validation=False)
    for kind in (int, str, bool):
        made.register_structure_hook(kind, _exactly(kind))
    made.register_structure_hook_factory(
        _is_tuple, lambda cls, converter: _tuple_of(converter, get_args(cls))
    )
    return made


def _exactly(kind: type) -> Structure:
    def structure(value: Any, _: Any) -> Any:
        # cattrs would turn "7" into 7 and true into 1.
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {value!r}")
        return value

    return structure


_array, _object, _text = _exactly(list), _exactly(dict), _exactly(str)


def _is_tuple(cls: Any) -> bool:
    origin: Any = get_origin(cls)
    return origin is tuple


def _tuple_of(converter: BaseConverter, kinds: tuple[Any, ...]) -> Structure:
    """A JSON array and nothing else: cattrs would take a text apart into its letters."""
    any_length = kinds[-1] is Ellipsis
    parts = [(kind, converter.get_structure_hook(kind)) for kind in kinds if kind is not Ellipsis]

    def structure(value: Any, _: Any) -> tuple[Any, ...]:
        items: list[Any] = _array(value, None)
        wanted = parts * len(items) if any_length else parts
        return tuple(hook(one, kind) for one, (kind, hook) in zip(items, wanted, strict=True))

    return structure


_CONVERTER = _converter()


def _unstructure_of(cls: type[Record]) -> Callable[[Record], dict[str, Any]]:
    return make_dict_unstructure_fn(cls, _CONVERTER, _cattrs_omit_if_default=True)


def _structure_of(cls: type[Record]) -> Callable[[Mapping[str, Any], Any], Record]:
    return make_dict_structure_fn(
        cls, _CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
    )


_OUT = {cls: _unstructure_of(cls) for cls in KINDS.values()}
_IN = {kind: (cls, _structure_of(cls)) for kind, cls in KINDS.items()}


def to_document(record: Record) -> dict[str, Any]:
    """The record as JSON values, `k` included."""
    return {"k": KIND_OF[type(record)], **_OUT[type(record)](record)}


def encode(records: Iterable[Record]) -> bytes:
    """The payload of one frame. TypeError for a value that JSON cannot carry."""
    documents = [to_document(record) for record in records]
    return orjson.dumps(documents, option=orjson.OPT_SORT_KEYS)


def decode(payload: bytes) -> tuple[Record, ...]:
    """The records of one frame. Raises UnknownRecord for anything else."""
    try:
        return tuple(_from_document(one) for one in _array(orjson.loads(payload), None))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise UnknownRecord(f"a payload does not read back: {error}") from error


def _from_document(value: Any) -> Record:
    document: dict[str, Any] = _object(value, None)
    kind = _text(document.pop("k", None), None)
    known = _IN.get(kind)
    if known is None:
        raise UnknownRecord(f"record kind {kind!r} is not known to this version")
    cls, structure = known
    try:
        return structure(document, cls)
    except Exception as error:
        raise UnknownRecord(f"a record of kind {kind!r} does not read back: {error}") from error
