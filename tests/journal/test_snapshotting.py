"""When the daemon tries again what it could not do: a snapshot, less and less often."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from supervisor import snapshotting
from supervisor.core.filing import Filing
from supervisor.core.state import State
from supervisor.journal.file import Os
from supervisor.journal.log import Journal
from supervisor.snapshotting import LOOK_S, RETRY_MOST_S, RETRY_S, Snapshots
from tests.core.made import NONE, Core, effect, terms

TRIES = 10


class Full(Os):
    """No snapshot fits while it is `full`."""

    full = True

    def open(self, directory: int, name: str, *, create: bool = False) -> int:
        if self.full and create and name.startswith("snap-"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(directory, name, create=create)


async def nothing_filed(_filing: Filing) -> None:
    pass


def roomy() -> bool:
    return False


class Nameless(Full):
    """A snapshot is written, and gets no name, while it is `full`."""

    def open(self, directory: int, name: str, *, create: bool = False) -> int:
        return Os.open(self, directory, name, create=create)

    def rename(self, directory: int, old: str, new: str) -> None:
        if self.full and new.startswith("snap-"):
            raise OSError(errno.EIO, "Input/output error")
        super().rename(directory, old, new)


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
        journal, State, nothing_filed, roomy, lambda: None, lambda: False, said.append
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


async def test_what_was_packed_for_a_snapshot_stays_so_whether_it_was_made_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, disk, looks = Core(), Nameless(), itertools.count(1)
    for n in range(3):
        core.exit(core.begin(terms(effect(contract=NONE)), f"r{n}"))
    before, running = core.state, core.begin(terms(effect()), "runs")

    async def sleep(_seconds: float) -> None:
        """The first one fails at its end; between the second and the third another one is done."""
        match next(looks):
            case 3:
                disk.full = False
                assert [*core.state.operations.loose.values()] == [core.operation(running)]
                assert core.state.operations.delete(core.state.calls[running]) == before.operations
            case 4:
                core.confirm(running)
                core.exit(running)
                await decided()
            case 5:
                assert [*core.state.operations.loose.values()] == []
                scope.cancel()
        await trio.lowlevel.checkpoint()

    async def decided() -> None:
        """As often as there are operations: then a snapshot is due."""
        for _ in core.state.operations:
            await journal.durable(journal.append(b'["one"]'))

    async def file(filing: Filing) -> None:
        for part in filing.parts():
            core.state = filing.into(core.state, part)

    monkeypatch.setattr(snapshotting, "trio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(snapshotting, "DECISIONS", 1)
    journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=65_536, os_=disk)
    journal.start()
    await decided()
    snapshots = Snapshots(
        journal, lambda: core.state, file, roomy, lambda: None, lambda: False, lambda _: None
    )
    with trio.CancelScope() as scope:
        await snapshots.run()
    await journal.close()


async def test_many_that_are_finished_are_filed_without_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as a thread is to be had; that there is none is said once."""
    core, said, looks, no_thread = Core(), [], itertools.count(1), [True]
    for n in range(3):
        core.exit(core.begin(terms(effect(contract=NONE)), f"r{n}"))
    whole = core.state

    async def in_thread(work: Callable[[], None]) -> None:
        if no_thread[0]:
            raise OSError(errno.EAGAIN, "no thread can be started")
        await trio.to_thread.run_sync(work)

    async def sleep(_seconds: float) -> None:
        match next(looks):
            case 3:
                assert len(core.state.operations.loose) == 3
                no_thread[0] = False
            case 4:
                assert not core.state.operations.loose
                scope.cancel()
        await trio.lowlevel.checkpoint()

    async def file(filing: Filing) -> None:
        for part in filing.parts():
            core.state = filing.into(core.state, part)

    monkeypatch.setattr(snapshotting, "trio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(snapshotting, "scarce", SimpleNamespace(in_thread=in_thread))
    journal = Journal.open(tmp_path / "j", lambda _frame: None, segment_bytes=65_536)
    journal.start()
    snapshots = Snapshots(
        journal,
        lambda: core.state,
        file,
        lambda: bool(core.state.loose_finished),
        lambda: None,
        lambda: False,
        said.append,
    )
    with trio.CancelScope() as scope:
        await snapshots.run()
    await journal.close()
    assert core.state == whole
    (warning,) = said
    assert warning.startswith("warning: finished operations stay in memory: [Errno 11] no thread")
    assert journal.stats().snapshot == 0
