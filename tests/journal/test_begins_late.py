"""A directory that begins with a snapshot, in the hands of every tool that needs no daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from supervisor.cli.past import past
from supervisor.cli.talk import CommandError
from supervisor.cli.when import Spot
from supervisor.core.evolve import fold
from supervisor.core.moment import Moment
from supervisor.core.record import By, JournalRepaired
from supervisor.core.state import State
from supervisor.journal import repair
from supervisor.journal.anchor import newest
from supervisor.journal.backup import backup
from supervisor.journal.chain import UNKNOWN
from supervisor.journal.content import state_in
from supervisor.journal.errors import JournalCorrupt
from supervisor.journal.log import Journal
from supervisor.journal.read import read_frames
from supervisor.journal.records import decode
from supervisor.journal.repair import NotRepairable, examine
from supervisor.journal.snapshot import snapshots_among
from supervisor.journal.verify import INTACT, verify
from tests.journal.aged import SEGMENT, aged


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[State]]:
    """Read only: the directory, and the state after each position."""
    place = tmp_path_factory.mktemp("aged") / "journal"
    return place, aged(place)


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, list[State]]:
    return tmp_path / "journal", aged(tmp_path / "journal")


def started(directory: Path) -> State:
    """What a start makes of it."""
    state = State()

    def begin(_position: int, content: memoryview) -> None:
        nonlocal state
        state = state_in(content)

    def frame(one) -> None:
        nonlocal state
        state = fold(state, one.position, decode(one.payload))

    trio.run(Journal.open(directory, frame, begin, segment_bytes=SEGMENT).close)
    return state


def ctl(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.guarantee("J4", "J9")
def test_a_start_reads_what_is_behind_the_snapshot_and_knows_all(own):
    directory, states = own
    frames: list[int] = []
    content: list[int] = []
    journal = Journal.open(
        directory,
        lambda one: frames.append(one.position),
        lambda position, _content: content.append(position),
        segment_bytes=SEGMENT,
    )
    assert content == [len(states) // 2] == [journal.recovered.started_from]
    assert frames == list(range(content[0] + 1, len(states)))
    trio.run(journal.close)
    assert started(directory) == states[-1]


@pytest.mark.guarantee("J6")
def test_every_reader_begins_where_the_journal_does(made, tmp_path):
    directory, states = made
    report = verify(directory)
    assert (report.verdict, report.base > 0) == (INTACT, True)
    assert report.journal != UNKNOWN
    anchor = newest(directory)
    assert anchor.journal == report.journal
    copy = backup(directory, tmp_path / "copy")
    assert copy.anchor.position == anchor.position
    positions = [frame.position for frame in read_frames(directory, unattested=True)]
    assert positions == list(range(report.base + 1, len(states)))


@pytest.mark.guarantee("J6", "J9")
def test_replay_folds_from_a_snapshot_and_refuses_what_is_before_the_older(made):
    directory, states = made
    now = Moment(1, 1, "")
    early, late = len(states) // 4 + 3, len(states) // 2 + 3
    assert past(directory, Spot(early, None), now).state == states[early]
    assert past(directory, Spot(None, states[late].latest), now).state == states[late]
    assert past(directory, None, now).state == states[-1]
    with pytest.raises(CommandError, match="the journal begins after that"):
        past(directory, Spot(len(states) // 4 - 1, None), now)
    said = ctl("stats", str(directory), "-o", "json")
    assert sum(json.loads(said.stdout)["operations"].values()) == len(states[-1].operations)


@pytest.mark.guarantee("J2", "J6")
def test_a_repair_behind_the_snapshot_keeps_what_it_stands_for(own):
    directory, states = own
    last = max(directory.glob("*.jnl"))
    spoil(last, 9_000)
    with pytest.raises(JournalCorrupt):
        started(directory)
    loss = examine(directory)
    assert loss is not None
    act = JournalRepaired(1, loss.first, loss.last, By(0, 1), "the disk was replaced")
    repair.repair(directory, act)
    assert started(directory) == fold(states[loss.first - 1], loss.resume + 1, (act,))
    assert verify(directory).verdict == INTACT


@pytest.mark.guarantee("J2", "J6")
def test_damage_before_the_snapshots_end_is_not_given_up_under_it(own):
    directory, states = own
    new, _old = snapshots_among(path.name for path in directory.iterdir())
    head = json.loads((directory / new).read_bytes().splitlines()[0])
    spoil(directory / head["segment"], head["end"] - 700)
    with pytest.raises(NotRepairable, match=f"{new} stands for") as caught:
        examine(directory)
    assert f"Move {new} out" in caught.value.fix
    (directory / new).rename(directory.parent / new)
    loss = examine(directory)
    assert loss is not None
    repair.repair(directory, JournalRepaired(1, loss.first, loss.last, By(0, 1), "nothing else"))
    after = started(directory)
    gone = {one.operation_id for one in after.tombstones}
    assert set(states[len(states) // 4].operations) <= {*after.operations, *gone}


@pytest.mark.guarantee("J2")
def test_what_a_start_does_not_read_needs_no_repair(own):
    """Damage in what only the older snapshot needs: a verification tells."""
    directory, states = own
    spoil(min(directory.glob("*.jnl")), 9_000)
    assert examine(directory) is None
    assert verify(directory).damage is not None
    assert started(directory) == states[-1]


def spoil(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
