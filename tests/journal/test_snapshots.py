"""Snapshots: what a start makes of them, and every crash while one is made."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from supervisor.journal import archive, opening, snapshot, verify
from supervisor.journal.anchor import HOLDS, IDENTITY_BYTES, STRANGER, UNCHECKED, newest
from supervisor.journal.chain import UNKNOWN
from supervisor.journal.codec import Frame
from supervisor.journal.errors import JournalCorrupt
from supervisor.journal.file import REAL, Os
from supervisor.journal.log import Journal
from supervisor.journal.read import entries
from supervisor.journal.snapshot import BadSnapshot, Place, parse, snapshots_among
from supervisor.journal.witness import identity
from tests.journal.driver import SIZE, Driver
from tests.journal.fakeos import FakeOs, contents_of, from_contents

JOURNAL = "0" * 32
PLACES = {"removed": "", "archived": "archive/", "archived elsewhere": "archive/"}


def joined(payloads: list[bytes]) -> bytes:
    """A fold that forgets nothing: what was appended, in order."""
    return b"[" + b",".join(payloads) + b"]"


def take(driver: Driver, archive: str = "", keep: int = 0) -> str:
    def record(payload: bytes) -> None:
        driver.append([payload], decisions=False)

    place = driver.os.place(archive) if archive else None
    folded = [joined(driver.appended)]
    where = Place(driver.writer.here, JOURNAL)
    name = snapshot.make(driver.os, 0, where, folded, record)
    snapshot.let_go(driver.os, 0, place, keep=keep)
    return name


class Start:
    """What one start gave: the snapshot's content, if any, and the decisions behind it."""

    def __init__(self, os_: FakeOs) -> None:
        self.content: bytes | None = None
        self.frames: list[Frame] = []
        self.opened = opening.open_directory(
            os_, 0, self.frames.append, self._begin, segment_bytes=SIZE, align=512
        )

    def _begin(self, _position: int, content: memoryview) -> None:
        self.content = bytes(content).rstrip(b"\n")

    @property
    def folded(self) -> bytes:
        began = [] if self.content in (None, b"[]") else [self.content[1:-1]]
        return joined([*began, *(frame.payload for frame in self.frames)])


def grown(*, snapshots: int, place: str = "", far: bool = False) -> Driver:
    """Some segments with a snapshot in between, and decisions behind the last one."""
    driver = Driver(FakeOs())
    driver.os.far = far
    for _ in range(snapshots):
        for _ in range(4):
            driver.grow(500, 300)
        take(driver, place)
    driver.grow(20)
    return driver


def oldest_of(driver: Driver) -> tuple[str, bytes]:
    name = snapshots_among(list(driver.os.names))[-1]
    return name, contents_of(driver.os)[name]


@pytest.mark.guarantee("J9")
def test_a_snapshot_and_the_rest_fold_to_the_same_as_all_wherever_it_is_taken():
    for before in range(12):
        driver = Driver(FakeOs())
        for _ in range(before):
            driver.grow(700, 20)
        if driver.writer.point.position:
            take(driver)
        driver.grow(300)
        driver.grow(40, 40)
        start = Start(driver.os.killed())
        assert start.folded == joined(driver.appended)
        assert len(start.frames) == 3


@pytest.mark.guarantee("J4", "J9")
def test_segments_stay_back_to_the_older_of_two_snapshots():
    driver = grown(snapshots=5)
    names = list(driver.os.names)
    assert len(snapshots_among(names)) == 2
    oldest = parse(snapshots_among(names)[-1], contents_of(driver.os)[snapshots_among(names)[-1]])
    segments = sorted(name for name in names if name.endswith(".jnl"))
    assert segments[0] == oldest.point.name
    start = Start(driver.os.killed())
    assert start.folded == joined(driver.appended)
    assert len(start.frames) == 1


@pytest.mark.guarantee("J4", "J9")
@pytest.mark.parametrize("keep", [0, 1, 2, 99])
def test_so_many_more_segments_stay_for_people(keep):
    driver = grown(snapshots=1)
    for _ in range(3):
        driver.grow(500, 300)
    every = sorted(name for name in driver.os.names if name.endswith(".jnl"))
    take(driver, keep=keep)
    needed = parse(*oldest_of(driver)).point.name
    left = sorted(name for name in driver.os.names if name.endswith(".jnl"))
    first = max(every.index(needed) - keep, 0)
    assert every.index(needed) > 1
    assert left == every[first:]
    assert Start(driver.os.killed()).folded == joined(driver.appended)


@pytest.mark.guarantee("J2", "J9")
def test_a_damaged_snapshot_is_put_aside_and_the_older_one_serves():
    driver = grown(snapshots=3)
    newest = snapshots_among(driver.os.names)[0]
    damaged = from_contents(flipped(contents_of(driver.os), newest))
    start = Start(damaged)
    assert start.folded == joined(driver.appended)
    assert list(start.opened.refused) == [newest]
    assert newest not in damaged.names
    assert f"quarantine/{newest}" in damaged.durable_names


@pytest.mark.guarantee("J2", "J9")
def test_a_damaged_snapshot_is_no_reason_to_let_go_of_a_way_to_start():
    """Three files, two of them whole: the older of these and its segments stay."""
    driver = grown(snapshots=2)
    new, old = snapshots_among(driver.os.names)
    inode = driver.os.inodes[driver.os.names[new]]
    inode.cache[len(inode.cache) // 2] ^= 1
    inode.disk = bytes(inode.cache)
    needed = parse(old, contents_of(driver.os)[old]).point.name
    driver.grow(500, 300)
    take(driver)
    assert {new, old} < set(driver.os.names)
    assert min(name for name in driver.os.names if name.endswith(".jnl")) == needed
    assert Start(driver.os.killed()).folded == joined(driver.appended)


@pytest.mark.guarantee("J2", "J9")
def test_without_a_whole_snapshot_the_log_serves_as_long_as_it_is_all_there():
    driver = grown(snapshots=1)
    name = snapshots_among(driver.os.names)[0]
    start = Start(from_contents(flipped(contents_of(driver.os), name)))
    assert start.content is None
    assert start.folded == joined(driver.appended)


@pytest.mark.guarantee("J2", "J9")
def test_what_nothing_stands_for_any_more_is_named_and_nothing_is_changed():
    contents = contents_of(grown(snapshots=3).os)
    for name in snapshots_among(contents):
        contents = flipped(contents, name)
    disk = from_contents(contents)
    with pytest.raises(JournalCorrupt) as caught:
        Start(disk)
    assert caught.value.report.file == "00000001-*.jnl"
    assert all(name in str(caught.value) for name in snapshots_among(contents))
    assert contents_of(disk) == contents


@pytest.mark.guarantee("J2")
def test_a_segment_that_a_snapshot_does_not_cover_is_missed():
    contents = contents_of(grown(snapshots=3).os)
    newest = parse(snapshots_among(contents)[0], contents[snapshots_among(contents)[0]])
    rest = {name: held for name, held in contents.items() if name != newest.point.name}
    with pytest.raises(JournalCorrupt, match=r"missing|had been durable"):
        Start(from_contents(rest))


@pytest.mark.guarantee("J2", "J9")
def test_a_journal_that_is_older_than_its_snapshot_is_refused():
    driver = Driver(FakeOs())
    driver.grow(300)
    older = contents_of(driver.os)
    driver.grow(300)
    name = take(driver)
    mixed = {**older, name: contents_of(driver.os)[name]}
    with pytest.raises(JournalCorrupt, match="had been durable"):
        Start(from_contents(mixed))


def test_no_changed_bit_and_no_cut_leaves_a_snapshot_whole():
    driver = grown(snapshots=1)
    name = snapshots_among(driver.os.names)[0]
    content = contents_of(driver.os)[name]
    for at in range(0, len(content) * 8, 7):
        changed = bytearray(content)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(BadSnapshot):
            parse(name, bytes(changed))
    for end in range(0, len(content), 5):
        with pytest.raises(BadSnapshot):
            parse(name, content[:end])


def test_a_line_break_in_the_content_is_refused_and_leaves_nothing():
    driver = grown(snapshots=1)
    before = set(driver.os.names)
    with pytest.raises(ValueError, match="more than one"):
        snapshot.write(driver.os, 0, Place(driver.writer.here, "j"), [b"[", b"\n]"])
    assert set(driver.os.names) == before


@pytest.mark.guarantee("J5", "J6")
def test_offline_readers_begin_where_the_journal_does_and_say_so(tmp_path):
    driver = grown(snapshots=4)
    laid_out(tmp_path, contents_of(driver.os))
    report = verify.verify(tmp_path)
    assert report.verdict == verify.INTACT
    assert report.base > 0
    assert f"segments up to position {report.base} are not here" in verify.describe(report)
    found = [entry.payload for entry in entries(tmp_path) if entry.payload.startswith(b"[")]
    assert found == driver.appended[-len(found) :]


@pytest.mark.guarantee("J9")
def test_a_real_directory_gives_the_same(tmp_path):
    """The real calls: directories, hard links, the archive beside it."""
    place = tmp_path / "archive"
    driver = grown(snapshots=2)
    laid_out(tmp_path / "j", contents_of(driver.os))
    fd, aside = (REAL.open_directory(path, create=True) for path in (tmp_path / "j", place))
    moved = min((tmp_path / "j").glob("*.jnl"))
    content = moved.read_bytes()
    archive.set_aside(REAL, fd, aside, moved.name)
    assert not moved.exists()
    assert (place / moved.name).read_bytes() == content
    with pytest.raises(FileExistsError):
        moved.write_bytes(b"another")
        archive.set_aside(REAL, fd, aside, moved.name)
    moved.write_bytes(content)
    newest = snapshots_among(path.name for path in (tmp_path / "j").iterdir())[0]
    (tmp_path / "j" / newest).write_bytes(b"rotten")
    begun: list[bytes] = []
    frames: list[Frame] = []
    journal = Journal.open(
        tmp_path / "j",
        frames.append,
        lambda _position, content: begun.append(bytes(content).rstrip(b"\n")),
        segment_bytes=8192,
    )
    assert journal.recovered.started_from > 0
    assert list(journal.recovered.refused) == [newest]
    assert (tmp_path / "j" / "quarantine" / newest).read_bytes() == b"rotten"
    rest = [frame.payload for frame in frames]
    assert joined([begun[0][1:-1], *rest]) == joined(driver.appended)


def flipped(contents: dict[str, bytes], name: str) -> dict[str, bytes]:
    changed = bytearray(contents[name])
    changed[len(changed) // 2] ^= 1
    return {**contents, name: bytes(changed)}


def laid_out(directory: Path, contents: dict[str, bytes]) -> None:
    directory.mkdir(exist_ok=True)
    for name, content in contents.items():
        (directory / name).write_bytes(content)


@pytest.mark.guarantee("J4", "J9")
def test_a_pin_is_where_the_state_stood_however_much_is_written_meanwhile(tmp_path):
    """Everything appended before it is in the snapshot and nothing behind it is."""
    place = tmp_path / "j"
    asked: list[bytes] = []

    async def write(journal: Journal, number: int) -> None:
        for at in range(60):
            payload = b'["%d.%d"]' % (number, at)
            asked.append(payload)
            await journal.durable(journal.append(payload))

    async def main() -> None:
        journal = Journal.open(place, lambda _: None, segment_bytes=65536)
        journal.start()
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(write, journal, number)
            for _ in range(5):
                await trio.sleep(0.005)
                pin, so_far = journal.pin(), joined(list(asked))
                await journal.take(pin, [so_far], tmp_path / "archive")
                assert journal.stats().snapshot == pin.position
        await journal.close()

    trio.run(main)
    begun: list[bytes] = []
    frames: list[Frame] = []
    journal = Journal.open(
        place, frames.append, lambda _at, content: begun.append(bytes(content)), segment_bytes=65536
    )
    assert journal.recovered.started_from > 0
    assert joined([begun[0].strip()[1:-1], *(f.payload for f in frames)]) == joined(asked)
    assert len(snapshots_among(path.name for path in place.iterdir())) == 2
    assert verify.verify(place).verdict == verify.INTACT


@pytest.mark.guarantee("J5", "J10")
def test_the_identity_of_a_journal_outlives_its_first_segment(tmp_path):
    async def grow(journal: Journal, times: int) -> None:
        journal.start()
        for number in range(times):
            for _ in range(6):
                await journal.ready(12_000)
                await journal.durable(journal.append(b'["%b"]' % (b"x" * 12_000)))
            await journal.take(journal.pin(), [b"%d" % number], None)
        await journal.close()

    trio.run(grow, Journal.open(tmp_path, lambda _: None, segment_bytes=65536), 1)
    name = identity(tmp_path)
    assert name != UNKNOWN
    anchor = newest(tmp_path)
    opened = Journal.open(tmp_path, lambda _: None, lambda *_: None, segment_bytes=65536)
    trio.run(grow, opened, 4)
    assert identity(tmp_path) == UNKNOWN
    assert newest(tmp_path).journal == name
    report = verify.verify(tmp_path, anchors=[anchor, newest(tmp_path)])
    assert report.journal == name
    assert [one.finding for one in report.anchors] == [UNCHECKED, HOLDS]
    stranger = anchor._replace(journal="f" * 32)
    assert [one.finding for one in verify.verify(tmp_path, anchors=[stranger]).anchors] == [
        STRANGER
    ]


@pytest.mark.parametrize("length", [100, 100_000])
def test_the_first_snapshot_reads_of_the_first_segment_what_tells_its_identity(tmp_path, length):
    """A segment read whole stays in the daemon's memory: allocators keep what is freed."""
    read: list[int] = []

    class Counting(Os):
        def read_cached(self, directory, name, **how):
            content = super().read_cached(directory, name, **how)
            if name.endswith(".jnl"):
                read.append(len(content))
            return content

    async def main() -> None:
        journal.start()
        await journal.durable(journal.append(b'["%b"]' % (b"x" * length)))
        read.clear()
        await journal.take(journal.pin(), [b"0"], None)
        await journal.close()

    journal = Journal.open(tmp_path, lambda _: None, segment_bytes=1 << 20, os_=Counting())
    trio.run(main)
    assert newest(tmp_path).journal == identity(tmp_path) != UNKNOWN
    assert read == ([IDENTITY_BYTES] if length < IDENTITY_BYTES else [IDENTITY_BYTES, 1 << 20])


@pytest.mark.guarantee("J3")
def test_a_snapshot_that_cannot_be_made_is_told_and_costs_nothing_else(tmp_path):
    async def main() -> None:
        journal = Journal.open(tmp_path / "j", lambda _: None, segment_bytes=65536)
        journal.start()
        await journal.durable(journal.append(b'["a"]'))
        (tmp_path / "archive").write_text("a file where a directory should be")
        with pytest.raises(OSError, match="File exists"):
            await journal.take(journal.pin(), [b"a"], tmp_path / "archive")
        assert "File exists" in (journal.stats().snapshot_failed or "")
        await journal.durable(journal.append(b'["b"]'))
        await journal.take(journal.pin(), [b"ab"], None)
        assert journal.stats().snapshot_failed is None
        assert len(snapshots_among(path.name for path in (tmp_path / "j").iterdir())) == 2
        await journal.close()

    trio.run(main)
