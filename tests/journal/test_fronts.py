"""What a snapshot says of its segment spares a start the lines, and hides nothing from it."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from supervisor.journal import chain, opening, snapshot, verify
from supervisor.journal.codec import GENESIS, Line, encode, line_of, parse
from supervisor.journal.errors import JournalCorrupt, JournalError
from supervisor.journal.front import Fronts
from supervisor.journal.snapshot import BadSnapshot, Place, snapshots_among
from tests.journal.driver import SIZE, Driver
from tests.journal.fakeos import FakeOs, contents_of, from_contents
from tests.journal.test_snapshot_reading import with_newest
from tests.journal.test_snapshots import JOURNAL, Start, joined, laid_out, take


def written_to_its_end(driver: Driver) -> str:
    point = driver.writer.point
    return sha256(contents_of(driver.os)[point.name][: point.end]).hexdigest()


@pytest.mark.parametrize("align", [0, 512])
def test_the_writer_knows_what_it_wrote_across_segments_and_starts(align: int) -> None:
    driver = Driver(FakeOs(), align=align)
    for round_ in range(4):
        assert round_ == 0 or driver.writer.here.front == written_to_its_end(driver)
        for sizes in ((5,), (300, 300), (20, 1, 400), (500,)):
            driver.grow(*sizes)
            assert driver.writer.here.front == written_to_its_end(driver)
        driver.mark()
        assert driver.writer.here == driver.writer.point._replace(front=written_to_its_end(driver))
        driver.writer.close()
        driver.open()


def test_after_a_torn_tail_it_knows_the_new_segment() -> None:
    driver = Driver(FakeOs())
    driver.grow(300, 300)
    contents = contents_of(driver.os)
    name, end = driver.writer.point.name, driver.writer.point.end
    contents[name] = contents[name][:end] + b"torn" + contents[name][end + 4 :]
    again = Driver(from_contents(contents))
    assert again.verdict == "torn-tail"
    assert again.writer.point.name != name
    assert again.writer.here.front == written_to_its_end(again)


def busy() -> Driver:
    """Its newest snapshot stands in a segment with many lines before it, and some behind."""
    driver = Driver(FakeOs(), size=8 * SIZE)
    driver.grow(5)
    driver.rotate()
    for _ in range(2):
        for size in (20, 300, 1, 500):
            driver.grow(size, 30)
        driver.mark()
        take(driver)
    driver.grow(10)
    return driver


class Look:
    """A witness of chosen positions: what it was shown of them."""

    def __init__(self, *positions: int) -> None:
        self.positions = positions
        self.seen: list[Line] = []

    def see(self, line: Line) -> None:
        if line.position in self.positions:
            self.seen.append(line)

    def settle(self, tip: chain.Tip) -> None:
        self.tip = tip


def walked(contents: dict[str, bytes], *positions: int) -> Any:
    """The outcome where a start goes line by line."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Fronts, "proven", lambda *_: None)
        return outcome(contents, *positions)


def outcome(contents: dict[str, bytes], *positions: int) -> Any:
    """All that a start makes of it: what was folded, what it told, and where it goes on."""
    look, disk = Look(*positions), from_contents(contents)
    folded: list[Any] = []
    try:
        opened = opening.open_directory(
            disk,
            0,
            folded.append,
            lambda position, content: folded.append((position, bytes(content))),
            segment_bytes=SIZE,
            align=512,
            watch=lambda: look,
        )
    except JournalError as error:
        return repr(error), folded, contents_of(disk) == contents
    tip = opened.walked.tip
    told = (tip.position, tip.digest, tip.durable, tip.journal, tip.base, tuple(tip.blemishes))
    return told, folded, look.seen, opened.writer.point, opened.started_from, opened.refused


def test_a_start_looks_at_no_line_of_what_is_as_it_was_written(monkeypatch: Any) -> None:
    driver = busy()
    looked: list[int] = []

    def noted(buf: bytes, start: int, limit: int) -> Line | None:
        line = parse(buf, start, limit)
        looked.extend([line.position] if line is not None else [])
        return line

    monkeypatch.setattr(chain, "parse", noted)
    start = Start(from_contents(contents_of(driver.os)))
    since = start.opened.started_from
    (first,) = start.opened.walked.segments
    # Its header, which repeats the position before it, and what stands behind the snapshot.
    assert looked == [first.first - 1, since + 1, since + 2]
    assert since - first.first > 15
    assert start.folded == joined(driver.appended)


def test_whatever_a_witness_asks_for_it_is_shown() -> None:
    driver = busy()
    contents = contents_of(driver.os)
    first, last = int(driver.writer.point.name[9:21]), driver.writer.point.position
    for position in range(first, last + 2):
        for asked in ((position,), (first, position)):
            found = outcome(contents, *asked)
            assert found == walked(contents, *asked)
            assert [one.position for one in found[2]] == sorted({*asked} - {last + 1})


@pytest.mark.guarantee("J2", "J4")
def test_no_changed_bit_is_another_thing_to_a_start_for_what_the_snapshot_says() -> None:
    driver = busy()
    contents = contents_of(driver.os)
    name = snapshots_among(contents)[0]
    point = snapshot.parse(name, contents[name]).point
    sound = outcome(contents)
    assert sound == walked(contents)
    refused = 0
    for at in range(0, point.end, 13):
        content = bytearray(contents[point.name])
        content[at] ^= 1 << at % 8
        changed = {**contents, point.name: bytes(content)}
        found = outcome(changed)
        assert found == walked(changed), at
        assert found != sound, at
        refused += "JournalCorrupt" in found[0]
    assert refused > 100


@pytest.mark.guarantee("J2")
def test_damage_that_comes_before_the_snapshot_is_not_blessed_by_it() -> None:
    driver = busy()
    point = driver.writer.point
    contents = contents_of(driver.os)
    at = contents[point.name].rindex(b'"n"')
    fd = driver.os.open(0, point.name)
    driver.os.put(fd, b"X", at)
    driver.os.fsync(fd)
    take(driver)
    with pytest.raises(JournalCorrupt) as caught:
        Start(from_contents(contents_of(driver.os)))
    assert (caught.value.report.file, caught.value.report.first) == (point.name, point.position)


def test_a_snapshot_that_says_something_else_of_its_segment_changes_nothing() -> None:
    driver = busy()
    wrong = driver.writer.here._replace(front="0" * 64)
    snapshot.write(driver.os, 0, Place(wrong, JOURNAL), [joined(driver.appended)])
    driver.grow(5)
    contents = contents_of(driver.os)
    assert outcome(contents) == walked(contents)
    assert outcome(contents)[4] == wrong.position


@pytest.mark.parametrize("off", [-1, 1])
def test_a_snapshot_that_names_another_line_than_the_one_that_ends_there_is_refused(
    off: int,
) -> None:
    driver = busy()
    here = driver.writer.here
    wrong = here._replace(position=here.position + off)
    snapshot.write(driver.os, 0, Place(wrong, JOURNAL), [joined(driver.appended)])
    driver.grow(5, 5)
    contents = contents_of(driver.os)
    assert outcome(contents) == walked(contents)
    assert re.match(r"JournalCorrupt.* snap-\d{12}.json (says|proves)", outcome(contents)[0])


@pytest.mark.parametrize("front", ["0" * 63, "Z" * 64, "0" * 64 + "\n", 7, None])
def test_what_is_no_digest_is_damage_to_the_snapshot(front: Any) -> None:
    name, contents = with_newest(busy(), front=front)
    with pytest.raises(BadSnapshot, match="no digest of what comes before it"):
        snapshot.parse(name, contents[name])
    assert Start(from_contents(contents)).opened.refused.keys() == {name}


def test_the_verifier_proves_each_line_all_the_same(tmp_path: Path) -> None:
    driver = busy()
    contents = contents_of(driver.os)
    laid_out(tmp_path / "sound", contents)
    found = verify.verify(tmp_path / "sound")
    assert (found.damage, found.frames) == (None, len(driver.appended) - 1)  # one was let go
    point = driver.writer.point
    damaged = contents[point.name].replace(b'"n"', b'"m"', 1)
    laid_out(tmp_path / "damaged", {**contents, point.name: damaged})
    assert verify.verify(tmp_path / "damaged").damage is not None


def test_the_journal_is_known_though_its_first_line_is_not_looked_at() -> None:
    driver = Driver(FakeOs())
    driver.grow(5)
    first = line_of(contents_of(driver.os)[driver.writer.point.name], 1, SIZE)
    assert first is not None
    journal = first[1].digest[:32]
    snapshot.write(driver.os, 0, Place(driver.writer.here, journal), [joined(driver.appended)])
    driver.grow(5)
    start = Start(driver.os)
    assert (start.opened.walked.tip.journal, start.opened.started_from) == (journal, 1)


def test_after_damaged_padding_nobody_vouches_for_what_was_written() -> None:
    driver = Driver(FakeOs())
    driver.grow(5)
    contents = contents_of(driver.os)
    point = driver.writer.point
    content = bytearray(contents[point.name])
    content[content.index(b"\n\n") + 1] ^= 1
    again = Driver(from_contents({**contents, point.name: bytes(content)}))
    assert again.writer.here == again.writer.point
    again.grow(5)
    assert again.writer.here == again.writer.point
    again.rotate()
    again.grow(5)
    assert again.writer.here.front == written_to_its_end(again)


def test_a_line_is_found_by_its_position_and_not_where_another_quotes_it() -> None:
    driver = Driver(FakeOs())
    quoted, _ = encode(3, 0, GENESIS, b"[3]")
    driver.append([b'["a 3 b"]', b'["%b"]' % quoted[:-3], b"[3]", b'["3 "]'])
    point = driver.writer.point
    content = contents_of(driver.os)[point.name]
    begins = point.end
    for position in range(4, 0, -1):
        found = line_of(content, position, point.end)
        assert found is not None
        at, line = found
        assert (line, line.end) == (parse(content, at, point.end), begins)
        assert line_of(content, position, line.end - 4) is None
        begins = at
    assert line_of(content, 5, point.end) is None


def test_a_snapshot_of_nobody_knows_what_has_no_front() -> None:
    driver = Driver(FakeOs())
    driver.grow(5)
    snapshot.write(driver.os, 0, Place(driver.writer.point, JOURNAL), [b"[]"])
    (name,) = snapshots_among(driver.os.names)
    content = contents_of(driver.os)[name]
    assert b"front" not in content
    assert snapshot.parse(name, content).point == driver.writer.point
