"""A snapshot that somebody wrote anew, well formed, in the hands of a daemon and of a replay."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from config.load import load_config
from supervisor.cli.past import past
from supervisor.core.moment import Moment
from supervisor.core.state import State
from supervisor.core.whole import lines
from supervisor.journal.content import state_in
from supervisor.journal.log import Journal
from supervisor.journal.snapshot import parse
from supervisor.recovery import replay
from tests.journal.aged import SEGMENT, aged
from tests.journal.test_proven import forged


def recorded(directory: Path) -> State:
    """A journal with a past, a snapshot of its last state, and the journal's record of that."""
    state = aged(directory, records=200)[-1]

    async def main() -> None:
        journal = Journal.open(
            directory, lambda _frame: None, lambda *_: None, segment_bytes=SEGMENT
        )
        journal.start()
        await journal.take(journal.pin(), lines(state), None)
        await journal.close()

    trio.run(main)
    return state


@pytest.mark.guarantee("J2", "J9")
def test_neither_the_daemon_nor_a_replay_offline_shows_what_a_forged_snapshot_says(tmp_path):
    """Who replaces the file has its checksum right, and the state in it well formed."""
    state = recorded(tmp_path / "journal")
    new, old = sorted((tmp_path / "journal").glob("snap-*.json"), reverse=True)
    proven = state_in(parse(old.name, old.read_bytes()).content)
    honest = b"\n".join(lines(state))
    some = min(set(state.operations) & set(proven.operations))
    lie = honest.replace(some.encode(), some[:-4].encode() + b"liar")
    assert lie != honest
    new.write_bytes(forged(new.read_bytes(), lie))
    config = load_config(None, dev=True, overrides={"state_dir": tmp_path})
    replayed = replay(config)
    seen = past(tmp_path / "journal", None, Moment(1, 1, ""))
    assert replayed.damage is not None
    assert "it was replaced" in replayed.damage.detail
    assert seen.problem is not None
    for shown in (replayed.state, seen.state):
        assert shown.operations == state.operations
        assert shown.position >= proven.position
