"""What a chain cannot show and an anchor does: cut tails, roll-backs, rewritings, swaps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.journal.anchor import (
    CUT_OFF,
    EXPORTED,
    REWRITTEN,
    STRANGER,
    UNCHECKED,
    UNKNOWN,
    Anchor,
    Sightings,
    judge,
    newest,
    parse,
    read_anchors,
    remember,
)
from supervisor.journal.chain import Tip
from supervisor.journal.errors import (
    AnchorUnreadable,
    JournalCorrupt,
    JournalIOError,
    NothingToAnchor,
)
from supervisor.journal.read import entries
from supervisor.journal.verify import main, verify
from tests.journal.driver import Driver
from tests.journal.fakeos import FakeOs, contents_of

ROOT = Path(__file__).parents[2]
SOME = Anchor("a" * 32, 7, "b" * 64, "00000001-000000000001.jnl", 512, "2026-01-02T03:04:05Z", "h")


def put(driver: Driver, directory: Path) -> Path:
    directory.mkdir()
    for name, content in contents_of(driver.os).items():
        (directory / name).write_bytes(content)
    return directory


def grown(batches: int, *, seed: int = 0) -> Driver:
    driver = Driver(FakeOs())
    driver.number = seed
    for number in range(batches):
        driver.grow(40 + number, *[20] * (number % 3))
    driver.mark()
    return driver


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return put(grown(9), tmp_path / "j")


def cut_at(source: Path, target: Path, file: str, offset: int) -> None:
    """The same journal as it was when the line at `offset` of `file` was not written yet."""
    target.mkdir()
    for one in sorted(source.glob("*.jnl")):
        if one.name > file or (one.name == file and offset == 0):
            continue
        content = one.read_bytes()
        if one.name == file:
            content = content[:offset].ljust(len(content), b"\n")
        (target / one.name).write_bytes(content)


@pytest.mark.guarantee("J5")
def test_whoever_drops_the_last_lines_is_seen_with_an_anchor_only(tmp_path, whole):
    """For every number of lines, over segments' ends too."""
    anchor = newest(whole)
    lines = [one for one in entries(whole) if one.position <= anchor.position]
    assert len({one.file for one in lines}) >= 3
    for count, line in enumerate(lines[1:]):
        cut_at(whole, tmp_path / f"cut{count}", line.file, line.offset)
        report = verify(tmp_path / f"cut{count}")
        assert (report.verdict, report.exit_code()) == ("intact", 3), line
        report = verify(tmp_path / f"cut{count}", anchors=[anchor])
        if line.offset == 0:  # a header alone: every decision is still there
            assert report.exit_code() in {0, 4}
            continue
        assert report.exit_code() == report.exit_code(require="chain") == 4, line
        (judged,) = report.anchors
        assert judged.finding == CUT_OFF
        assert f"the journal ends {anchor.position - line.position + 1} before it" in judged.why


@pytest.mark.guarantee("J5")
def test_anchored_to_the_last_decision_is_0_and_anything_after_is_3(tmp_path):
    driver = grown(4)
    before = newest(put(driver, tmp_path / "one"))
    assert verify(tmp_path / "one", anchors=[before]).exit_code() == 0
    driver.grow(10, 20, 30)
    driver.mark()
    report = verify(put(driver, tmp_path / "two"), anchors=[before])
    assert (report.exit_code(), report.exit_code(require="chain")) == (3, 0)
    assert report.unanchored == 3
    after = newest(tmp_path / "two")
    assert after.journal == before.journal != UNKNOWN
    report = verify(tmp_path / "two", anchors=[after, before])
    assert (report.exit_code(), report.unanchored) == (0, 0)
    assert verify(tmp_path / "one", anchors=[before, after]).exit_code() == 4


@pytest.mark.guarantee("J5")
def test_a_history_written_anew_with_a_valid_chain_is_seen(tmp_path, whole):
    anchor = newest(whole)
    other = put(grown(12, seed=700), tmp_path / "other")
    (judged,) = verify(other, anchors=[anchor]).anchors
    assert judged.finding == STRANGER
    assert verify(other, anchors=[anchor]).exit_code(require="chain") == 4

    from_the_middle = grown(4)
    from_the_middle.number = 300
    for _ in range(9):
        from_the_middle.grow(30, 30)
    from_the_middle.mark()
    forked = put(from_the_middle, tmp_path / "forked")
    assert verify(forked).verdict == "intact"
    report = verify(forked, anchors=[anchor])
    assert [one.finding for one in report.anchors] == [REWRITTEN]
    assert report.exit_code() == 4


@pytest.mark.guarantee("J5")
def test_damage_comes_before_what_an_anchor_says(tmp_path, whole):
    anchors = [newest(whole)]
    second = sorted(whole.glob("*.jnl"))[1]
    content = bytearray(second.read_bytes())
    content[content.index(b'"x"')] ^= 1
    second.write_bytes(content)
    report = verify(whole, anchors=anchors)
    assert report.exit_code() == 2
    assert [one.finding for one in report.anchors] == [UNCHECKED]
    with pytest.raises(JournalCorrupt):
        newest(whole)


@pytest.mark.guarantee("J5")
def test_an_anchor_older_than_what_is_kept_is_not_checked_and_vouches_for_nothing():
    seen, tip = Sightings([7]), Tip(position=30)
    seen.first = 20
    judged = judge(SOME, seen, tip)
    assert judged.finding == UNCHECKED
    assert "begins behind position 20" in judged.why
    assert "snapshot" in judged.why


@pytest.mark.guarantee("J6")
def test_beside_a_writer_only_what_is_proven_durable_is_anchored(tmp_path):
    driver = grown(2)
    driver.grow(10, 20)
    directory = put(driver, tmp_path / "j")
    anchor = newest(directory)
    last = max(one.position for one in entries(directory))
    assert anchor.position == last - 2
    assert verify(directory, anchors=[anchor]).unanchored == 2


def test_nothing_durable_is_nothing_to_anchor(tmp_path):
    with pytest.raises(NothingToAnchor):
        newest(put(Driver(FakeOs()), tmp_path / "j"))


def test_the_line_can_be_checked_by_hand(whole):
    anchor = newest(whole)
    by_hand = (
        f"tail -c +$(({anchor.offset}+1)) {whole / anchor.segment}"
        " | head -n 1 | tr -d '\\n' | sha256sum"
    )
    said = subprocess.run(["sh", "-c", by_hand], capture_output=True, text=True, check=True)
    assert said.stdout.split()[0] == anchor.digest


def test_an_anchor_reads_back_from_any_line_of_text(tmp_path):
    logged = f"Jan  2 03:04:05 h effectctl[12]: {SOME.text}"
    assert parse(logged) == SOME
    file = tmp_path / "log"
    file.write_text(f"other words\n{logged}\n\n{SOME.text} \n")
    assert read_anchors(file) == [SOME, SOME]


def test_what_was_exported_where_is_noted_for_the_journals_owner(whole, monkeypatch):
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda _file, uid, gid: given.append((uid, gid)))
    for where in ("log", "file"):
        remember(whole, SOME, where)
    assert given == [(whole.stat().st_uid, whole.stat().st_gid)], "once, when it is new"
    notes = [json.loads(one) for one in (whole / EXPORTED).read_text().splitlines()]
    assert [one["exported_to"] for one in notes] == ["log", "file"]
    with pytest.raises(JournalIOError, match="missing"):
        read_anchors(whole / "missing")


def test_an_altered_anchor_is_never_another_one():
    """Each character changed, and each cut: it is refused, not taken for a roll-back."""
    for at in range(len(SOME.text)):
        for text in (SOME.text[:at], SOME.text[:at] + "%" + SOME.text[at + 1 :]):
            try:
                found = parse(text)
            except ValueError:
                continue
            assert found is None
            assert at < len("effectd-anchor ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no anchor is in it"),
        ("nothing of ours\n", "no anchor is in it"),
        (SOME.text[:-4], "line 1: it is cut short"),
        (SOME.text.replace("position=7", "position=8"), "its own check does not fit"),
        (SOME.text.replace("anchor 1", "anchor 2"), "newer than this version"),
    ],
)
def test_what_is_no_anchor_is_refused_with_its_line(tmp_path, text, why):
    (tmp_path / "a").write_text(text)
    with pytest.raises(AnchorUnreadable, match=why):
        read_anchors(tmp_path / "a")
    assert main([str(tmp_path), "--anchor", str(tmp_path / "a")]) == 1


@pytest.mark.guarantee("J5", "J6")
def test_a_bare_python_verifies_with_anchors(tmp_path, whole):
    (tmp_path / "kept").write_text(newest(whole).text + "\n")
    base = getattr(sys, "_base_executable", sys.executable)
    command = [base, "-I", "-S", str(ROOT / "supervisor" / "journal"), str(whole)]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )

    assert run().returncode == 3
    anchored = run("--anchor", str(tmp_path / "kept"))
    assert anchored.returncode == 0, anchored.stderr
    assert "anchored up to the last decision" in anchored.stdout
    for segment in sorted(whole.glob("*.jnl"))[-2:]:
        segment.unlink()
    back = run("--anchor", str(tmp_path / "kept"))
    assert back.returncode == 4
    assert "ROLLED BACK" in back.stdout
