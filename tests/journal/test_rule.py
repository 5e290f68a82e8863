"""Tear or rot, told apart where one byte decides."""

from __future__ import annotations

import re

import pytest

from supervisor.journal.codec import SECTOR, encode
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
