"""Nothing is stuck, and a projection says what is so: everywhere, and in random histories."""

from __future__ import annotations

import pytest

from supervisor.core.evolve import fold
from supervisor.core.moment import Moment
from supervisor.core.state import State
from supervisor.journal.records import decode
from tests.core.allowed import is_honest, leads_on, nothing_is_stuck
from tests.core.everywhere import NAMES, there
from tests.core.test_machine import history
from tests.core.test_open_machine import history as history_of_agents
from tests.core.test_program_machine import history as history_of_programs


@pytest.mark.guarantee("R3", "R11")
def test_what_is_offered_is_accepted_and_what_is_not_is_refused_as_it_says() -> None:
    for name in NAMES:
        core, operation = there(name)
        found = is_honest(core.state, operation, core.now)
        assert leads_on(core.state, operation, found, core.now), f"{name}: it is stuck"


@pytest.mark.guarantee("R3", "R11")
@pytest.mark.parametrize("made", [history, history_of_agents, history_of_programs])
def test_nothing_is_stuck_after_any_frame_of_a_journal(made) -> None:
    """Whoever begins to read a journal anywhere, and a minute later."""
    state = State()
    for position, payload in enumerate(made(3).host.payloads, 1):
        state = fold(state, position, decode(payload))
        if position % 5 == 0:
            nothing_is_stuck(state, Moment(state.latest + 60_000_000_000, 0, "later"))
