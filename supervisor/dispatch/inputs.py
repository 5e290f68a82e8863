"""What a call is given: its recorded input, and the raw inputs that are in no record.

Raw inputs live in memory, from their message to the end of its operation, and nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import rfc8785

from config.load import Handler
from frozen import frozen
from supervisor.core.errors import Refusal
from supervisor.core.ids import OperationId
from supervisor.core.record import OperationRecord, Record
from supervisor.core.state import Call, Operation, State
from supervisor.journal import durably
from supervisor.program import Faulty, Meter, program_of, template

if TYPE_CHECKING:
    from config.schemas import InputFault

KEY_FILE = "inputs.key"
_KEY_BYTES = 32
# Shorter texts occur everywhere, and hiding them would hide everything.
HIDEABLE = 4
# Each is looked for in everything that the handler says.
HIDDEN_MAX = 1_024


class RawInputs:
    """The raw inputs of the operations that have not finished."""

    def __init__(self, state_dir: Path) -> None:
        self._key_file = state_dir / KEY_FILE
        self._held: dict[OperationId, Mapping[str, Any]] = {}
        self._one_makes_it = threading.Lock()

    def digest(self, request_digest: str, inputs: Mapping[str, Any]) -> str:
        """The digest of a message with these. Nobody can try values against it without the key,
        which is in a file beside the journal and in no copy of that. Blocks; OSError."""
        body = rfc8785.dumps([request_digest, cast("dict[str, Any]", inputs)])
        return hmac.new(self._key(), body, hashlib.sha256).hexdigest()

    def _key(self) -> bytes:
        with self._one_makes_it:
            if not self._key_file.exists():
                durably.replace(self._key_file, secrets.token_bytes(_KEY_BYTES))
        key = self._key_file.read_bytes()
        if len(key) != _KEY_BYTES:
            raise OSError(0, f"it has {len(key)} bytes, and not {_KEY_BYTES}", str(self._key_file))
        return key

    @contextlib.contextmanager
    def offered(
        self, one: OperationId, inputs: Mapping[str, Any], accepted: Callable[[], bool]
    ) -> Generator[None]:
        """Hold them while the message is decided, and from then on if it is accepted."""
        if inputs:
            self._held[one] = inputs
        try:
            yield
        finally:
            if not accepted():
                self._held.pop(one, None)

    def of(self, one: OperationId) -> Mapping[str, Any] | None:
        return self._held.get(one)

    def let_go(self, records: Iterable[Record], state: State) -> None:
        """Forget those of operations that have finished with these records."""
        if not self._held:
            return
        for record in records:
            if not isinstance(record, OperationRecord):
                continue
            one = record.operation_id
            if one in self._held and (
                one not in state.operations or state.operations[one].finished
            ):
                del self._held[one]


@frozen
class Given:
    """A call's input, whole; `raw` are the places of raw inputs in it, and `hidden` the texts that
    are not to be written down."""

    value: Any = attrs.field(repr=False)
    raw: tuple[str, ...] = ()
    hidden: tuple[bytes, ...] = attrs.field(default=(), repr=False)


def given_to(raw: RawInputs, operation: Operation, call: Call) -> Given | Refusal:
    """What the call is given now; a refusal when that cannot be had."""
    program = operation.program
    if program is None or not program.inputs:
        return Given(call.input)
    node = program_of(program.document, program.inputs).call_at(call.node)
    held = raw.of(operation.operation_id)
    try:
        values = dict(template.raw_values(node.input, held, "", Meter()))
    except Faulty:  # what it says may say the value
        detail = f"node {call.node!r}: an expression does not fit the raw inputs that it asks for"
        return Refusal("InvalidInput", detail, call_id=call.call_id)
    if not values:
        return Given(call.input)
    if held is None:
        return _gone(call)
    whole, hidden = template.completed(call.input, values, ""), _texts([held, *values.values()])
    if template.too_deep(whole) or len(hidden) > HIDDEN_MAX:
        detail = f"node {call.node!r}: with its raw inputs it is nested too deeply, or has too many"
        return Refusal("LimitExceeded", f"{detail} texts to hide", call_id=call.call_id)
    return Given(whole, tuple(values), hidden)


def _gone(call: Call) -> Refusal:
    detail = f"node {call.node!r} asks for raw inputs, which went with the daemon that had them"
    fix = "Send the program again, with another message id."
    return Refusal("NotResumable", detail, fix=fix, call_id=call.call_id)


def _texts(values: list[Any]) -> tuple[bytes, ...]:
    """Every text in them that can be recognised, as it is and as JSON spells it; longest first.

    Names of members are none: they occur where nothing of that is.
    """
    found: set[bytes] = set()
    waiting = values
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += cast("Mapping[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += cast("Sequence[Any]", one)
        elif isinstance(one, str) and len(one) >= HIDEABLE:
            spelled = (
                json.dumps(one, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)
            )
            found |= {text.encode() for text in (one, *spelled)}
    return tuple(sorted(found, key=len, reverse=True))


# --- against the handler's schema -----------------------------------------------------------


def unfit(handler: Handler, value: Any) -> InputFault | None:
    """The fault that the handler's `input_schema` finds, if it has one."""
    if handler.input_schema is None:
        return None
    # A fifth of the start-up time, and most handlers have no schema.
    from config.schemas import InputFault, input_fault  # noqa: PLC0415

    try:
        return input_fault(handler.input_schema, value)
    except RecursionError:  # a schema that refers to itself goes as deep as the value
        return InputFault("", "it is nested too deeply to be held against input_schema")


def misfit_of(handler: Handler, call: Call, given: Given) -> Refusal | None:
    """Why a program's call may not be made as it is: its input had no value when the program was
    accepted. Every other call's was held against the schema when it was asked for."""
    fault = unfit(handler, given.value) if call.node else None
    if fault is None:
        return None
    # A schema's fault repeats the value, and names its members.
    inside = next((at for at in given.raw if _within(fault.pointer, at)), None)
    where = fault.pointer if inside is None else inside
    said = fault.message if not given.raw else "with its raw inputs it does not fit input_schema"
    detail = f"node {call.node!r}: handler {handler.name!r} does not take "
    detail += f"{where or 'the whole input'}: {said}"
    return Refusal("InvalidInput", detail, call_id=call.call_id, pointer=f"/input{where}")


def _within(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(place + "/")
