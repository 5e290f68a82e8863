"""The values of the fold as lines of JSON, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from supervisor.core.changed import changed
from supervisor.core.counting import tally_of
from supervisor.core.errors import SupervisorError
from supervisor.core.state import Operation
from supervisor.core.strict import exactly, strict_converter

_CONVERTER = strict_converter()
_Value = TypeVar("_Value")


class UnknownWhole(SupervisorError):  # noqa: N818  # says what was met, as trio names them
    """Not a whole that this version can read: altered, incomplete, or a newer one's."""


def line(value: Any) -> bytes:
    """JSON types as one line. Equal values give equal lines, in any process."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def text_of(value: Any) -> bytes:
    """A value of the fold, as one line."""
    return line(_out_of(value.__class__)(value))


def read(cls: type[_Value], value: Any) -> _Value:
    """The value whose JSON types these are. Raises UnknownWhole."""
    try:
        made: _Value = _in_of(cls)(exactly(dict)(value, None), cls)
    except Exception as error:
        raise UnknownWhole(f"a part ({cls.__name__}) does not read back: {error}") from error
    return made


def _operation_out(cls: type[Operation]) -> Any:
    return _made_out(cls, tally=override(omit=True))


def _operation_in(cls: type[Operation]) -> Callable[[Any, Any], Operation]:
    untallied = _made_in(cls, tally=override(omit=True))

    def structure(value: Any, _: Any) -> Operation:
        operation: Operation = untallied(value, cls)
        return changed(operation, tally=tally_of(operation))

    return structure


def _is_operation(cls: Any) -> bool:
    return cls is Operation


def _made_out(cls: type[Any], **members: Any) -> Any:
    return make_dict_unstructure_fn(cls, _CONVERTER, _cattrs_omit_if_default=True, **members)


def _made_in(cls: type[Any], **members: Any) -> Any:
    return make_dict_structure_fn(
        cls,
        _CONVERTER,
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=False,
        **members,
    )


_CONVERTER.register_unstructure_hook_factory(_is_operation, _operation_out)
_CONVERTER.register_structure_hook_factory(_is_operation, _operation_in)


# Made when they are first needed: many a start reads no snapshot, and makes none for long.
_OUT: dict[type[Any], Any] = {}
_IN: dict[type[Any], Any] = {}


def _out_of(cls: type[Any]) -> Any:
    if cls not in _OUT:
        _OUT[cls] = (_operation_out if cls is Operation else _made_out)(cls)
    return _OUT[cls]


def _in_of(cls: type[Any]) -> Any:
    if cls not in _IN:
        _IN[cls] = (_operation_in if cls is Operation else _made_in)(cls)
    return _IN[cls]
