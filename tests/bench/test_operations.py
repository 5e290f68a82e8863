"""Many operations are what the real core makes of ten, again and again, and can be measured."""

from __future__ import annotations

from collections import Counter

from bench import operations
from bench.crowd import crowd
from supervisor.core.standing import operation_state
from supervisor.core.whole import lines, state_from


def test_a_crowd_is_ten_operations_many_times_over():
    ten, many = crowd(10).state, crowd(30).state
    assert (len(ten.operations), len(ten.calls.keys())) == (10, 100)
    assert (len(many.operations), len(many.calls.keys())) == (30, 300)
    states = [Counter(map(operation_state, one.operations.values())) for one in (ten, many)]
    assert states[1] == Counter({state: 3 * count for state, count in states[0].items()})
    assert state_from(lines(many)) == many


def test_each_answer_is_timed_in_both_and_shown():
    found = operations.measure(20, 1, 1)
    page = operations.page(found)
    assert {*found.few} == {*found.many}
    for name in found.few:
        assert found.few[name].median_ns > 0
        assert f"| {name} |" in page
    assert found.room.filed < found.room.whole / 8
    assert f"it takes {found.room.filed} bytes" in page
