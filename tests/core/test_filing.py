"""Filed operations: found as before, whatever happens while they are filed and after it."""

from __future__ import annotations

import itertools
from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import drawer as drawer_module
from supervisor.core import filing as filing_module
from supervisor.core.decide.retention import DAY_NS
from supervisor.core.evolve import fold
from supervisor.core.evolve.put import put
from supervisor.core.filing import filing_of
from supervisor.core.record import Ending, OperationEvicted
from supervisor.core.state import State
from supervisor.core.step import TimePassed
from supervisor.core.whole import lines, state_from
from supervisor.journal.records import decode
from tests.core.agent import WRITE, Agent
from tests.core.examples import examples
from tests.core.made import MS, NONE, Core, effect, terms
from tests.core.packed import packed


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawers of four, filed two at a time."""
    monkeypatch.setattr(drawer_module, "FULL_ROWS", 4)
    monkeypatch.setattr(filing_module, "PART", 2)


def done(core: Core, name: str) -> str:
    core.wait(1_000)
    call_id = core.begin(terms(effect(contract=NONE)), name)
    core.exit(call_id)
    return core.state.calls[call_id]


def unfiled(core: Core) -> State:
    """The same state from the records alone."""
    state = State()
    for position, payload in enumerate(core.frames, 1):
        state = fold(state, position, decode(payload))
    assert not state.operations.filed
    return state


def is_found(state: State, whole: State) -> None:
    """Everything in all ways, filed or not."""
    assert state == whole
    assert whole == state
    assert len(state.operations) == len(whole.operations)
    for one, operation in whole.operations.items():
        assert state.operations[one] == operation
        assert state.operations.updated_at(one) == operation.updated_at
        assert state.messages[operation.session_id, operation.request_id] == one
        assert {state.calls[call] for call in operation.calls} <= {one}
        assert {state.effects[effect] for effect in operation.effects} <= {one}
    assert [*state.newest([])] == [*whole.newest([])]
    assert [*state.finished] == [*whole.finished]
    assert state.finished.oldest == whole.finished.oldest
    assert state_from(lines(state)) == whole


STEPS = st.lists(st.sampled_from(["done", "open", "file", "evict", "read"]), max_size=30)


@pytest.mark.guarantee("J9")
@examples(15, 500)
@given(STEPS)
def test_whatever_is_filed_when_it_is_the_same_state(steps):
    core, names = Agent(), itertools.count()
    for step in steps:
        match step:
            case "done":
                done(core, f"r{next(names)}")
            case "open":  # the one before is followed by it, filed or not
                core.end(Ending.DONE)
                core.op = core.message()
                core.completed(WRITE, next(names))
            case "file":
                core.state = packed(core.state)
            case "evict":
                kept = max(len(core.state.operations) - 1, 1)
                core.do(TimePassed(core.now, kept, 30, 400, 30))
            case _:
                core.state = state_from(lines(core.state))
    is_found(core.state, unfiled(core))


@pytest.mark.guarantee("J9")
@examples(15, 500)
@given(st.data())
def test_what_moves_while_they_are_filed_stays_as_it_is(data):
    """Two filings, each of a state that is past when a part of it is put in."""
    core = Core()
    for n in range(7):
        done(core, f"a{n}")
    for begin in ("b", "c"):
        filing = filing_of(core.state)
        for n, part in enumerate(filing.parts()):
            for m in range(data.draw(st.integers(0, 2))):
                done(core, f"{begin}{n}{m}")
            for _ in range(data.draw(st.integers(0, 3))):
                kept = max(len(core.state.operations) - 1, 1)
                core.do(TimePassed(core.now, kept, 30, 400, 30))
            moved = sorted(core.state.operations)[:: data.draw(st.integers(1, 4))]
            for one in moved[:1]:  # as a record does that is about it, in what it changes
                core.state = put(core.state, copy(core.state.operations[one]))
            core.state = filing.into(core.state, part)
            is_found(core.state, unfiled(core))


def test_what_goes_or_changes_while_it_is_filed_is_not_there_twice():
    """One of the drawer that is taken over, one of the first part, and one of the second."""
    core = Core()
    first = [done(core, f"a{n}") for n in range(2)]
    core.state = packed(core.state)
    later = [done(core, f"b{n}") for n in range(4)]
    filing = filing_of(core.state)
    core.put(OperationEvicted(core.now.wall, first[0]), OperationEvicted(core.now.wall, later[0]))
    core.state = put(core.state, copy(core.state.operations[later[1]]))
    for n, part in enumerate(filing.parts()):
        core.state = filing.into(core.state, part)
        is_found(core.state, unfiled(core))
        if n == 0:
            core.put(OperationEvicted(core.now.wall, later[2]))
    assert [*core.state.operations.loose] == [later[1]]
    is_found(core.state, unfiled(core))


def test_prints_that_are_all_the_same_find_the_same(monkeypatch):
    monkeypatch.setattr(drawer_module, "print_of", lambda _text: 7)
    core = Agent()
    for n in range(6):
        done(core, f"r{n}")
    core.completed(WRITE, 1)
    core.end(Ending.DONE)
    core.state = packed(core.state)
    assert not core.state.operations.loose
    is_found(core.state, unfiled(core))
    for absent in (core.state.calls, core.state.effects, core.state.operations):
        assert "none" not in absent
    assert ("uid:1000", "none") not in core.state.messages


def test_what_is_filed_later_is_put_into_the_drawer_that_has_room():
    core = Core()
    for count, drawers in ((3, [3]), (4, [4]), (9, [4, 4, 1]), (10, [4, 4, 2])):
        while len(core.state.operations) < count:
            done(core, f"r{len(core.state.operations)}")
        core.state = packed(core.state)
        assert [*map(len, core.state.operations.filed.drawers)] == drawers
    first, *_ = core.state.operations.filed.drawers
    core.state = packed(core.state)
    assert core.state.operations.filed.drawers[0] is first


def test_a_drawer_goes_when_all_of_it_left():
    core = Core()
    for n in range(9):
        done(core, f"r{n}")
    core.state = packed(core.state)
    for left, drawers in zip(range(8, -1, -1), (3, 3, 3, 2, 2, 2, 2, 1, 0), strict=True):
        core.wait(31 * DAY_NS // MS)
        one = core.state.finished.oldest
        core.put(OperationEvicted(core.now.wall, one))
        assert one not in core.state.operations
        filed = core.state.operations.filed
        assert (len(filed), len(filed.drawers)) == (left, drawers)
        assert len(filed.gone) <= 1
        is_found(core.state, unfiled(core))
    with pytest.raises(KeyError):
        filed.without("op_none")


@pytest.mark.parametrize("bound", ["FULL_NAMES", "FULL_BYTES"])
def test_a_drawer_is_full_by_what_is_in_it_too(bound, monkeypatch):
    monkeypatch.setattr(drawer_module, bound, 1)
    core = Core()
    for n in range(3):
        done(core, f"r{n}")
    core.state = packed(core.state)
    assert [*map(len, core.state.operations.filed.drawers)] == [1, 1, 1]
    is_found(core.state, unfiled(core))


def test_a_message_to_a_session_makes_the_one_before_loose_and_it_keeps_its_place():
    core = Agent()
    core.completed(WRITE, 1)
    core.end(Ending.DONE)
    first = core.op
    done(core, "r")
    core.state = packed(core.state)
    core.op = core.message()
    assert first in core.state.operations.loose
    assert core.state.operations[first].followed_by == core.op
    assert core.state.finished.oldest == first
    is_found(core.state, unfiled(core))
    core.state = packed(core.state)
    assert first not in core.state.operations.loose
    is_found(core.state, unfiled(core))


def test_what_is_nowhere_is_said_to_be():
    core = Core()
    done(core, "r")
    for state in (core.state, packed(core.state)):
        for absent in (state.operations, state.calls, state.effects, state.messages):
            with pytest.raises(KeyError):
                absent["none"]
        with pytest.raises(KeyError):
            state.operations.updated_at("none")
        assert state.operations.filed.numbered(7) is None
        for one in (state, state.calls, state.finished):
            assert one != [*state.operations]
        assert len(state.calls) == 1


def test_what_is_evicted_loose_is_found_by_nothing():
    core = Core()
    one = done(core, "r")
    (call_id,) = core.state.calls
    core.put(OperationEvicted(core.now.wall, one))
    assert call_id not in core.state.calls
    assert ("uid:1000", "r") not in core.state.messages
    assert not [*core.state.newest([])]
    is_found(core.state, unfiled(core))
