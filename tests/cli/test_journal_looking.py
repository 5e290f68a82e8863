"""dump, tail, replay, export and stats on a real journal, beside its daemon and on a copy."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.exits import Exit
from tests.cli.conftest import DEADLINE_S, ROOT, Ctl, Daemon

DAMAGED = 2


@pytest.fixture
def state(daemon: Daemon) -> str:
    return str(daemon.state)


def lines_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def kinds_of(lines: list[Any]) -> list[str]:
    return [r["k"] for line in lines if isinstance(line["payload"], list) for r in line["payload"]]


@pytest.mark.guarantee("J6")
def test_a_dump_can_be_chosen_by_what_it_is_about(ctl: Ctl, state: str) -> None:
    ctl("dispatch", "echo")
    mine = ctl("dispatch", "doubt", "-o", "json").document
    operation_id, [call_id] = mine["operation_id"], mine["calls"]
    [effect] = mine["call"]["effects"]

    def dumped(*words: str) -> list[Any]:
        said = ctl("journal", "dump", state, *words, "-o", "jsonl")
        assert said.code == Exit.DONE, said.err
        # Whether the newest line is attested changes while a quiet daemon marks its journal.
        return [{key: one[key] for key in one if key != "attested"} for one in lines_of(said.out)]

    whole = dumped("--operation", operation_id)
    assert {r["operation_id"] for one in whole for r in one["payload"]} == {operation_id}
    assert kinds_of(whole)[0] == "operation_accepted"
    assert "attempt_ended" in kinds_of(whole)
    assert dumped("--operation", operation_id[3:12]) == whole
    assert kinds_of(dumped("--effect", effect["effect_id"])) == ["effect_announced"]
    assert "operation_accepted" not in kinds_of(dumped("--call", call_id))
    first = whole[0]["position"]
    assert [one["position"] for one in dumped("--from", str(first), "--to", str(first))] == [first]
    assert kinds_of(dumped("--since", mine["created_at"]))[: len(kinds_of(whole))] == kinds_of(
        whole
    )
    before = dumped("--until", mine["created_at"], "--kind", "operation_accepted")
    assert before
    assert operation_id not in json.dumps(before)
    # Each line stands where it says.
    for one in whole:
        content = (Path(state) / "journal" / one["file"]).read_bytes()[one["offset"] :]
        assert content.split(b" ", 4)[2] == str(one["position"]).encode()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["dump", "--since", "yesterday"], Exit.USAGE, "--since yesterday: not a time"),
        (["dump", "--kind", "nothing"], Exit.USAGE, "effect_announced"),
        (["dump", "--operation", "op_zzzzzzzz"], Exit.NOT_FOUND, "no operation has an id"),
        (["dump", "--operation", "op_"], Exit.USAGE, "too short"),
        (["dump", "--call", "eff_00000000"], Exit.USAGE, "is the id of an effect"),
        (["replay", "--at", "2h"], Exit.USAGE, "--at 2h: not a time"),
        (["replay", "--at", "2001-01-01"], Exit.NOT_FOUND, "begins after that"),
        (["export", "--operation", "op_" + "z" * 20], Exit.NOT_FOUND, "no operation has an id"),
        (["export", "-o", "/nowhere/report"], Exit.FAILED, "/nowhere/report"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(
    ctl: Ctl, state: str, words: list[str], code: Exit, said: str
) -> None:
    found = ctl("journal", words[0], state, *words[1:])
    assert found.code == code
    assert said in re.sub(r"\s+", " ", found.err)
    assert found.out == ""


def test_tail_prints_the_newest_and_text_is_for_people(ctl: Ctl, state: str) -> None:
    operation_id = ctl("dispatch", "charge", "-o", "json").document["operation_id"]
    newest = lines_of(ctl("journal", "tail", state, "-n", "2", "-o", "jsonl").out)
    assert len(newest) == 2
    assert "attempt_ended" in kinds_of(newest)
    text = ctl("journal", "tail", state, "--operation", operation_id).out
    assert re.search(r"accepted, by uid \d+", text)
    assert "effect applied, by handler" in text
    assert re.search(r"attempt 0 succeeded", text)


@pytest.mark.guarantee("J6")
def test_following_a_live_writer_shows_each_record_once_and_ends_clean(
    ctl: Ctl, state: str
) -> None:
    command = [sys.executable, "-m", "supervisor.cli", "journal", "tail", state, "-n", "1", "-f"]
    with subprocess.Popen(
        [*command, "-o", "jsonl"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        read(process.stdout.fileno(), b"\n", 1)
        wanted = [ctl("dispatch", "echo", "-o", "json").document["operation_id"] for _ in range(3)]
        text = read(process.stdout.fileno(), b'"operation_accepted"', 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr.read() == b""
    seen = [json.loads(line) for line in text.splitlines()]
    accepted = [
        r["operation_id"]
        for one in seen
        if isinstance(one["payload"], list)
        for r in one["payload"]
        if r["k"] == "operation_accepted"
    ]
    assert accepted == wanted
    assert all(one["attested"] for one in seen)


def read(fd: int, what: bytes, times: int) -> bytes:
    """What a process writes, in whole lines, until something was in it so often."""
    found = b""
    deadline = time.monotonic() + DEADLINE_S
    while found.count(what) < times or not found.endswith(b"\n"):
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, found
        found += os.read(fd, 65536)
    return found


@pytest.mark.guarantee("J6", "R3")
def test_replay_tells_what_was_known_then(ctl: Ctl, state: str) -> None:
    mine = ctl("dispatch", "doubt", "-o", "json").document
    operation_id = mine["operation_id"]
    [effect] = mine["call"]["effects"]
    then = mine["position"]
    ctl(
        *["effects", "resolve", effect["effect_id"], "--if-revision", str(effect["revision"])],
        *["--outcome", "applied", "--evidence", "seen"],
    )

    def known(*words: str) -> Any:
        return ctl(
            "journal", "replay", state, "--operation", operation_id, *words, "-o", "json"
        ).document

    assert known()["call"]["effects"][0]["outcome"] == "applied"
    past = known("--at", str(then))
    assert past["state"] == "unknown"
    assert past["recovery"]["allowed_actions"] == ["cancel", "extend", "resolve"]
    assert [one["code"] for one in past["recovery"]["refusals"]] == ["EffectOutcomeUnknown"]
    assert known("--at", past["updated_at"])["state"] == "unknown"
    every = ctl("journal", "replay", state, "--at", str(then), "-o", "json").document
    assert every["position"] == then
    assert every["items"][0]["recovery"]["state"] == "unknown"
    text = ctl("journal", "replay", state, "--at", str(then)).out
    assert re.search(rf"{operation_id} +\S+ unknown +doubt +1 .* resolve", text)
    gone = ctl("journal", "replay", state, "--at", "1", "--operation", operation_id)
    assert gone.code == Exit.NOT_FOUND
    assert "at position 1" in gone.err


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and the text of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = "</code><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J"


@pytest.mark.guarantee("J6")
def test_a_page_tells_all_and_lets_nothing_of_a_handler_act(
    ctl: Ctl, state: str, tmp_path: Path
) -> None:
    hostile = ctl(
        *["dispatch", "echo", "--input", json.dumps({"x": HOSTILE})],
        *["--label", f"who={'<b>x'}", "-o", "json"],
    ).document["operation_id"]
    doubt = ctl("dispatch", "doubt", "-o", "json").document
    target = tmp_path / "report.html"
    target.write_text("old")
    chosen = [word for one in (hostile, doubt["operation_id"]) for word in ("--operation", one)]
    said = ctl("journal", "export", state, "--format", "html", *chosen, "-o", str(target))
    assert (said.code, said.out) == (Exit.DONE, ""), said.err
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    assert target.stat().st_mode & 0o777 == 0o600
    text = target.read_text()
    assert not {"\u202e", "\x1b"} & set(text)
    page = Page(text)
    assert page.open == []
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "link", "iframe", "object", "b"}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name == "src"]
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links
    assert all(link and link.startswith("#op_") for link in links)
    # What is unknown and whom it waits for; each record; a picture with a table below it.
    [effect] = doubt["call"]["effects"]
    assert effect["effect_id"] in page.text.partition("Operations")[0]
    assert "a person: nobody but the provider" in page.text
    assert page.text.count("attempt 0 started") == 2
    assert [tag for tag, _ in page.elements].count("svg") == 2
    assert "<script>alert(1)" in page.text


def test_events_are_exported_as_the_daemon_tells_them(ctl: Ctl, state: str) -> None:
    operation_id = ctl("dispatch", "charge", "-o", "json").document["operation_id"]
    exported = lines_of(ctl("journal", "export", state, "--operation", operation_id).out)
    told = lines_of(ctl("events", "--operation", operation_id, "-o", "jsonl").out)
    assert [one for one in exported if one["operation_id"] == operation_id] == told
    assert {one["type"] for one in exported if one not in told} == {"daemon_started"}


def test_stats_count_what_is_there(ctl: Ctl, state: str) -> None:
    doubt = ctl("dispatch", "doubt", "-o", "json").document
    found = ctl("journal", "stats", state, "--finished-days", "0", "-o", "json").document
    lines = lines_of(ctl("journal", "dump", state, "-o", "jsonl").out)
    kinds = kinds_of(lines)
    assert {one["name"]: one["count"] for one in found["kinds"]} == {
        kind: kinds.count(kind) for kind in set(kinds)
    }
    assert {one["name"] for one in found["segments"]} == {one["file"] for one in lines}
    assert found["decisions"] == sum(isinstance(one["payload"], list) for one in lines)
    assert 0 < found["batches"] <= found["decisions"]
    assert found["operations"]["unknown"] >= 1
    assert found["oldest_unresolved"]["announced_at"] <= doubt["call"]["effects"][0]["announced_at"]
    assert found["retention"]["operations"] == found["operations"].get("succeeded", 0) + found[
        "operations"
    ].get("failed", 0)
    text = ctl("journal", "stats", state).out
    assert "one sync each" in text
    assert "effect_announced" in text


@pytest.mark.guarantee("J6")
def test_damage_shows_as_far_as_proven_with_a_mark_in_every_tool(
    ctl: Ctl, daemon: Daemon, tmp_path: Path
) -> None:
    kept = ctl("dispatch", "charge", "-o", "json").document["operation_id"]
    lost = ctl("dispatch", "charge", "-o", "json").document["operation_id"]
    ctl("dispatch", "echo")  # its lines attest those before
    copied = Path(shutil.copytree(daemon.state / "journal", tmp_path / "journal"))
    for segment in copied.glob("*.jnl"):
        content = segment.read_bytes()
        segment.write_bytes(content.replace(lost.encode(), b"x" * len(lost)))
    page = tmp_path / "page.html"
    for words in (
        ["dump"],
        ["tail"],
        ["replay"],
        ["stats"],
        ["export"],
        ["export", "--format", "html", "-o", str(page)],
    ):
        said = ctl("journal", words[0], str(copied), *words[1:])
        assert said.code == DAMAGED, words
        assert re.search(r"\.jnl at byte \d+", said.err), words
        if words[0] in {"dump", "replay"}:
            assert kept in said.out
            assert lost not in said.out
    assert "DAMAGED, proof ends here" in page.read_text()
