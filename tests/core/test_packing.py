"""Finished operations in little room: which ones, how little, and that nobody can tell."""

from __future__ import annotations

import pytest

from supervisor.core import packing
from supervisor.core.card import card_of
from supervisor.core.catalogue import Catalogue
from supervisor.core.decide.retention import DAY_NS
from supervisor.core.operations import Operations, Packed
from supervisor.core.packing import Packer, card_in, packable, texts, unpacked
from supervisor.core.standing import Waits, waits_for
from supervisor.core.step import TimePassed
from supervisor.core.text import text_of
from supervisor.core.whole import lines, state_from
from tests.core.made import MS, NONE, Core, effect, terms
from tests.core.packed import packed
from tests.core.situations import SITUATIONS


def done(core: Core, count: int, *, handlers: int = 1) -> None:
    """So many dispatches with one effect each, of so many handlers in turn."""
    for n in range(count):
        core.exit(core.begin(terms(effect(contract=NONE), handler=f"h{n % handlers}"), f"r{n}"))


def standing(core: Core) -> tuple[list[Packed], list]:
    """The packed operations, and the others."""
    operations = packed(core.state).operations
    return [*operations.filed], [*operations.loose.values()]


@pytest.mark.guarantee("J9")
@pytest.mark.parametrize("name", SITUATIONS)
def test_only_what_waits_for_nothing_but_its_eviction_is_packed(name):
    core = Core()
    SITUATIONS[name](core)
    small, loose = standing(core)
    for one in map(unpacked, small):
        assert waits_for(one) is Waits.EVICTION
    for one in loose:
        assert waits_for(one) is not Waits.EVICTION or one.tally.unresolved
    state = packed(core.state)
    assert [*state.operations.loose.values()] == loose
    unfinished = {o.operation_id for o in core.state.operations.values() if not o.finished}
    assert unfinished <= {one.operation_id for one in loose}
    assert state == core.state == state_from(lines(state))


def test_a_packed_dispatch_takes_a_few_hundred_bytes():
    core = Core()
    done(core, 200, handlers=3)
    small, loose = standing(core)
    assert (len(small), len(loose)) == (200, 0)
    whole = sum(len(text_of(unpacked(one))) for one in small) / len(small)
    samples = {one.sample for one in small}
    assert len(samples) == 3
    room = (sum(len(one.content) for one in small) + sum(map(len, samples))) / len(small)
    assert room < 400 < whole / 3


def test_samples_are_few_and_what_has_none_is_packed_too(monkeypatch):
    monkeypatch.setattr(packing, "SAMPLES", 2)
    core = Core()
    done(core, 4, handlers=4)
    small, _ = standing(core)
    assert len({one.sample for one in small}) == 3
    assert sum(not one.sample for one in small) == 2
    assert packed(core.state) == core.state


def test_what_was_looked_at_is_not_unpacked_again_at_once():
    core = Core()
    done(core, packing.REMEMBERED + 1)
    operations = packed(core.state).operations
    first, *others = sorted(operations)
    seen = operations[first]
    assert operations[first] is seen
    for one in others:
        assert operations[one]
    assert operations[first] is not seen
    assert operations[first] == seen


def test_packed_or_not_they_are_the_same_map():
    core = Core()
    done(core, 2)
    running = core.begin(terms(effect()), "runs")
    whole, small = core.state.operations, packed(core.state).operations
    assert whole == small
    assert small == whole
    assert whole != [*whole]
    assert {*small} == {*whole}
    assert dict(small.items()) == dict(whole.items())
    assert len(small) == len(small.values()) == 3
    one = core.state.calls[running]
    assert one in small
    assert small.get(one) is whole[one]
    assert "op_none" not in small
    assert small.get("op_none") is None
    assert small != whole.delete(one)
    other = next(name for name in whole if name != one)
    assert small.delete(other) == whole.delete(other)
    assert small != small.set(other, whole[one])
    assert Operations() != small
    for name in whole:
        assert small.updated_at(name) == whole[name].updated_at


def test_the_lines_of_one_that_is_packed_are_those_of_its_card_and_itself():
    core = Core()
    done(core, 1)
    (operation,) = core.state.operations.values()
    assert packable(operation)
    card, text = card_of(operation), text_of(operation)
    assert texts(Packer().packed(card, text)) == (text_of(card), text)


def test_a_message_whose_operation_is_packed_is_the_same_message():
    core = Core()
    done(core, 1)
    core.state = packed(core.state)
    (one,) = core.state.operations
    again = core.do(core.submitted(terms(effect(contract=NONE), handler="h0"), "r0"))
    assert (again.operation_id, again.repeated, again.records) == (one, True, ())


def test_an_eviction_unpacks_nothing():
    core = Core()
    done(core, 3)
    core.state = packed(core.state)
    before = unpacked.cache_info().misses
    core.wait(31 * DAY_NS // MS)
    core.do(TimePassed(core.now, 1_000, 30, 400, 30))
    assert not core.state.operations
    assert unpacked.cache_info().misses == before
    assert core.state.catalogue == Catalogue()
    assert not [*core.state.calls, *core.state.effects, *core.state.messages]


def test_a_card_is_the_same_from_either_form():
    core = Core()
    done(core, 2)
    small = packed(core.state).operations
    for one, operation in core.state.operations.items():
        held = small.as_held(one)
        assert held is not None
        assert card_in(held) == card_in(operation) == card_of(operation)


@pytest.mark.parametrize("days", [0, 31])
def test_a_packed_operation_is_evicted_when_its_time_comes(days):
    core = Core()
    done(core, 3)
    core.wait(days * DAY_NS // MS)
    core.state = packed(core.state)
    core.do(TimePassed(core.now, 1_000, 30, 400, 30))
    assert len(core.state.operations) == (0 if days else 3)
    assert len(core.state.tombstones) == (3 if days else 0)
    assert core.state == state_from(lines(core.state))
