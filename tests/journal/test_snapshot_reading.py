"""What a start and the offline tools make of a snapshot that is whole and still not to be used."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.state import State
from supervisor.core.whole import lines
from supervisor.journal import opening, repair, verify
from supervisor.journal.codec import TooNew, parse_made
from supervisor.journal.content import state_in
from supervisor.journal.errors import JournalCorrupt, JournalTooNew
from supervisor.journal.file import REAL
from supervisor.journal.read import snapshots
from supervisor.journal.snapshot import BadSnapshot, Place, parse, snapshots_among, write
from tests.journal.driver import SIZE, Driver
from tests.journal.fakeos import FakeOs, contents_of, from_contents
from tests.journal.test_proven import Refused
from tests.journal.test_snapshots import JOURNAL, Start, grown, joined, laid_out


def sealed(head: bytes, content: bytes = b"[]\n") -> bytes:
    body = head + b"\n" + content
    return body + b"sha256 %b\n" % sha256(body).hexdigest().encode()


def rewritten(content: bytes, **changed: Any) -> bytes:
    """With other members in its first line, and a true checksum."""
    head, _, rest = content.partition(b"\n")
    told = {**json.loads(head), **changed}
    return sealed(json.dumps(told).encode(), rest.rpartition(b"sha256 ")[0])


def with_newest(driver: Driver, **changed: Any) -> tuple[str, dict[str, bytes]]:
    contents = contents_of(driver.os)
    name = snapshots_among(contents)[0]
    return name, {**contents, name: rewritten(contents[name], **changed)}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"position": 7}, "its name is another snapshot's: it holds position 7"),
        ({"segment": "elsewhere.jnl"}, "its first line names no segment"),
        ({"segment": None}, "its first line is none of a snapshot"),
        ({"end": "far"}, "its first line is none of a snapshot"),
    ],
)
@pytest.mark.guarantee("J2", "J9")
def test_a_first_line_that_names_no_place_is_damage(changed: dict[str, Any], why: str) -> None:
    driver = grown(snapshots=3)
    name, contents = with_newest(driver, **changed)
    with pytest.raises(BadSnapshot, match=why):
        parse(name, contents[name])
    start = Start(from_contents(contents))
    assert start.folded == joined(driver.appended)
    assert start.opened.refused == {name: why}


@pytest.mark.parametrize("head", [b"", b"[]", b'{"k":"snapshot"}', b"no JSON"])
def test_what_does_not_begin_as_a_snapshot_is_none(head: bytes) -> None:
    with pytest.raises(BadSnapshot, match="none of a snapshot"):
        parse("snap-000000000001.json", sealed(head))


@pytest.mark.guarantee("J2", "J10")
def test_a_newer_snapshot_is_refused_by_every_reader_and_named(tmp_path: Path) -> None:
    name, contents = with_newest(grown(snapshots=3), format=2)
    disk = from_contents(contents)
    laid_out(tmp_path / "journal", contents)
    for read in (
        lambda: Start(disk),
        lambda: list(snapshots(tmp_path / "journal")),
        lambda: repair.examine(tmp_path / "journal"),
    ):
        with pytest.raises(JournalTooNew, match="format 2 is newer") as caught:
            read()
        assert caught.value.file == name
    assert contents_of(disk) == contents
    assert verify.verify(tmp_path / "journal").verdict == verify.FAILED


@pytest.mark.guarantee("J2", "J10")
def test_a_snapshot_whose_content_is_newer_is_refused_and_nothing_is_changed() -> None:
    driver = grown(snapshots=3)
    disk, name = driver.os.killed(), snapshots_among(driver.os.names)[0]
    before = contents_of(disk)

    def begin(_position: int, content: memoryview) -> None:
        state_in(memoryview(b'{"whole":999}\n' + content))

    with pytest.raises(JournalTooNew, match="version 999") as caught:
        opening.open_directory(disk, 0, lambda _: None, begin, segment_bytes=SIZE, align=512)
    assert caught.value.file == name
    assert contents_of(disk) == before


def test_a_state_reads_back_or_is_called_newer_or_damaged() -> None:
    content = b"".join(line + b"\n" for line in lines(State()))
    assert state_in(memoryview(content)) == State()
    with pytest.raises(TooNew):
        state_in(memoryview(b'{"whole":999}\n'))
    for bad in (b"", b"no JSON\n", b"[]\n", content + b"{}\n"):
        with pytest.raises(BadSnapshot, match="does not read back"):
            state_in(memoryview(bad))


@pytest.mark.guarantee("J2", "J5")
def test_a_line_that_is_not_what_the_snapshot_says_is_refused() -> None:
    driver = grown(snapshots=2)
    name, contents = with_newest(driver, digest="0" * 64)
    refused = Refused(contents)
    assert f"is not what {name} says was durable there" in refused.report.why
    assert refused.began != [int(name[5:-5])]


@pytest.mark.guarantee("J2")
def test_snapshots_without_any_segment_are_no_journal() -> None:
    contents = contents_of(grown(snapshots=2).os)
    alone = {name: held for name, held in contents.items() if name.startswith("snap-")}
    refused = Refused(alone)
    assert refused.report.why == "the segment is missing"
    assert (refused.began, refused.folded) == ([0], [])


@pytest.mark.guarantee("J5", "J6")
def test_the_older_snapshot_may_lack_its_segments_and_the_rest_verifies(tmp_path: Path) -> None:
    contents = contents_of(grown(snapshots=3).os)
    new, old = (parse(name, contents[name]).point for name in snapshots_among(contents))
    assert old.name < new.name
    kept = {n: c for n, c in contents.items() if not n.endswith(".jnl") or n >= new.name}
    laid_out(tmp_path, kept)
    report = verify.verify(tmp_path)
    assert (report.verdict, report.base > old.position) == (verify.INTACT, True)


@pytest.mark.guarantee("J9")
def test_content_of_any_size_is_whole_and_leftovers_are_in_nobodys_way() -> None:
    driver = Driver(FakeOs())
    driver.grow(30)
    place = Place(driver.writer.here, JOURNAL)
    name = f"snap-{place.point.position:012}.json"
    left = driver.os.open(0, f"{name}.tmp", create=True)
    driver.os.put(left, b"half of an earlier one", 0)
    lines = [b"%d" % number + b"x" * 300_000 for number in range(9)]
    seal = write(driver.os, 0, place, lines)
    found = parse(name, contents_of(driver.os)[name])
    assert (found.seal, bytes(found.content)) == (seal, b"".join(one + b"\n" for one in lines))
    assert f"{name}.tmp" not in driver.os.names


@pytest.mark.parametrize("payload", [b'{"k":"snapshot"}', b'{"k":"snapshot","position":"x"}'])
@pytest.mark.guarantee("J2")
def test_a_record_of_a_snapshot_that_says_nothing_is_refused(payload: bytes) -> None:
    assert parse_made(payload) is None
    driver = Driver(FakeOs())
    driver.grow(30)
    driver.append([payload], decisions=False)
    driver.grow(30)
    with pytest.raises(JournalCorrupt, match="a snapshot where none belongs"):
        Start(driver.os.killed())


@pytest.mark.guarantee("J2", "J9")
def test_of_a_damaged_journal_a_snapshot_that_cannot_be_read_is_passed_over() -> None:
    driver = grown(snapshots=2)
    driver.grow(20, 300)
    contents = contents_of(driver.os)
    new, old = snapshots_among(contents)
    segment = max(name for name in contents if name.endswith(".jnl"))
    broken = bytearray(contents[segment])
    broken[broken.index(b'"x"')] ^= 4
    begun: list[int] = []

    def begin(position: int, _content: memoryview) -> None:
        begun.append(position)
        if position == int(new[5:-5]):
            raise BadSnapshot("it does not read back")

    disk = from_contents({**contents, segment: bytes(broken)})
    with pytest.raises(JournalCorrupt):
        opening.open_directory(disk, 0, lambda _: None, begin, segment_bytes=SIZE, align=512)
    assert begun[-1] == int(old[5:-5])


def test_a_directory_below_is_made_once(tmp_path: Path) -> None:
    fd = REAL.open_directory(tmp_path, create=False)
    places = [REAL.subdirectory(fd, "quarantine") for _ in range(2)]
    assert [path.name for path in tmp_path.iterdir()] == ["quarantine"]
    for one in (fd, *places):
        REAL.close(one)
