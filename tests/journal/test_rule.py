"""Tear or rot, told apart where one byte decides."""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from collections.abc import Callable
from zlib import crc32

import pytest

from supervisor.journal import codec
from supervisor.journal.codec import FILLER, SECTOR, encode, later_lines
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of
from tests.journal.test_corruption import ALIGNS, Reading, changed


@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize("align", ALIGNS)
def test_a_line_behind_any_byte_says_what_had_been_durable(align):
    """A torn line, and the byte before the intact one that attests it is no newline any more."""
    driver = Driver(FakeOs(), align=align, size=8192)
    driver.grow(20)
    driver.grow(30, 200)
    driver.grow(300)
    name = driver.writer.point.name
    content = contents_of(driver.os)[name]
    torn = content.index(b"[", content.index(b'{"n":1,') - 1)
    attests = [m.start() for m in re.finditer(rb"[0-9a-f]{8} [0-9a-f]{6} 4 3 ", content)]
    assert len(attests) == 1
    unwritten = changed({name: content}, name, torn, b"\n" * (512 - torn % 512))
    for byte in (b"\n", b" ", b"a", b"\0"):
        broken = changed(unwritten, name, attests[0] - 1, byte)
        reading = Reading(broken)
        assert reading.verdict == "refused", byte
        assert reading.report is not None
        assert "had been durable" in reading.report.why, byte


@pytest.mark.guarantee("J2")
@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("written", [b"", b"\t"])
def test_a_last_line_that_lacks_only_its_end_is_kept(align, written):
    """Its content is proven, and what is missing was never written."""
    driver = Driver(FakeOs(), align=align, size=8192)
    driver.grow(20)
    driver.grow(30, 200)
    name = driver.writer.point.name
    content = contents_of(driver.os)[name]
    end = content.rindex(b"\t.")
    broken = changed({name: content}, name, end, written.ljust(2, b"\n"))
    reading = Reading(broken)
    assert reading.verdict != "refused"
    assert reading.payloads == driver.appended


@pytest.mark.guarantee("J2")
def test_a_payload_that_quotes_a_frame_cannot_make_a_tear_look_like_rot():
    """What a client sends may look like a frame that attests the far future."""
    quoted, _ = encode(9000, 8999, "0" * 64, b"[]")
    driver = Driver(FakeOs(), size=4096)
    driver.grow(10)
    name = driver.writer.point.name
    before = contents_of(driver.os)[name]
    text = quoted.strip().replace(b"\t", b"")
    driver.append([b'["' + b"y" * 600 + text + b'"]'])
    whole = contents_of(driver.os)[name]
    at = next(a for a in range(0, 4096, SECTOR) if before[a : a + SECTOR] != whole[a : a + SECTOR])
    torn = before[: at + SECTOR] + whole[at + SECTOR :]
    assert text in torn
    assert Reading({name: torn}).verdict == "torn-tail"


SEGMENT = 16 << 20
QUOTED = b"00000000 010000 7 6 " + b"a" * 32 + b" "


@pytest.mark.parametrize("before", [b"", FILLER, b"\t."], ids=["text", "lines", "ends"])
def test_looking_for_lines_takes_no_more_checksums_than_there_are_bytes(monkeypatch, before):
    """A segment full of what claims to be a long frame, as a handler's output could be."""
    summed = 0

    def counted(data: bytes) -> int:
        nonlocal summed
        summed += len(data)
        return crc32(data)

    monkeypatch.setattr(codec, "crc32", counted)
    line, _ = encode(9000, 8999, "0" * 64, b"[]")
    size = SEGMENT // 64
    text = (before + QUOTED) * (size // len(before + QUOTED))
    found = later_lines(text + FILLER + line, 0)
    assert [one.position for one in found] == [9000]
    assert summed <= 2 * len(text)


def test_a_segment_that_was_hardly_written_to_is_looked_through_at_the_speed_of_memory():
    filler, line = FILLER * SEGMENT, encode(9000, 8999, "0" * 64, b"[]")[0]
    assert [one.position for one in later_lines(filler + line, 0)] == [9000]

    def best(look: Callable[[bytes], object]) -> float:
        started = [time.perf_counter()]
        for _ in range(5):
            look(filler)
            started.append(time.perf_counter())
        return min(b - a for a, b in itertools.pairwise(started))

    assert best(lambda filler: later_lines(filler, 0)) < 10 * best(hashlib.sha256)


def test_a_line_that_begins_inside_what_looks_like_another_is_found():
    """Its checksum is where the other's link would end, and nothing but damage is before it."""
    line, _ = encode(9000, 8999, "0" * 64, b"[]")
    for at in range(len(QUOTED) - 8):
        assert [one.position for one in later_lines(QUOTED[:at] + line, 0)] == [9000]
