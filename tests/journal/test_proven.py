"""What a damaged journal hands over: all that its chain proves, and nothing else."""

from __future__ import annotations

from hashlib import sha256

import pytest

from supervisor.journal import snapshot
from supervisor.journal.codec import Made, made_payload
from supervisor.journal.errors import JournalCorrupt
from supervisor.journal.opening import open_directory
from supervisor.journal.proven import vouched
from supervisor.journal.snapshot import BadSnapshot, Place, parse, snapshots_among
from tests.journal.driver import SIZE, Driver
from tests.journal.fakeos import contents_of, from_contents
from tests.journal.test_snapshots import JOURNAL, Start, flipped, grown, joined

FORGED = b'["nobody wrote this"]'


class Refused:
    """What one start handed over before it was refused."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.content = b""
        self.began: list[int] = []
        self.payloads: list[bytes] = []
        disk = from_contents(contents)
        with pytest.raises(JournalCorrupt) as caught:
            open_directory(disk, 0, self._frame, self._begin, segment_bytes=SIZE, align=512)
        self.report = caught.value.report
        assert contents_of(disk) == contents

    def _frame(self, frame) -> None:
        self.payloads.append(frame.payload)

    def _begin(self, position: int, content: memoryview) -> None:
        self.began.append(position)
        self.content, self.payloads = bytes(content).rstrip(b"\n"), []

    @property
    def folded(self) -> list[bytes]:
        began = self.content[1:-1].replace(b"],[", b"]\0[").split(b"\0") if self.content else []
        return [*began, *self.payloads]


def forged(content: bytes, instead: bytes = FORGED) -> bytes:
    """The same place and a true checksum, and other content."""
    body = content[: content.index(b"\n") + 1] + instead + b"\n"
    return body + b"sha256 %b\n" % sha256(body).hexdigest().encode()


def is_prefix(refused: Refused, appended: list[bytes]) -> int:
    assert refused.folded == appended[: len(refused.folded)]
    return len(refused.folded)


def written_under_load() -> Driver:
    """Decisions went on while the newest snapshot was written: its record stands behind them."""
    driver = grown(snapshots=2)
    where = Place(driver.writer.here, JOURNAL)
    seal = snapshot.write(driver.os, 0, where, [joined(driver.appended)])
    driver.grow(20, 300)
    driver.append([made_payload(Made(where.point.position, seal))], decisions=False)
    driver.grow(40)
    return driver


@pytest.mark.guarantee("J2", "J9")
@pytest.mark.parametrize("busy", [False, True])
def test_nothing_of_a_snapshot_that_was_replaced_is_handed_over(busy):
    driver = written_under_load() if busy else grown(snapshots=3)
    contents = contents_of(driver.os)
    new, old = snapshots_among(contents)[:2]
    refused = Refused({**contents, new: forged(contents[new])})
    assert refused.report.file == new
    assert "it was replaced" in refused.report.why
    assert refused.began == [int(old[5:-5])]
    assert is_prefix(refused, driver.appended) == len(driver.appended)


@pytest.mark.guarantee("J2", "J9")
def test_one_that_was_replaced_leaves_the_journal_itself_when_that_is_all_there():
    driver = grown(snapshots=1)
    contents = contents_of(driver.os)
    (only,) = snapshots_among(contents)
    refused = Refused({**contents, only: forged(contents[only])})
    assert (refused.began, refused.content) == ([0], b"")
    assert is_prefix(refused, driver.appended) == len(driver.appended)


@pytest.mark.guarantee("J2", "J9")
def test_damage_before_a_snapshots_line_leaves_the_older_one_and_what_follows_it():
    """In any byte of the snapshot's own segment; the line and what is behind it stay whole."""
    driver = grown(snapshots=2)
    driver.grow(20, 30)
    contents = contents_of(driver.os)
    new, old = snapshots_among(contents)
    point, before = (parse(name, contents[name]).point for name in (new, old))
    segment = contents[point.name]
    shown: set[int] = set()
    for at in range(0, point.end, 37):
        if segment[at : at + 1] in b"\t.\n":  # no part of a frame
            continue
        broken = bytearray(segment)
        broken[at] ^= 4
        refused = Refused({**contents, point.name: bytes(broken)})
        assert refused.report.file == point.name
        assert refused.began == [before.position]
        shown.add(is_prefix(refused, driver.appended))
    assert max(shown) < len(driver.appended)


@pytest.mark.guarantee("J2", "J9")
def test_damage_behind_a_snapshots_line_leaves_all_that_is_before():
    """Also where the record that vouches for its file is itself what was lost."""
    driver = grown(snapshots=2)
    contents = contents_of(driver.os)
    new = snapshots_among(contents)[0]
    point = parse(new, contents[new]).point
    behind = sorted(name for name in contents if name.endswith(".jnl") and name >= point.name)
    for text in (b'"k":"snapshot"', b'"x":"'):
        start = {name: point.end if name == point.name else 0 for name in behind}
        name = next(name for name in behind if contents[name].find(text, start[name]) >= 0)
        broken = bytearray(contents[name])
        broken[broken.index(text, start[name])] ^= 4
        refused = Refused({**contents, name: bytes(broken)})
        assert refused.began[-1] == point.position
        assert is_prefix(refused, driver.appended) >= refused.content.count(b'"n":')


@pytest.mark.guarantee("J2", "J9")
def test_without_the_segment_of_the_newest_snapshot_the_older_serves_up_to_the_gap():
    driver = grown(snapshots=3)
    contents = contents_of(driver.os)
    new, old = snapshots_among(contents)
    lost = parse(new, contents[new]).point.name
    refused = Refused({name: held for name, held in contents.items() if name != lost})
    assert refused.began == [int(old[5:-5])]
    assert 0 < is_prefix(refused, driver.appended) < len(driver.appended)


@pytest.mark.guarantee("J2")
def test_with_nothing_proven_nothing_is_handed_over():
    driver = grown(snapshots=3)
    contents = contents_of(driver.os)
    for name in snapshots_among(contents):
        contents[name] = forged(contents[name])
    refused = Refused(contents)
    assert (refused.began, refused.folded) == ([0], [])
    assert not list(vouched(contents, contents.__getitem__))
    for name in snapshots_among(contents):
        contents = flipped(contents, name)
    assert not list(vouched(contents, contents.__getitem__))


@pytest.mark.guarantee("J9")
def test_one_whose_content_cannot_be_read_gives_way_to_the_older():
    """It is whole and vouched for: only whoever takes its content can tell."""
    driver = grown(snapshots=3)
    new, old = snapshots_among(driver.os.names)
    begun: list[int] = []

    def begin(position: int, _content: memoryview) -> None:
        if position == int(new[5:-5]):
            raise BadSnapshot("it does not read back")
        begun.append(position)

    frames: list[bytes] = []
    disk = driver.os.killed()
    opened = open_directory(
        disk, 0, lambda frame: frames.append(frame.payload), begin, segment_bytes=SIZE, align=512
    )
    assert begun == [opened.started_from] == [int(old[5:-5])]
    assert opened.refused == {new: "it does not read back"}
    assert f"quarantine/{new}" in disk.durable_names
    assert frames == driver.appended[-len(frames) :]
    assert Start(disk).folded == joined(driver.appended)
