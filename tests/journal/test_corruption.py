"""Rot: whatever is changed, cut, lost, doubled or swapped, no acknowledged frame goes silently."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping

import pytest

from supervisor.journal.chain import Emit, Walker, Wanted
from supervisor.journal.codec import SECTOR, encode, parse
from supervisor.journal.errors import JournalCorrupt, JournalTooNew
from supervisor.journal.naming import segments_among
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of
from tests.journal.visited import visited

ALIGNS = [0, 512]


def small_journal(align: int, *, mark: bool, size: int = 2048) -> tuple[dict[str, bytes], Driver]:
    """Three segments, of which each holds several batches."""
    driver = Driver(FakeOs(), align=align, size=size)
    while driver.writer.point.number < 3 or driver.writer.rest > size // 3:
        driver.grow(0, 7)
        driver.grow(60)
    if mark:
        driver.mark()
    files = {n: c for n, c in contents_of(driver.os).items() if n.endswith(".jnl")}
    assert len(files) >= 3
    return files, driver


class Reading:
    """What a walk over these files gives: the payloads, and the verdict. One that skims, as
    `verify` does, must say the same."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.payloads: list[bytes] = []
        self._positions: list[int] = []
        self.report = None
        self.blemishes: list[str] = []
        seen = self._walk(files, self._emit, None)
        skimmed: list[int] = []
        wanted = self._positions[3::7] + self._positions[-1:]
        told = self._walk(files, lambda _name, _offset, line: skimmed.append(line.position), wanted)
        assert told == seen
        assert set(skimmed) >= set(wanted)

    def _walk(self, files: Mapping[str, bytes], emit: Emit, wanted: list[int] | None) -> object:
        self.report, self.blemishes, tip = None, [], None
        try:
            looked_at = None if wanted is None else Wanted(wanted)
            walker = Walker(segments_among(files), files.__getitem__, emit, wanted=looked_at)
            tip = walker.tip
            walked = walker.run()
            self.blemishes = walked.tip.blemishes
            self.verdict = "torn-tail" if walked.tail.torn else "clean"
            if walked.tip.blemishes:
                self.verdict = "blemished"
        except JournalCorrupt as error:
            self.verdict, self.report = "refused", error.report
        except JournalTooNew:
            self.verdict = "too new"
        return self.verdict, self.report, tip

    def _emit(self, _name, _offset, line) -> None:
        if line.payload.startswith(b"["):
            self.payloads.append(line.payload)
            self._positions.append(line.position)


def check(files: Mapping[str, bytes], appended: list[bytes], what: object) -> str:
    reading = Reading(files)
    assert reading.payloads == appended[: len(reading.payloads)], f"altered content: {what}"
    if reading.verdict != "refused":
        lost = len(appended) - len(reading.payloads)
        assert lost == 0, f"{lost} acknowledged frames lost without a word: {what}"
    else:
        assert reading.report is not None
        assert reading.report.why
        assert reading.report.first >= 1
    return reading.verdict


def changed(files: Mapping[str, bytes], name: str, at: int, new: bytes) -> dict[str, bytes]:
    content = files[name]
    return {**files, name: content[:at] + new + content[at + len(new) :]}


@pytest.mark.many
@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize(
    ("align", "mark", "size"),
    [
        pytest.param(512, False, 1024, id="small"),
        pytest.param(512, True, 2048, id="512-attested", marks=pytest.mark.long),
        pytest.param(512, False, 2048, id="512-unattested", marks=pytest.mark.long),
        pytest.param(0, True, 1024, id="0-attested", marks=pytest.mark.long),
        pytest.param(0, False, 1024, id="0-unattested", marks=pytest.mark.long),
    ],
)
def test_every_single_flipped_bit_is_refused_or_harmless(align, mark, size):
    files, driver = small_journal(align, mark=mark, size=size)
    counts: collections.Counter[str] = collections.Counter()
    for name, content in files.items():
        for at in range(len(content)):
            for bit in range(8) if align == 0 or size > 1024 else (at % 8, (at + 3) % 8):
                flipped = changed(files, name, at, bytes([content[at] ^ 1 << bit]))
                counts[check(flipped, driver.appended, (name, at, bit))] += 1
    print(dict(counts))
    if size == 1024 and align:
        visited("flipped bits, small", counts.total())
    assert counts.total() >= 8000
    assert counts["refused"] > counts.total() // 4
    assert counts["too new"] == 0


@pytest.mark.many
@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize("mark", [True, False], ids=["attested", "unattested"])
@pytest.mark.parametrize("align", ALIGNS)
def test_a_flip_or_a_newline_in_an_acknowledged_batch_is_refused_or_harmless(align, mark):
    files, driver = small_journal(align, mark=mark)
    *_, last = files
    content = files[last]
    refused = 0
    for at in range(content.rindex(b" [", 0, len(content) - 400) - 60, len(content)):
        for new in {0x0A, content[at] ^ 1 << at % 8} - {content[at]}:
            broken = changed(files, last, at, bytes([new]))
            refused += check(broken, driver.appended, (last, at, new)) == "refused"
    assert refused > 200


@pytest.mark.guarantee("J5")
def test_an_edit_with_a_new_checksum_is_found_by_the_line_behind():
    files, _ = small_journal(512, mark=True)
    for name, content in files.items():
        at = content.rindex(b'"x":"')
        at = content.rindex(b'"x":"', 0, at)
        start = content.rindex(b"\n", 0, at) + 1
        line = parse(content, start, len(content))
        assert line is not None
        payload = line.payload.replace(b'"x"', b'"y"')
        edited, _ = encode(line.position, line.durable, line.previous, payload)
        broken = changed(files, name, start, edited)
        assert Reading(broken).verdict == "refused"
        assert Reading(broken).report.first == line.position + 1


@pytest.mark.guarantee("J2", "J5")
@pytest.mark.long
@pytest.mark.parametrize("align", ALIGNS)
def test_every_byte_replaced_is_refused_or_harmless(align):
    files, driver = small_journal(align, mark=True)
    for name, content in files.items():
        for at in range(len(content)):
            for new in {0, 0x0A, 0xFF, (content[at] + 1) % 256} - {content[at]}:
                check(changed(files, name, at, bytes([new])), driver.appended, (name, at, new))


def blocks(files: Mapping[str, bytes], size: int) -> Iterator[tuple[str, int, bytes, str]]:
    contents = list(files.values())
    for number, (name, content) in enumerate(files.items()):
        for at in range(0, len(content), size):
            yield name, at, bytes(size), "zeros"
            yield name, at, b"\n" * size, "filler"
            yield name, at, contents[number - 1][at : at + size], "another segment's"
            yield name, at, content[at - size : at] if at else content[size : 2 * size], "neighbour"


@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize("size", [SECTOR, 1024, 4096])
@pytest.mark.parametrize("align", ALIGNS)
def test_every_lost_or_misdirected_block_is_refused_or_harmless(align, size):
    """But for the one residue: filler over the whole of the last batch, which was a mark.

    What shares that block is lost with it. Aligned batches share no sector.
    """
    files, driver = small_journal(align, mark=True, size=max(2048, 2 * size))
    *_, last = files
    mark_at = files[last].rindex(b"{")
    refused = residue = points = 0
    for name, at, new, what in blocks(files, size):
        points += 1
        broken = changed(files, name, at, new)
        if (name, what) == (last, "filler") and at <= mark_at < at + size:
            reading = Reading(broken)
            residue += len(driver.appended) - len(reading.payloads)
            assert reading.verdict in ("torn-tail", "clean")
        else:
            refused += check(broken, driver.appended, (name, at, what)) == "refused"
    visited(f"lost and misdirected blocks, align {align}, {size} bytes", points)
    assert refused > points // 3
    assert residue == 0 or size > align


@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize("align", ALIGNS)
def test_every_block_that_is_still_what_it_once_was_is_refused_or_harmless(align):
    """A write that the drive said it did. What cannot be seen without an anchor: the newest
    block, back in a state that was the whole journal's once. Nothing else is ever lost."""
    driver = Driver(FakeOs(), align=align, size=8192)
    history: list[dict[str, bytes]] = []
    while driver.writer.point.number < 2 or driver.writer.rest > 4096:
        driver.grow(150, 7)
        history.append(contents_of(driver.os))
    driver.mark()
    files = {n: c for n, c in contents_of(driver.os).items() if n.endswith(".jnl")}
    *_, last = files
    points = 0
    for size in (SECTOR, 4096):
        newest = (len(files[last].rstrip(b"\n")) - 1) // size * size
        for before in history:
            for name, at in ((n, a) for n in before for a in range(0, 8192, size)):
                old = before[name][at : at + size]
                if name not in files or old == files[name][at : at + size]:
                    continue
                points += 1
                reading = Reading(changed(files, name, at, old))
                assert reading.payloads == driver.appended[: len(reading.payloads)]
                lost = len(driver.appended) - len(reading.payloads)
                seen = reading.verdict == "refused" or not lost
                assert seen or (name, at) == (last, newest), (name, at, reading.verdict)
    visited(f"stale blocks, align {align}", points)


@pytest.mark.many
@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize("align", ALIGNS)
def test_zeros_from_anywhere_to_the_end_are_never_taken_for_an_end(align):
    """What some file systems leave of a file that was growing. Segments never grow."""
    files, driver = small_journal(align, mark=True)
    points = 0
    for name, content in files.items():
        end = len(content.rstrip(b"\n"))
        for at in range(0, len(content), 3):
            points += 1
            zeros = changed(files, name, at, bytes(len(content) - at))
            verdict = check(zeros, driver.appended, (name, at))
            assert verdict == "refused" or at >= end - 2, (name, at, verdict)
    visited(f"zeros from anywhere on, align {align}", points)


@pytest.mark.many
@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize("align", [pytest.param(0, marks=pytest.mark.long), 512])
def test_a_segment_cut_short_anywhere_is_refused_unless_only_dead_bytes_are_gone(align):
    files, driver = small_journal(align, mark=True)
    *sealed, active = files
    for name in files:
        end = len(files[name].rstrip(b"\n")) + 1
        for length in range(0 if name in sealed else end - 600, len(files[name])):
            verdict = check({**files, name: files[name][:length]}, driver.appended, (name, length))
            if name in sealed:
                assert (verdict == "refused") == (length < end - 3), (name, length, verdict)
            else:
                assert verdict == "refused", (active, length, verdict)


@pytest.mark.guarantee("J2", "J5")
def test_a_missing_doubled_swapped_or_renamed_segment_is_refused():
    files, driver = small_journal(512, mark=True)
    one, two, three = files
    cases = {
        "the first is missing": {two: files[two], three: files[three]},
        "one in the middle is missing": {one: files[one], three: files[three]},
        "doubled under another position": {**files, "00000002-000000000099.jnl": files[two]},
        "swapped": {**files, one: files[two], two: files[one]},
        "the last repeats the one before": {**files, three: files[two]},
        "renamed to a number that is not its own": {
            one: files[one],
            two: files[two],
            "00000003-000000000777.jnl": files[three],
        },
        "a foreign name": {**files, "backup.jnl": files[two]},
        "empty": {**files, three: b""},
        "one more without a header": {**files, "00000004-000000000099.jnl": b"\n" * 2048},
    }
    for what, broken in cases.items():
        assert check(broken, driver.appended, what) == "refused", what


@pytest.mark.guarantee("J5")
def test_a_report_names_file_offset_positions_and_what_is_after():
    files, driver = small_journal(512, mark=True)
    name = list(files)[1]
    at = files[name].index(b'"x":"', 700)
    report = Reading(changed(files, name, at, b"?")).report
    assert report is not None
    line = files[name].rindex(b"\n", 0, at) + 1
    assert (report.file, report.offset) == (name, line)
    assert report.first <= report.last <= driver.writer.point.position
    assert "intact behind it" in report.after
    assert "1 later segments" in report.after
    assert name in report.describe()


@pytest.mark.guarantee("J2")
@pytest.mark.parametrize("align", ALIGNS)
def test_a_torn_batch_and_a_flip_in_what_was_acknowledged_never_lose_it_silently(align):
    """Two faults at once: every sector subset of the last batch, and one changed byte."""
    driver = Driver(FakeOs(), align=align, size=4096)
    for _ in range(3):
        driver.grow(50, 90)
    name = driver.writer.point.name
    before, acknowledged = contents_of(driver.os)[name], list(driver.appended)
    driver.grow(350, 420, 30)
    whole = contents_of(driver.os)[name]
    sectors = [a for a in range(0, 4096, SECTOR) if before[a : a + SECTOR] != whole[a : a + SECTOR]]
    end = len(before.rstrip(b"\n"))
    assert len(sectors) >= 2
    points = 0
    for mask in range(1 << len(sectors)):
        torn = before
        for number, at in enumerate(sectors):
            if mask >> number & 1:
                torn = torn[:at] + whole[at : at + SECTOR] + torn[at + SECTOR :]
        for at in range(0, end, 7):
            flipped = torn[:at] + bytes([torn[at] ^ 0x10]) + torn[at + 1 :]
            points += 1
            reading = Reading({name: flipped})
            if reading.verdict != "refused":
                assert reading.payloads[: len(acknowledged)] == acknowledged, (mask, at)
    visited(f"a flip in a torn batch, align {align}", points)


def all_tears(align: int, step: int) -> Iterator[tuple[str, bytes]]:
    """Each subset of a large batch's sectors; the batch stopped after each `step` bytes."""
    driver = Driver(FakeOs(), align=align, size=16384)
    driver.grow(50, 90)
    name = driver.writer.point.name
    before = contents_of(driver.os)[name]
    driver.grow(*(36 * i for i in range(1, 14)))
    whole = contents_of(driver.os)[name]
    sectors = [
        a for a in range(0, len(whole), SECTOR) if before[a : a + SECTOR] != whole[a : a + SECTOR]
    ]
    assert len(sectors) >= 9
    for mask in range(1 << len(sectors)):
        torn = bytearray(before)
        for number, at in enumerate(sectors):
            if mask >> number & 1:
                torn[at : at + SECTOR] = whole[at : at + SECTOR]
        yield name, bytes(torn)
    for at in range(sectors[0], len(whole.rstrip(b"\n")) + 2, step):
        yield name, whole[:at] + before[at:]


@pytest.mark.many
@pytest.mark.guarantee("J2")
@pytest.mark.parametrize(
    ("align", "step"),
    [
        (512, 11),
        pytest.param(512, 1, marks=pytest.mark.long),
        pytest.param(0, 1, marks=pytest.mark.long),
    ],
)
def test_no_tear_of_a_large_batch_is_taken_for_rot(align, step):
    count = 0
    for name, torn in all_tears(align, step):
        reading = Reading({name: torn})
        assert reading.verdict != "refused", (count, reading.report)
        assert len(reading.payloads) >= 2
        count += 1
    visited(f"tears of a large batch, align {align}, step {step}", count)
