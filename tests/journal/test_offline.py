"""Reading without the lock: beside a live writer, on a copy, on a bare Python."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from supervisor.journal import dump as dumping
from supervisor.journal import verify as verifying
from supervisor.journal.anchor import newest
from supervisor.journal.codec import Frame
from supervisor.journal.errors import JournalCorrupt, JournalIOError
from supervisor.journal.log import Journal
from supervisor.journal.read import entries, read_frames
from supervisor.journal.verify import verify
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of

ROOT = Path(__file__).parents[2]


def decision(number: int) -> bytes:
    return b'[{"n":%d}]' % number


def written(directory: Path, *, mark: bool = True) -> Driver:
    """Three small segments on a real disk, made by the real writer."""
    driver = Driver(FakeOs())
    while driver.writer.point.number < 3:
        driver.grow(60, 90)
    driver.grow(10)
    if mark:
        driver.mark()
    directory.mkdir()
    for name, content in contents_of(driver.os).items():
        (directory / name).write_bytes(content)
    return driver


def bare(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run with no package but the standard library to import from."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"import supervisor.journal.{module} as tool\n"
        f"sys.exit(tool.main({list(arguments)!r}))"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.guarantee("J5", "J6")
def test_an_intact_journal_is_not_anchored_and_that_is_no_ok(tmp_path):
    driver = written(tmp_path / "j")
    result = bare("verify", str(tmp_path / "j"))
    assert result.returncode == 3, result.stderr
    frames = len(driver.appended)
    assert f"{frames} decisions in 3 segments, positions 1..{frames + 1}" in result.stdout
    assert f"head {driver.writer.point.digest} at position {frames + 1}" in result.stdout
    assert f"{frames} decisions not anchored" in result.stdout
    assert "ok" not in result.stdout.lower().split()
    assert bare("verify", "--require", "chain", str(tmp_path / "j")).returncode == 0


@pytest.mark.guarantee("J5")
def test_every_cut_off_tail_is_intact_but_never_anchored(tmp_path):
    """A chain cannot see it; the exit code must not pretend that it can."""
    written(tmp_path / "j")
    newest = max((tmp_path / "j").glob("*.jnl"))
    newest.unlink()
    report = verify(tmp_path / "j")
    assert (report.verdict, report.exit_code()) == ("intact", 3)
    assert report.unanchored == report.frames


@pytest.mark.guarantee("J5", "J6")
def test_damage_is_named_with_its_place_and_exit_code_2(tmp_path):
    driver = written(tmp_path / "j")
    second = sorted((tmp_path / "j").glob("*.jnl"))[1]
    content = second.read_bytes()
    at = content.index(b'"x"')
    second.write_bytes(content[:at] + b"?" + content[at + 1 :])
    result = bare("verify", "--require", "chain", str(tmp_path / "j"))
    assert result.returncode == 2
    assert f"DAMAGED: {second.name} at byte " in result.stdout
    assert "1 later segments" in result.stdout
    report = verify(tmp_path / "j")
    assert report.damage is not None
    assert report.position == report.damage.first - 1
    assert report.frames < len(driver.appended)


@pytest.mark.guarantee("J6")
@pytest.mark.parametrize("what", ["missing", "empty", "a file"])
def test_what_is_no_journal_could_not_be_verified(tmp_path, what):
    if what == "empty":
        (tmp_path / "j").mkdir()
    elif what == "a file":
        (tmp_path / "j").write_text("x")
    result = bare("verify", str(tmp_path / "j"))
    assert result.returncode == 1
    assert "could not verify" in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.guarantee("J5")
def test_a_blemish_is_reported_and_is_no_damage(tmp_path):
    written(tmp_path / "j")
    first = min((tmp_path / "j").glob("*.jnl"))
    content = bytearray(first.read_bytes())
    content[content.index(b"\t.\n")] ^= 1
    first.write_bytes(content)
    report = verify(tmp_path / "j")
    assert report.verdict == "intact"
    assert len(report.blemishes) == 1
    assert "deserves a look" in verifying.describe(report)


@pytest.mark.guarantee("J6")
def test_a_torn_tail_is_told_from_damage(tmp_path):
    driver = written(tmp_path / "j")
    driver.append([b"[" + b"1" * 700 + b"]"])
    name = driver.writer.point.name
    whole = contents_of(driver.os)[name]
    at = whole.index(b"[111")
    (tmp_path / "j" / name).write_bytes(whole[: at + 200] + b"\n" * (len(whole) - at - 200))
    for other, content in contents_of(driver.os).items():
        if other != name:
            (tmp_path / "j" / other).write_bytes(content)
    report = verify(tmp_path / "j")
    assert (report.verdict, report.torn > 200) == ("intact", True)
    assert "never acknowledged" in verifying.describe(report)


@pytest.mark.guarantee("J6")
def test_progress_counts_every_byte_once(tmp_path):
    written(tmp_path / "j")
    seen: list[tuple[int, int]] = []
    verify(tmp_path / "j", lambda done, total: seen.append((done, total)))
    assert seen == [(2048, 6144), (4096, 6144), (6144, 6144)]


@pytest.mark.guarantee("J6")
def test_dump_prints_each_line_with_its_place_on_a_bare_python(tmp_path):
    driver = written(tmp_path / "j")
    result = bare("dump", str(tmp_path / "j"))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == len(driver.appended) + 3 + 1
    place, _, rest = lines[1].partition(" ")
    file, _, offset = place.rpartition(":")
    content = (tmp_path / "j" / file).read_bytes()[int(offset) :]
    assert content.split(b" ", 5)[5].startswith(rest.split(" ", 1)[1].encode())
    assert "not attested" in lines[-1]
    assert bare("dump", str(tmp_path / "none")).returncode == 1


@pytest.mark.guarantee("J6")
def test_dump_of_a_damaged_journal_prints_what_is_proven_and_fails(tmp_path):
    written(tmp_path / "j")
    second = sorted((tmp_path / "j").glob("*.jnl"))[1]
    second.write_bytes(second.read_bytes().replace(b'"x"', b'"y"'))
    result = bare("dump", str(tmp_path / "j"))
    assert result.returncode == 2
    assert result.stdout.count("\n") > 3
    assert second.name in result.stderr


@pytest.mark.guarantee("J6")
def test_each_tool_says_by_its_exit_code_what_it_met(tmp_path, capsys):
    """As the bare runs do, in this process."""
    written(tmp_path / "j", mark=False)
    (tmp_path / "none").mkdir()
    anchor = tmp_path / "anchor"
    anchor.write_text(newest(tmp_path / "j").text)
    assert dumping.main([str(tmp_path / "j")]) == 0
    assert capsys.readouterr().out.count("(not attested)") == 1
    assert dumping.main([str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().err
    assert verifying.main([str(tmp_path / "none")]) == 1
    assert "holds no journal" in capsys.readouterr().out
    assert verifying.main([str(tmp_path / "missing")]) == 1
    assert verifying.main([str(tmp_path / "j"), "--anchor", str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().out
    assert verifying.main([str(tmp_path / "j"), "--require", "chain"]) == 0
    assert "not attested by a later line yet" in capsys.readouterr().out
    assert verifying.main([str(tmp_path / "j"), "--anchor", str(anchor)]) == 3
    last = max((tmp_path / "j").glob("*.jnl"))
    content = last.read_bytes()
    end = -(-len(content.rstrip(b"\n")) // 512) * 512
    last.write_bytes((content[:end] + b"torn" * 60).ljust(len(content), b"\n"))
    capsys.readouterr()
    assert verifying.main([str(tmp_path / "j"), "--require", "chain"]) == 0
    assert "240 bytes of a batch that was never acknowledged follow" in capsys.readouterr().out
    second = sorted((tmp_path / "j").glob("*.jnl"))[1]
    second.write_bytes(second.read_bytes().replace(b'"x"', b'"y"'))
    assert verifying.main([str(tmp_path / "j")]) == 2
    assert "DAMAGED" in capsys.readouterr().out
    assert dumping.main([str(tmp_path / "j")]) == 2


@pytest.mark.guarantee("J5", "J6")
def test_a_journal_whose_newest_segment_is_gone_is_said_to_be_rolled_back(tmp_path, capsys):
    written(tmp_path / "j")
    anchor = tmp_path / "anchor"
    anchor.write_text(newest(tmp_path / "j").text)
    assert verifying.main([str(tmp_path / "j"), "--anchor", str(anchor)]) == 0
    assert "verified, and anchored up to the last decision" in capsys.readouterr().out
    max((tmp_path / "j").glob("*.jnl")).unlink()
    assert verifying.main([str(tmp_path / "j"), "--anchor", str(anchor)]) == 4
    assert "ROLLED BACK" in capsys.readouterr().out
    begun = contents_of(Driver(FakeOs()).os).items()
    (tmp_path / "new").mkdir()
    for name, content in begun:
        (tmp_path / "new" / name).write_bytes(content)
    assert verifying.main([str(tmp_path / "new"), "--require", "chain"]) == 0
    assert "\njournal " not in capsys.readouterr().out, "it has no identity yet"


def test_a_pipe_that_nobody_reads_ends_a_dump_quietly(tmp_path, monkeypatch):
    written(tmp_path / "j")
    moved: list[int] = []

    class Closed:
        def write(self, _text: str) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            return 99

    monkeypatch.setattr(sys, "stdout", Closed())

    def dup2(null: int, fd: int) -> None:
        os.close(null)
        moved.append(fd)

    calls = SimpleNamespace(dup2=dup2, open=os.open, devnull=os.devnull, O_WRONLY=os.O_WRONLY)
    monkeypatch.setattr(dumping, "os", calls)
    assert dumping.main([str(tmp_path / "j")]) == 0
    assert moved == [99]


def test_dump_lets_no_control_character_through_to_a_terminal():
    from supervisor.journal.read import Entry

    text = dumping.describe(Entry("f", 0, 1, 0, '["\x9b31m\x7f"]'.encode(), "", True))
    assert text == 'f:0 1 ["\\u009b31m\\u007f"]'


@pytest.mark.guarantee("J6")
def test_only_attested_frames_are_read_unless_asked(tmp_path):
    driver = written(tmp_path / "j", mark=False)
    frames = list(read_frames(tmp_path / "j"))
    assert [f.payload for f in frames] == driver.appended[:-1]
    frames = list(read_frames(tmp_path / "j", unattested=True))
    assert [f.payload for f in frames] == driver.appended


def test_reading_what_is_not_there_is_an_io_error(tmp_path):
    with pytest.raises(JournalIOError):
        list(read_frames(tmp_path / "none"))


@pytest.mark.guarantee("J6")
def test_a_batch_met_half_copied_is_looked_at_again(tmp_path, monkeypatch):
    """Beside a live writer a read may see any mixture of a batch that is being written."""
    driver = written(tmp_path / "j", mark=False)
    name = driver.writer.point.name
    before = contents_of(driver.os)[name]
    driver.append([b"[" + b"1" * 300 + b"]"])
    after = contents_of(driver.os)[name]
    at = next(i for i in range(len(after)) if after[i] != before[i])
    mixture = after[: at + 20] + b"\n" * 20 + after[at + 40 :]
    (tmp_path / "j" / name).write_bytes(mixture)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            (tmp_path / "j" / name).write_bytes(after)

    monkeypatch.setattr("time.sleep", sleep)
    assert [f.payload for f in read_frames(tmp_path / "j", unattested=True)] == driver.appended
    assert len(slept) == 2
    (tmp_path / "j" / name).write_bytes(mixture)
    with pytest.raises(JournalCorrupt):
        list(read_frames(tmp_path / "j"))


@pytest.mark.guarantee("J6")
async def test_a_reader_beside_a_live_writer_sees_a_prefix_and_never_damage(tmp_path):
    journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=64 << 10)
    journal.start()
    rng = random.Random(5)
    finished = False
    looks = 0

    async def write() -> None:
        nonlocal finished
        for number in range(0, 1200, 4):
            await journal.ready(4000)
            for turn in range(4):
                position = journal.append(
                    decision(number + turn)[:-1] + b',"%b"]' % (b"x" * rng.randrange(900))
                )
            await journal.durable(position)
        finished = True

    def look() -> list[Frame]:
        report = verify(tmp_path / "j")
        assert report.verdict == "intact", report
        return list(read_frames(tmp_path / "j"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        while not finished:
            frames = await trio.to_thread.run_sync(look)
            numbers = [int(f.payload[6 : f.payload.index(b"}")]) for f in frames]
            assert numbers == list(range(len(frames)))
            assert not frames or frames[-1].position <= journal.durable_position
            looks += 1
    await journal.close()
    assert looks >= 3
    assert len(list(read_frames(tmp_path / "j"))) == 1200


def test_entries_give_headers_and_marks_too(tmp_path):
    driver = written(tmp_path / "j")
    found = list(entries(tmp_path / "j"))
    assert [e.offset for e in found if b'"segment"' in e.payload] == [0, 0, 0]
    assert found[-1].digest == driver.writer.point.digest
