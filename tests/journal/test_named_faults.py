"""Faults that no loop of the others meets, each by its name: what is said, and what stays."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio

from supervisor.core.record import By, JournalRepaired
from supervisor.journal import codec, lock, repair
from supervisor.journal.chain import Walker
from supervisor.journal.codec import GENESIS, Frame, Header, Repair
from supervisor.journal.commit import BATCH_FRAMES, Committer
from supervisor.journal.damaged import DamagedJournal
from supervisor.journal.durably import append_line
from supervisor.journal.errors import JournalCorrupt, JournalTooNew
from supervisor.journal.file import REAL
from supervisor.journal.log import Journal
from supervisor.journal.naming import segment_name, segments_among
from supervisor.journal.read import Entry, Reader, read_frames
from supervisor.journal.repair import NotRepairable
from supervisor.journal.segments import Writer
from supervisor.journal.stats import LARGEST, Large, Stats
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of, from_contents

SIZE = 4096


def segment(*lines: tuple[int, bytes]) -> dict[str, bytes]:
    """One intact segment of unaligned lines with these positions and payloads."""
    made, digest = codec.encode(0, 0, GENESIS, codec.header_payload(Header(1, SIZE, 0, None)))
    for position, payload in lines:
        line, digest = codec.fitted(position, 0, digest, payload, len(made))
        made += line
    return {segment_name(1, 1): made.ljust(SIZE, b"\n")}


def walked(files: dict[str, bytes]) -> list[Frame]:
    found: list[Frame] = []
    walker = Walker(
        segments_among(files),
        files.__getitem__,
        lambda _file, _at, line: found.append(Frame(line.position, line.payload)),
    )
    walker.run()
    return found


@pytest.mark.guarantee("J2", "J5")
def test_a_chained_line_that_leaves_positions_out_is_refused():
    with pytest.raises(JournalCorrupt, match="position 3 does not continue position 1"):
        walked(segment((1, b"[1]"), (3, b"[3]")))


@pytest.mark.guarantee("J2", "J5")
@pytest.mark.parametrize(("first", "last", "at"), [(3, 5, 6), (2, 1, 6), (2, 6, 6)])
def test_a_repair_leaps_over_what_it_gives_up_and_over_nothing_else(first, last, at):
    said = codec.repair_payload(Repair(first, last, 0, "why", "quarantine/0001"))
    with pytest.raises(JournalCorrupt, match="position 6 does not continue position 1"):
        walked(segment((1, b"[1]"), (at, said)))
    said = codec.repair_payload(Repair(2, 5, 0, "why", "quarantine/0001"))
    assert [one.position for one in walked(segment((1, b"[1]"), (6, said)))] == [0, 1, 6]


@pytest.mark.guarantee("J10")
@pytest.mark.parametrize("payload", [b'{"k":"seal"}', b"{}", b'"k"', b"7"])
def test_a_kind_of_line_that_a_newer_version_writes_is_too_new_and_not_damaged(payload):
    with pytest.raises(JournalTooNew, match="frame"):
        walked(segment((1, b"[1]"), (2, payload)))


@pytest.mark.guarantee("J2")
@pytest.mark.parametrize(
    ("payload", "kind"),
    [(codec.header_payload(Header(2, SIZE, 0, None)), "segment"), (b'{"k":"repair"}', "repair")],
)
def test_a_header_in_the_middle_or_a_repair_that_says_nothing_is_damage(payload, kind):
    with pytest.raises(JournalCorrupt, match=f"a {kind} where none belongs"):
        walked(segment((1, b"[1]"), (2, payload)))


@pytest.mark.guarantee("J2")
def test_a_segment_in_the_way_of_a_rotation_is_not_written_over():
    """Whoever put it there: `rename` would replace it without a word."""
    driver = Driver(FakeOs())
    driver.grow(10)
    driver.spare()
    taken = segment_name(2, driver.writer.point.position + 1)
    driver.os.put(driver.os.open(0, taken, create=True), b"somebody's", 0)
    before = contents_of(driver.os)[taken]
    with pytest.raises(FileExistsError, match=taken):
        driver.rotate()
    assert contents_of(driver.os)[taken] == before


@pytest.mark.guarantee("J6")
def test_a_repair_that_one_record_cannot_name_changes_nothing():
    files = segment((1, b"[1]"))
    os_ = from_contents(files)
    many = tuple(("uid:0", "r" * 250 + f"{n:06}") for n in range(1 << 16))
    act = JournalRepaired(1, 1, 1, By(0, 1), "why", many)
    with pytest.raises(NotRepairable, match="more was lost than one record can name") as caught:
        repair.repair(Path("journal"), act, os_=os_)
    assert "backup" in caught.value.fix
    assert contents_of(os_) == files


def made(tmp_path: Path) -> Journal:
    return Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=8192)


def test_what_was_queued_before_any_thread_is_written_by_whoever_closes(tmp_path):
    journal = made(tmp_path)
    journal.append(b"[1]")
    journal._committer.stop()
    journal._committer.join()
    os.close(journal._directory)
    assert list(read_frames(tmp_path / "j", unattested=True)) == [Frame(1, b"[1]")]


class LateWake:
    """The commit thread's semaphore; a frame arrives just when the time for a mark is up."""

    def __init__(self, committer: Committer) -> None:
        self.committer, self.released, self.timeouts = committer, 0, 0

    def acquire(self, *, timeout: float | None = None) -> bool:
        if timeout is None:
            assert self.released == 1, "nobody woke it, and it would sleep for ever"
            self.released = 0
            return True
        self.timeouts += 1
        self.committer.put(b"[1]", 0, outcome=False)
        return False

    def release(self) -> None:
        self.released += 1


def test_a_frame_that_comes_just_when_a_mark_is_due_is_committed_instead(tmp_path):
    driver = Driver(FakeOs())
    committer = Committer(
        driver.os, 0, driver.writer, driver.spares, segment_bytes=SIZE, align=512, attested=False
    )
    wake = committer._wake = LateWake(committer)
    assert committer._next_batch() == [b"[1]"]
    assert (wake.timeouts, wake.released) == (1, 0), "no wake-up is left over"
    assert not committer._sleeping


def test_a_batch_takes_its_share_of_a_long_queue_in_order(tmp_path):
    size = 1 << 20
    driver = Driver(FakeOs(), size=size)
    committer = Committer(
        driver.os, 0, driver.writer, [], segment_bytes=size, align=512, attested=False
    )
    payloads = [b"[%d]" % number for number in range(BATCH_FRAMES + 44)]
    for payload in payloads:
        committer.put(payload, 0, outcome=False)
    assert committer._next_batch() == payloads[:BATCH_FRAMES]
    assert committer._next_batch() == payloads[BATCH_FRAMES:]


@pytest.mark.guarantee("J9")
def test_a_batch_ends_where_a_snapshot_is_pinned(tmp_path):
    """So that there is a place between what is in the snapshot and what is not."""
    driver = Driver(FakeOs())
    committer = Committer(
        driver.os, 0, driver.writer, [], segment_bytes=SIZE, align=512, attested=False
    )
    for payload in (b"[1]", b"[2]"):
        committer.put(payload, 0, outcome=False)
    position = committer.pin()
    committer.put(b"[3]", 0, outcome=False)
    batch = committer._next_batch()
    assert batch == [b"[1]", b"[2]"]
    assert committer.pinned is None
    committer._commit(batch)
    assert committer.pinned == driver.writer.here
    assert driver.writer.point.position == position
    assert committer._next_batch() == [b"[3]"]


def test_an_idle_mark_that_there_is_no_room_for_is_left_out(tmp_path):
    """And the thread sleeps again, until it is woken."""
    driver = Driver(FakeOs())
    committer = Committer(
        driver.os, 0, driver.writer, [], segment_bytes=SIZE, align=512, attested=False
    )
    committer._keep = committer.room.guaranteed

    class Wake:
        timeouts = 0

        def acquire(self, *, timeout: float) -> bool:
            self.timeouts += 1
            if timeout > 0:
                return False
            committer.put(b"[1]", 0, outcome=False)
            return True

        def release(self) -> None: ...

    committer._wake = Wake()
    assert committer._next_batch() == [b"[1]"]
    assert committer._wake.timeouts == 2


def test_a_damaged_journal_has_a_place_and_takes_nothing():
    damaged = DamagedJournal(7, 5)
    assert (damaged.position, damaged.durable_position) == (7, 7)
    assert (damaged.recovered.verdict, damaged.recovered.frames) == ("damaged", 5)
    assert damaged.payload_limit == damaged.outcome_limit == damaged.stats().room == 0
    assert damaged.poisoned is None
    assert damaged.stats().degraded == "read-only: damaged"
    trio.run(damaged.close)


def test_a_line_that_is_written_short_beside_the_journal_is_an_error(tmp_path, monkeypatch):
    append_line(tmp_path / "notes", "one")
    monkeypatch.setattr(os, "write", lambda _fd, _data: 1)
    with pytest.raises(OSError, match="short write"):
        append_line(tmp_path / "notes", "two")


def test_a_file_system_without_direct_reads_is_read_without_its_cache(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"content")
    asked: list[int] = []
    real = os.open

    def without(path, flags, *rest, **options):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(path, flags, *rest, **options)

    directory = REAL.open_directory(tmp_path, create=False)
    monkeypatch.setattr(os, "open", without)
    monkeypatch.setattr(os, "posix_fadvise", lambda _fd, _at, _n, advice: asked.append(advice))
    try:
        assert REAL.read_disk(directory, "f") == b"content"
        assert REAL.read_cached(directory, "f") == b"content"
        assert REAL.holds_only(directory, "f", b"c") == (7, False)
        assert REAL.is_cached(directory, "f", b"content")
    finally:
        os.close(directory)
    assert asked == [os.POSIX_FADV_DONTNEED] * 3


def test_a_name_is_there_or_not_whatever_it_names(tmp_path):
    (tmp_path / "f").symlink_to("nowhere")
    directory = REAL.open_directory(tmp_path, create=False)
    try:
        assert REAL.exists(directory, "f")
        assert not REAL.exists(directory, "g")
    finally:
        os.close(directory)


def test_a_segment_that_goes_while_it_is_read_is_an_io_error_and_no_damage(tmp_path):
    for name, content in segment((1, b"[1]")).items():
        (tmp_path / name).write_bytes(content)
    reader = Reader(tmp_path, lambda _done, _total: None)
    (tmp_path / segment_name(1, 1)).unlink()
    with pytest.raises(repair.JournalIOError, match="No such file"):
        reader.load(segment_name(1, 1))


def test_a_holder_that_cannot_be_seen_is_said_to_be_so(tmp_path, monkeypatch):
    """Another user's process: its files are hidden, its name perhaps as well."""
    monkeypatch.setattr(lock, "_numbers", lambda _path: [])
    assert "may not look into" in lock.holder(tmp_path)
    lock.sign(tmp_path)
    assert lock.holder(tmp_path).startswith(f"process {os.getpid()} (")
    (tmp_path / "LOCK").write_text(f"pid {os.getpid()}\nstarted 1\nboot none\n")
    assert "may not look into" in lock.holder(tmp_path), "the pid is another process's by now"
    assert lock._command(2**22 + 1) == "ended"


def test_a_process_that_ends_while_it_is_looked_at_holds_nothing(monkeypatch):
    assert not lock._keeps(2**22 + 1, "00:00:1")
    assert not lock._is_lock(os.getpid(), "999999", "00:00:1")


def test_figures_of_a_journal_count_what_they_say():
    stats = Stats()
    for position in range(1, LARGEST + 3):
        payload = b'[{"k":"a","at":%d,"operation_id":"op_1","x":"%b"},{"k":"b"}]' % (
            position * 86_400 * 10**9,
            b"x" * position,
        )
        stats.add(Entry("f", 10, position, position // 2, payload, "", True))
    stats.add(Entry("f", 900, 20, 19, codec.mark("idle"), "", True))
    count = LARGEST + 2
    assert stats.records == {"a": count, "b": count}
    assert (stats.frames, stats.batches) == (count, count // 2 + 1)
    assert len(stats.bytes_by_day) == count + 1, "what has no time is of the first day"
    assert set(stats.bytes_by_operation) == {"op_1"}
    assert stats.bytes_by_segment["f"] > sum(one.size for one in stats.largest)
    assert [one.position for one in stats.largest] == list(range(3, LARGEST + 3))
    assert isinstance(stats.largest[-1], Large)
    assert stats.largest[-1].kinds == "a, b"


def test_a_writer_that_was_never_opened_closes():
    Writer(FakeOs(), 0, Driver(FakeOs()).writer.point, align=0).close()
