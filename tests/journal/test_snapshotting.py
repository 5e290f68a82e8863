"""When the daemon tries again what it could not do: a snapshot, less and less often."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from supervisor import snapshotting
from supervisor.core.state import State
from supervisor.journal.file import Os
from supervisor.journal.log import Journal
from supervisor.snapshotting import LOOK_S, RETRY_MOST_S, RETRY_S, Snapshots

TRIES = 10


class Full(Os):
    """No snapshot fits while it is `full`."""

    full = True

    def open(self, directory: int, name: str, *, create: bool = False) -> int:
        if self.full and create and name.startswith("snap-"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(directory, name, create=create)


def waits(failures: int) -> list[float]:
    """What comes of so many in a row: a look, and a pause that doubles."""
    pauses = [min(RETRY_S * 2**at, RETRY_MOST_S) for at in range(failures)]
    return list(itertools.chain.from_iterable((LOOK_S, pause) for pause in pauses))


@pytest.mark.guarantee("J3", "J4")
async def test_a_failed_snapshot_is_tried_again_less_and_less_often_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, slept, said = Full(), [], []

    async def sleep(seconds: float) -> None:
        """Only counted, and the disk changes at the chosen moments; then a decision more."""
        slept.append(seconds)
        if len(slept) == 2 * TRIES:
            disk.full = False
        if len(slept) == 2 * TRIES + 1:  # it is made at this look, and the next ones fail anew
            await journal.durable(journal.append(b'["once more"]'))
        if len(slept) == 2 * TRIES + 2:
            disk.full = True
            await journal.durable(journal.append(b'["and more"]'))
        if len(slept) == 2 * TRIES + 5:
            scope.cancel()
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(snapshotting, "trio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(snapshotting, "DECISIONS", 1)
    journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=65_536, os_=disk)
    journal.start()
    await journal.durable(journal.append(b'["first"]'))
    snapshots = Snapshots(
        journal, State, lambda _made: None, lambda: None, lambda: False, said.append
    )
    with trio.CancelScope() as scope:
        await snapshots.run()
    assert slept[: 2 * TRIES + 1] == [*waits(TRIES), LOOK_S]
    assert slept[2 * TRIES + 1 :] == waits(2)
    assert max(slept) == RETRY_MOST_S
    again = "warning: a snapshot of the journal failed: [Errno 28] No space left on device"
    assert [line.split("; ")[0] for line in said] == [
        again,
        "snapshots of the journal are made again",
        again,
    ]
    assert "No space" in (journal.stats().snapshot_failed or "")
    await journal.close()
