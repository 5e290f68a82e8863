"""Handler protocol 1 as the daemon reads it: any bytes, in any pieces, at any rate."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor import channel
from supervisor.channel import (
    Announce,
    Channel,
    Confirm,
    Fault,
    Message,
    Progress,
    ResultGiven,
)

RESULT_MAX = 1_000


def line(**said: Any) -> bytes:
    return json.dumps(said).encode() + b"\n"


def heard(data: bytes, size: int = 1 << 20, most: int = RESULT_MAX) -> list[Message]:
    """What a channel hears when the bytes come in reads of that size."""
    made = Channel(most)
    return [
        message
        for start in range(0, len(data), size)
        for message in made.feed(data[start : start + size])
    ]


ANNOUNCE = line(type="announce", effect="charge", request={"amount": 1})
CONFIRM = line(type="confirm", ordinal=0, outcome="applied", result="r")
DENY = line(type="confirm", ordinal=0, outcome="not_applied", reason="no")
RESULT = line(type="result", value=[1])
PROGRESS = line(type="progress", fraction=0.5, message="half")
LINES = st.sampled_from([ANNOUNCE, CONFIRM, DENY, RESULT, b"junk\n", b"\n", b"[]\n", b"x" * 80_000])


@settings(database=None, deadline=None)
@given(st.lists(LINES, max_size=12), st.integers(1, 200_000))
@example([b"x" * 80_000] * 3 + [b"\n", CONFIRM], 7)
def test_what_is_heard_does_not_depend_on_how_the_bytes_come(lines: list[bytes], size: int) -> None:
    data = b"".join(lines)
    assert heard(data, size) == heard(data)


@settings(database=None, deadline=None)
@given(st.binary(max_size=300).map(lambda data: data + b"\n"))
@example(b'{"type":"confirm","ordinal":true,"outcome":"applied"}\n')
@example(b'{"type":"announce","effect":"x","request":' + b"[" * 100_000 + b"\n")
@example(b'{"type":"result","value":1e999}\n')
@example(b'{"type":"result","value":"\\ud800"}\n')
@example(b'{"type":"progress","fraction":' + b"9" * 5_000 + b"}\n")
@example(b'{"type":"progress","fraction":1e400}\n')
def test_any_bytes_are_messages_or_faults_and_never_an_exception(data: bytes) -> None:
    for message in heard(data):
        assert isinstance(message, Message)


def test_every_message_of_the_protocol_is_heard_in_order() -> None:
    found = heard(ANNOUNCE + CONFIRM + DENY + RESULT + PROGRESS)
    assert [type(one) for one in found] == [Announce, Confirm, Confirm, ResultGiven, Progress]
    assert found[0] == Announce("charge", {"amount": 1})
    assert found[-1] == Progress(500, "half")


@pytest.mark.guarantee("S6")
def test_of_the_progress_in_one_read_only_the_newest_is_looked_at() -> None:
    many = b"".join(line(type="progress", fraction=n / 1_000) for n in range(1_000))
    assert heard(many) == [Progress(999, "")]
    both = many + CONFIRM + line(type="progress", fraction=1)
    assert [type(one) for one in heard(both)] == [Confirm, Progress]
    assert heard(both)[1] == Progress(1_000, "")


@pytest.mark.parametrize(
    "said", ['{"type":"progress"', '{ "type" : "progress"', ' {"type":"progress"']
)
def test_progress_is_known_however_its_json_is_spaced(said: str) -> None:
    data = f'{said},"fraction":0.1}}\n{said},"fraction":0.2}}\n'.encode()
    assert heard(data) == [Progress(200, "")]


@pytest.mark.guarantee("S6")
def test_once_only_confirmations_matter_nothing_else_is_looked_at() -> None:
    made = Channel(RESULT_MAX)
    messages = made.feed(b"junk\n" + RESULT + b"\n" * 1_000 + CONFIRM + ANNOUNCE + PROGRESS)
    assert isinstance(next(messages), Fault)
    made.only_confirmations = True  # in the middle of a read
    assert [type(one) for one in messages] == [Confirm]


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize("size", [1, 3, 4_096, 1 << 20])
def test_a_line_of_any_length_takes_no_more_memory_than_the_longest_that_counts(size: int) -> None:
    made = Channel(RESULT_MAX)
    most = channel.REQUEST_MAX + channel.LINE_OVERHEAD
    piece = b"x" * size
    tracemalloc.start()
    try:
        for _ in range(max(3, min(2 * most // size, 100_000))):
            assert list(made.feed(piece)) == []
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.2 * most + 4_096
    assert peak < 4 * (most + size)
    (fault,) = made.feed(b"\n")
    assert fault == Fault(f"a line of more than {most} bytes") or size == 1
    assert [type(one) for one in made.feed(CONFIRM)] == [Confirm]


@pytest.mark.guarantee("S6")
def test_a_read_full_of_lines_is_not_turned_into_as_many_messages_at_once() -> None:
    data = b"\n" * 8_192
    made = Channel(RESULT_MAX)
    tracemalloc.start()
    try:
        count = sum(1 for _ in made.feed(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 8_192
    assert peak < 100_000


def test_a_confirmation_counts_however_long_its_result_is() -> None:
    long = line(type="confirm", ordinal=3, outcome="applied", result="r" * 200_000)
    (said,) = heard(long, 4_096)
    assert isinstance(said, Confirm)
    assert (said.ordinal, said.applied) == (3, True)
    assert said.result is not None
    assert said.result.unavailable == "too_large"
