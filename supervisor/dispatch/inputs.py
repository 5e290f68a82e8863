"""What a call is given, held against what its handler says that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from config.load import Handler
from supervisor.core.errors import Refusal
from supervisor.core.state import Call

if TYPE_CHECKING:
    from config.schemas import InputFault


def unfit(handler: Handler, value: Any) -> InputFault | None:
    """The fault that the handler's `input_schema` finds, if it has one."""
    if handler.input_schema is None:
        return None
    # A fifth of the start-up time, and most handlers have no schema.
    from config.schemas import input_fault  # noqa: PLC0415

    return input_fault(handler.input_schema, value)


def misfit_of(handler: Handler, call: Call) -> Refusal | None:
    """Why a program's call may not be made as it is: its input had no value when the program was
    accepted. Every other call's was held against the schema when it was asked for."""
    fault = unfit(handler, call.input) if call.node else None
    if fault is None:
        return None
    where = fault.pointer or "the whole input"
    detail = f"node {call.node!r}: handler {handler.name!r} does not take {where}: {fault.message}"
    return Refusal("InvalidInput", detail, call_id=call.call_id, pointer=f"/input{fault.pointer}")
