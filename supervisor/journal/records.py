"""Records to the bytes of a frame's payload, and back: one strict converter.

A payload is a JSON array, one object a record, keys sorted, defaults left out; `k` names
the kind. An unknown kind or field is refused, never skipped: a newer writer made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from supervisor.core.errors import SupervisorError
from supervisor.core.record import KIND_OF, KINDS, Record
from supervisor.core.strict import exactly, strict_converter


class UnknownRecord(SupervisorError):  # noqa: N818  # says what was met, as trio names them
    """A payload that this version cannot read: altered, or written by a newer one."""


_array, _object, _text = exactly(list), exactly(dict), exactly(str)
_CONVERTER = strict_converter()


# Made when a kind is first met: making all of them is a tenth of a start's work.
_OUT: dict[type[Record], Callable[[Record], dict[str, Any]]] = {}
_IN: dict[type[Record], Callable[[Mapping[str, Any], Any], Record]] = {}


def _unstructure_of(cls: type[Record]) -> Callable[[Record], dict[str, Any]]:
    if cls not in _OUT:
        _OUT[cls] = make_dict_unstructure_fn(cls, _CONVERTER, _cattrs_omit_if_default=True)
    return _OUT[cls]


def _structure_of(cls: type[Record]) -> Callable[[Mapping[str, Any], Any], Record]:
    if cls not in _IN:
        _IN[cls] = make_dict_structure_fn(
            cls, _CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False
        )
    return _IN[cls]


def to_document(record: Record) -> dict[str, Any]:
    """The record as JSON values, `k` included."""
    return {"k": KIND_OF[type(record)], **_unstructure_of(type(record))(record)}


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
    cls = KINDS.get(kind)
    if cls is None:
        raise UnknownRecord(f"record kind {kind!r} is not known to this version")
    try:
        return _structure_of(cls)(document, cls)
    except Exception as error:
        raise UnknownRecord(f"a record of kind {kind!r} does not read back: {error}") from error
