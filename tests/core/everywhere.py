"""Everywhere that an operation of any kind can stand, and where it does."""

from __future__ import annotations

import functools

from supervisor.core.standing import operation_state
from supervisor.core.state import Call, Operation
from tests.core.made import Core
from tests.core.situations import SITUATIONS
from tests.core.situations_open import OPEN
from tests.core.situations_open import prepared as an_open_one
from tests.core.situations_programs import PROGRAMS
from tests.core.situations_programs import prepared as a_program
from tests.core.verbs import chosen, newest_effect

NAMES = (*SITUATIONS, *PROGRAMS, *OPEN)


@functools.cache
def there(name: str) -> tuple[Core, Operation]:
    """Made once: to decide changes nothing, and what is folded is another state."""
    if name in OPEN:
        core, one = an_open_one(name)
    elif name in PROGRAMS:
        core, one = a_program(name)
    else:
        core = Core()
        one = core.operation(SITUATIONS[name](core)).operation_id
    return core, core.state.operations[one]


def words(name: str) -> tuple[str, ...]:
    """What a table may call it by, the narrowest first."""
    operation = there(name)[1]
    kind, state = operation.kind.value, operation_state(operation).value
    effect, call = newest_effect(operation), chosen(operation)
    outcome = f"its effect is {effect.outcome.value}" if effect is not None else "it has no effect"
    return name, outcome, _phase(call), f"{kind} {state}", state, kind, "*"


def _phase(call: Call | None) -> str:
    if call is None:
        return "it has no call"
    if call.live is not None:
        return "its call runs"
    if not call.attempts:
        return "its call was never tried"
    return "its call is over"
