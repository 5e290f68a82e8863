"""The pace that slows a handler, and the quota that ends it."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from supervisor.dispatch.flow import REST_S, Pace, Quota


async def _seconds(pace: Pace, steps: int, pause_s: float = 0) -> float:
    start = trio.current_time()
    for _ in range(steps):
        await pace.take()
        if pause_s:
            await trio.sleep(pause_s)
    return trio.current_time() - start


def _run(pace: Pace, steps: int, pause_s: float = 0) -> float:
    clock = MockClock(autojump_threshold=0)
    return trio.run(_seconds, pace, steps, pause_s, clock=clock)


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("burst", "per_s", "steps", "seconds"),
    [(10, 100, 10, 0), (10, 100, 11, 0.01), (10, 100, 110, 1), (1_000, 100, 2_000, 10)],
)
def test_a_burst_costs_nothing_and_then_each_step_waits_its_turn(
    burst: int, per_s: int, steps: int, seconds: float
) -> None:
    assert _run(Pace(burst, per_s), steps) == pytest.approx(seconds, abs=2 * REST_S)


def test_whoever_keeps_to_the_rate_never_waits() -> None:
    assert _run(Pace(1, 100), 500, pause_s=0.01) == pytest.approx(5, abs=2 * REST_S)


def test_a_rest_earns_no_more_than_one_burst() -> None:
    async def main() -> float:
        pace = Pace(10, 100)
        await _seconds(pace, 60)
        await trio.sleep(3_600)
        return await _seconds(pace, 60)

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == pytest.approx(
        0.5, abs=2 * REST_S
    )


def test_tasks_that_share_a_pace_share_its_rate() -> None:
    async def main() -> float:
        pace = Pace(10, 100)
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(_seconds, pace, 42)
        return trio.current_time() - start

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == pytest.approx(2, abs=2 * REST_S)


def test_many_steps_at_once_wait_as_long_as_one_by_one() -> None:
    async def main() -> float:
        pace = Pace(10, 100)
        start = trio.current_time()
        for _ in range(10):
            await pace.take(11)
        return trio.current_time() - start

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == pytest.approx(1, abs=2 * REST_S)


def test_each_step_lets_other_tasks_run() -> None:
    async def main() -> None:
        for _ in range(3):
            with trio.testing.assert_checkpoints():
                await Pace(1_000, 1).take()

    trio.run(main)


@settings(database=None)
@given(st.lists(st.integers(0, 100)), st.integers(0, 1_000))
def test_a_quota_holds_to_the_byte_and_stays_spent(sizes: list[int], most: int) -> None:
    quota = Quota(most)
    total = 0
    for size in sizes:
        total += size
        assert quota.spend(size) is (total <= most)
