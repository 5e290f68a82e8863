"""The reserve's arithmetic: what was called guaranteed always fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.journal.codec import OVERHEAD, aligned
from supervisor.journal.room import HEADER_BYTES, Room, frame_cost

SEGMENT = 64 << 10
aligns = st.sampled_from([0, 512, 4096])


class Disk:
    """The real thing: batches of several frames, next-fit into the same files."""

    def __init__(self, align: int, spares: int) -> None:
        self.align, self.spares = align, spares
        self.at = aligned(HEADER_BYTES, align)

    def write(self, batch: list[int]) -> None:
        bound = sum(batch) + OVERHEAD * len(batch)
        if bound > SEGMENT - self.at:
            assert self.spares, "no file left for what was promised to fit"
            self.spares -= 1
            self.at = aligned(HEADER_BYTES, self.align)
        self.at = aligned(self.at + bound, self.align)
        assert self.at <= SEGMENT


def room_of(align: int, spares: int) -> Room:
    room = Room(SEGMENT, align)
    room.reset(SEGMENT - aligned(HEADER_BYTES, align), [SEGMENT] * spares, ())
    return room


@settings(max_examples=60)
@given(aligns, st.integers(0, 3), st.data())
def test_outcomes_whose_costs_were_guaranteed_fit_whatever_came_before(align, spares, data):
    room, disk = room_of(align, spares), Disk(align, spares)
    for size in data.draw(st.lists(st.integers(2, room.payload_limit), max_size=12)):
        keep = data.draw(st.integers(0, 2 * SEGMENT))
        if room.after(frame_cost(size, align)) >= keep:
            assert room.take(frame_cost(size, align))
            disk.write([size])
    left = room.guaranteed
    for size in data.draw(st.lists(st.integers(2, room.outcome_limit), max_size=60)):
        left -= frame_cost(size, align)
        if left < 0:
            break
        assert room.take(frame_cost(size, align))
        disk.write([size])


@given(aligns, st.lists(st.lists(st.integers(2, 900), min_size=1, max_size=4), max_size=60))
def test_the_plan_is_never_ahead_of_the_disk(align, batches):
    room, disk = room_of(align, 2), Disk(align, 2)
    for batch in batches:
        if not all(room.take(frame_cost(size, align)) for size in batch):
            return
        disk.write(batch)


@given(aligns, st.integers(0, 3), st.integers(2, 7000))
def test_after_says_what_take_then_does(align, spares, size):
    room = room_of(align, spares)
    cost, guaranteed = frame_cost(size, align), room.guaranteed
    expected = room.after(cost)
    assert room.take(cost) == (expected >= 0)
    assert room.guaranteed == (expected if expected >= 0 else guaranteed)


@given(aligns, st.integers(0, 3), st.integers(0, 10 * SEGMENT))
def test_as_many_spares_as_are_missing_are_enough(align, spares, keep):
    room = room_of(align, spares)
    for _ in range(room.missing(keep)):
        room.add(SEGMENT)
    assert room.missing(keep) == 0
    assert room.guaranteed >= keep
    assert room.after(frame_cost(10, align)) >= 0


def test_nothing_is_guaranteed_without_files():
    room = Room(SEGMENT, 512)
    assert room.guaranteed == 0
    assert room.after(100) == -1
    assert not room.take(100)
    assert room.missing(0) == 1


def test_the_end_of_a_file_where_an_outcome_may_not_fit_is_not_counted():
    room = Room(SEGMENT, 512)
    largest = frame_cost(room.outcome_limit, 512)
    room.reset(largest, [], ())
    assert room.guaranteed == 0
    room.reset(largest + 512, [], ())
    assert room.guaranteed == 512
    header = aligned(HEADER_BYTES, 512)
    room.reset(largest, [SEGMENT], ())
    assert room.guaranteed == SEGMENT - header - largest
