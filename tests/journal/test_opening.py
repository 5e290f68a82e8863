"""Opening a journal again: what damage, tears, newer formats and new layouts come to."""

from __future__ import annotations

import pytest

from supervisor.journal.codec import Frame
from supervisor.journal.log import Journal, JournalCorrupt, JournalIOError, JournalTooNew
from supervisor.journal.read import entries, read_frames
from supervisor.journal.verify import verify
from tests.journal.test_log import SEGMENT, decision, opened


@pytest.mark.guarantee("J2")
async def test_damage_hands_over_the_proven_prefix_then_refuses_and_changes_nothing(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    for number in range(6):
        await journal.durable(journal.append(decision(number)))
    await journal.close()
    [segment] = (tmp_path / "j").glob("*.jnl")
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b'[{"n":3,', b'[{"n":7,'))
    before = {p.name: p.read_bytes() for p in (tmp_path / "j").iterdir()}
    frames: list[Frame] = []
    for _ in range(2):  # refused again, and the lock was released
        frames.clear()
        with pytest.raises(JournalCorrupt) as info:
            Journal.open(tmp_path / "j", frames.append)
        assert [f.payload for f in frames] == [decision(n) for n in range(3)]
    report = info.value.report
    assert (report.file, report.first, report.last) == (segment.name, 4, 4)
    assert content[report.offset :].startswith(content[report.offset : report.offset + 9])
    assert "had been durable" in report.why
    assert segment.name in info.value.fix
    assert {p.name: p.read_bytes() for p in (tmp_path / "j").iterdir()} == before
    with pytest.raises(JournalCorrupt):
        list(read_frames(tmp_path / "j"))


async def test_a_newer_format_is_too_new_and_not_corrupt(tmp_path):
    from supervisor.journal import codec

    directory = tmp_path / "j"
    directory.mkdir()
    payload = codec.header_payload(codec.Header(1, SEGMENT, 512, None))
    line, _ = codec.encode(0, 0, codec.GENESIS, payload.replace(b'"format":1', b'"format":2'))
    (directory / "00000001-000000000001.jnl").write_bytes(line.ljust(SEGMENT, b"\n"))
    with pytest.raises(JournalTooNew, match="format 2") as info:
        opened(directory)
    assert "newer" in info.value.fix


def test_a_directory_that_cannot_be_opened_is_an_io_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(JournalIOError):
        opened(tmp_path / "file")


@pytest.mark.guarantee("J2")
async def test_work_goes_on_behind_a_torn_tail_and_the_torn_segment_is_left_as_it_is(tmp_path):
    journal, _ = opened(tmp_path / "j")
    journal.start()
    for number in range(3):
        await journal.durable(journal.append(decision(number)))
    await journal.close()
    [segment] = (tmp_path / "j").glob("*.jnl")
    content = bytearray(segment.read_bytes())
    end = len(content.rstrip(b"\n"))
    at = -(-end // 512) * 512
    content[at : at + 40] = b"0badf00d 000123 6 5 0123456789abcdef4567"
    segment.write_bytes(content)
    for turn in range(3):
        journal, frames = opened(tmp_path / "j")
        expected = ("torn-tail", 40 + at - end - 2) if turn == 0 else ("clean", 0)
        assert (journal.recovered.verdict, journal.recovered.discarded > 0) == (
            expected[0],
            expected[1] > 0,
        )
        assert [f.payload for f in frames] == [decision(n) for n in range(3 + turn)]
        journal.start()
        await journal.durable(journal.append(decision(3 + turn)))
        await journal.close()
    assert segment.read_bytes() == content
    assert verify(tmp_path / "j").verdict == "intact"


async def test_a_changed_layout_takes_effect_with_the_next_segment(tmp_path):
    journal, _ = opened(tmp_path / "j", align=0)
    journal.start()
    await journal.durable(journal.append(decision(1)))
    await journal.close()
    journal, _ = opened(tmp_path / "j", align=4096, segment_bytes=64 << 10)
    journal.start()
    for number in range(40):
        await journal.ready(500)
        await journal.durable(journal.append(decision(number, 400)))
    await journal.close()
    headers = [e.payload for e in entries(tmp_path / "j") if e.offset == 0]
    assert b'"align":0' in headers[0]
    assert b'"align":4096' in headers[1]
    assert b'"size":65536' in headers[1]
    assert verify(tmp_path / "j").verdict == "intact"
