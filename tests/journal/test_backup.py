"""A copy beside a writer: consistent and proven, or none at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio

from supervisor.journal import backup as backing
from supervisor.journal.anchor import EXPORTED, newest, read_anchors, remember
from supervisor.journal.backup import backup
from supervisor.journal.errors import BackupRefused, JournalCorrupt, JournalIOError
from supervisor.journal.log import Journal
from supervisor.journal.read import read_frames
from supervisor.journal.verify import verify
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of


def put(driver: Driver, directory: Path) -> Path:
    directory.mkdir()
    for name, content in contents_of(driver.os).items():
        (directory / name).write_bytes(content)
    return directory


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A journal of some segments in a state directory."""
    driver = Driver(FakeOs())
    for _ in range(6):
        driver.grow(60, 90)
    driver.mark()
    (tmp_path / "state").mkdir()
    put(driver, tmp_path / "state" / "journal")
    return tmp_path / "state"


def payloads(directory: Path) -> list[bytes]:
    return [one.payload for one in read_frames(directory, unattested=True)]


@pytest.mark.guarantee("J6")
def test_a_backup_is_the_journal_with_an_anchor_that_vouches_for_it(state, tmp_path):
    made = backup(state / "journal", tmp_path / "b")
    assert payloads(tmp_path / "b" / "journal") == payloads(state / "journal")
    (anchor,) = read_anchors(tmp_path / "b" / "ANCHOR")
    assert anchor == made.anchor
    assert verify(tmp_path / "b" / "journal", anchors=[anchor]).exit_code() == 0
    assert verify(state / "journal", anchors=[anchor]).exit_code() == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.guarantee("J6")
async def test_a_backup_beside_a_busy_writer_is_a_prefix_with_all_that_was_durable(tmp_path):
    journal = Journal.open(tmp_path / "j", lambda _: None, segment_bytes=16384)
    journal.start()
    written: list[bytes] = []
    stop = trio.Event()

    async def write() -> None:
        while not stop.is_set():
            written.append(b'[{"n":%d,"x":"%b"}]' % (len(written), b"y" * (len(written) % 300)))
            await journal.ready(len(written[-1]))
            await journal.durable(journal.append(written[-1]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        for number in range(4):
            with trio.fail_after(60):
                while len(written) < 40 * (number + 1):  # noqa: ASYNC110 - it is another task's
                    await trio.sleep(0.001)
            certain = len(written) - 1  # all but the one that is on its way
            place = tmp_path / f"b{number}"
            made = await trio.to_thread.run_sync(backup, tmp_path / "j", place)
            found = payloads(place / "journal")
            assert found == written[: len(found)]
            assert len(found) >= certain
            report = verify(place / "journal", anchors=[made.anchor])
            assert (report.exit_code(), report.torn) == (0, 0), "its anchor covers all of it"
        stop.set()
    await journal.close()
    found = verify(tmp_path / "j", anchors=read_anchors(tmp_path / "b0" / "ANCHOR"))
    assert found.exit_code(require="chain") == 0

    # And it is one that a daemon goes on with.
    again = Journal.open(tmp_path / "b3" / "journal", lambda _: None, segment_bytes=16384)
    assert again.recovered.verdict == "clean"
    await again.close()


@pytest.mark.guarantee("J6")
def test_what_a_crash_left_unproven_is_kept_and_what_it_tore_is_not(tmp_path):
    driver = Driver(FakeOs())
    driver.grow(60, 90)
    driver.grow(30)  # no later line proves this one
    directory = put(driver, tmp_path / "j")
    (segment,) = directory.glob("*.jnl")
    content = segment.read_bytes()
    end = -(-len(content.rstrip(b"\n")) // 512) * 512
    segment.write_bytes(content[:end] + b"torn" * 50 + content[end + 200 :])
    made = backup(directory, tmp_path / "b")
    assert payloads(tmp_path / "b" / "journal") == driver.appended
    report = verify(tmp_path / "b" / "journal", anchors=[made.anchor])
    assert (report.exit_code(), report.unanchored, report.torn) == (3, 1, 0)


@pytest.mark.guarantee("J6")
def test_everything_goes_along_but_what_is_made_anew(state, tmp_path):
    journal = state / "journal"
    remember(journal, newest(journal), "elsewhere")
    (journal / "snap-000000000004.json").write_text("{}")
    (journal / "quarantine").mkdir()
    (journal / "quarantine" / "bad").write_text("x")
    (journal / "notes.txt").write_text("mine")
    (journal / "LOCK").write_text("pid 1")
    (journal / "00000009.spare").write_text("\n")
    (journal / "00000009.tmp").write_text("\n")
    (journal / "link").symlink_to("/etc/passwd")
    (state / "blobs" / "ab").mkdir(parents=True)
    (state / "blobs" / "ab" / "cd").write_text("blob")
    (state / "output").mkdir()
    made = backup(journal, tmp_path / "b")
    copied = {str(one.relative_to(tmp_path / "b")) for one in (tmp_path / "b").rglob("*")}
    left = {one for one in copied if not one.endswith(".jnl")}
    assert left == {
        "ANCHOR",
        "blobs",
        "blobs/ab",
        "blobs/ab/cd",
        "journal",
        f"journal/{EXPORTED}",
        "journal/notes.txt",
        "journal/quarantine",
        "journal/quarantine/bad",
        "journal/snap-000000000004.json",
    }
    assert made.unknown == ("notes.txt",)


@pytest.mark.guarantee("J6")
def test_no_half_backup_has_the_name_of_one(state, tmp_path, monkeypatch):
    (tmp_path / "taken").mkdir()
    with pytest.raises(BackupRefused, match="is there already"):
        backup(state / "journal", tmp_path / "taken")
    with pytest.raises(JournalIOError):
        backup(state / "journal", tmp_path / "no" / "parent")
    for call in ("_sync_tree", "_copy_file"):
        with monkeypatch.context() as patch:
            patch.setattr(backing, call, fail)
            with pytest.raises(JournalIOError, match="no disk"):
                backup(state / "journal", tmp_path / "b")
    segment = sorted((state / "journal").glob("*.jnl"))[1]
    content = bytearray(segment.read_bytes())
    content[content.index(b'"x"')] ^= 1
    segment.write_bytes(content)
    with pytest.raises(JournalCorrupt):
        backup(state / "journal", tmp_path / "b")
    assert {one.name for one in tmp_path.iterdir()} == {"state", "taken"}


def fail(*_arguments: object) -> None:
    raise OSError(5, "no disk")


def test_a_segment_that_is_taken_away_meanwhile_begins_the_copy_anew(state, tmp_path, monkeypatch):
    real, calls = backing._copy_file, []

    def once(source: Path, target: Path) -> int:
        calls.append(source)
        if len(calls) == 1:
            raise FileNotFoundError(2, "gone", str(source))
        return real(source, target)

    monkeypatch.setattr(backing, "_copy_file", once)
    backup(state / "journal", tmp_path / "b")
    assert payloads(tmp_path / "b" / "journal") == payloads(state / "journal")
    shutil.rmtree(tmp_path / "b")


@pytest.mark.guarantee("J6")
@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda c: c.replace(b'"x"', b'"y"'), JournalCorrupt, "damaged"),
        (None, JournalIOError, "gone"),
    ],
)
def test_a_copy_that_is_not_what_it_should_be_is_no_backup(
    state, tmp_path, monkeypatch, change, error, says
):
    """Read wrong, or with something missing round after round."""
    real = backing._copy_file

    def wrong(source: Path, target: Path) -> int:
        if change is None:
            raise FileNotFoundError(2, "gone", str(source))
        size = real(source, target)
        target.write_bytes(change(target.read_bytes()))
        return size

    monkeypatch.setattr(backing, "_copy_file", wrong)
    with pytest.raises(error, match=says):
        backup(state / "journal", tmp_path / "b")
    assert [one.name for one in tmp_path.iterdir()] == ["state"]


@pytest.mark.guarantee("J6")
def test_a_copy_that_lacks_what_was_proven_before_it_is_no_backup(tmp_path, monkeypatch):
    """The journal is rolled back while it is copied."""
    state = tmp_path / "state"
    state.mkdir()
    driver = Driver(FakeOs())
    driver.grow(60, 90)
    driver.mark()
    put(driver, state / "journal")
    monkeypatch.setattr(backing, "_ends", lambda content: (512, 512, 0))
    with pytest.raises(BackupRefused, match="does not prove"):
        backup(state / "journal", tmp_path / "b")
    assert [one.name for one in tmp_path.iterdir()] == ["state"]


def test_what_has_no_header_is_copied_as_it_is_and_left_to_the_proof():
    assert backing._ends(b"\n" * 4096) == (4096, 4096, 0)


def test_a_segment_that_is_sealed_while_it_is_looked_at_begins_the_copy_anew(tmp_path):
    newest = tmp_path / "00000001-000000000001.jnl"
    newest.touch()
    backing._refuse_sealed(newest)
    (tmp_path / "00000002-000000000009.jnl").touch()
    with pytest.raises(FileNotFoundError, match="not the newest any more"):
        backing._refuse_sealed(newest)
