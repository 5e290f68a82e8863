"""A witness recognises an old state, and says which of the two knows more."""

from __future__ import annotations

import shutil
from pathlib import Path
from zlib import crc32

import pytest
import trio

from supervisor.core.record import By, JournalRepaired
from supervisor.journal import durably
from supervisor.journal.chain import Tip
from supervisor.journal.codec import Line
from supervisor.journal.errors import (
    JournalIOError,
    JournalLocked,
    JournalRolledBack,
    WitnessUnusable,
)
from supervisor.journal.log import Journal
from supervisor.journal.repair import examine, repair
from supervisor.journal.witness import NAME, Witness, Witnessed, decode, encode, identity

SOME = Witnessed("a" * 32, 7, "b" * 64, "2026-01-02T03:04:05Z", 3, "a reason")


class Host:
    """A state directory, its witness, and lives between which a person may do anything."""

    def __init__(self, base: Path) -> None:
        self.journal, self.witness, self.aside = base / "j", base / "w", base / "aside"
        self.lives = 0

    def live(
        self,
        decisions: int = 1,
        *,
        accept: str = "",
        keep: bool = True,
        snapshot: bool = False,
    ) -> str:
        """Start, decide, stop; what was accepted. With a `snapshot` of the end, from which the
        next start begins."""
        self.lives += 1
        held: list[Witness] = []

        def watch() -> Witness:
            held.append(Witness.open(self.witness, accept=accept))
            return held[0]

        async def main() -> str:
            journal = Journal.open(
                self.journal, lambda _: None, lambda *_: None, segment_bytes=8192, watch=watch
            )
            journal.start()
            accepted = held[0].accepted
            for number in range(decisions):
                await journal.ready(32)
                await journal.durable(journal.append(b"[[%d,%d]]" % (self.lives, number)))
            if snapshot:
                await journal.take(journal.pin(), [b"all of it"], None)
            await journal.close()
            if keep:
                held[0].keep(self.journal, *journal.decided)
            return accepted

        try:
            return trio.run(main)
        finally:
            for one in held:
                one.close()

    def put_aside(self) -> None:
        shutil.copytree(self.journal, self.aside)

    def restore(self) -> None:
        shutil.rmtree(self.journal)
        shutil.copytree(self.aside, self.journal)

    def roll_back(self) -> None:
        """Live, and live on; then the journal is what it was in between."""
        self.live(3)
        self.put_aside()
        self.live(3)
        self.restore()

    @property
    def told(self) -> Witnessed:
        return decode((self.witness / NAME).read_bytes())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def files(host: Host) -> dict[str, bytes]:
    found = (one for one in host.journal.iterdir() if one.is_file() and one.name != "LOCK")
    return {one.name: one.read_bytes() for one in found}


def refused(host: Host, **options: str) -> JournalRolledBack:
    before = files(host)
    with pytest.raises(JournalRolledBack) as caught:
        host.live(**options)
    assert files(host) == before
    return caught.value


@pytest.mark.guarantee("J10")
def test_a_journal_that_only_grew_starts_every_time(host):
    for decisions in (3, 1, 60, 0, 2):
        assert host.live(decisions) == ""
    assert host.told.journal == identity(host.journal)
    assert host.told.generation == 1


@pytest.mark.guarantee("J10")
def test_an_old_copy_is_refused_with_both_positions_until_it_is_accepted(host):
    host.live(3)
    host.put_aside()
    host.live(40)
    known = host.told
    host.restore()
    error = refused(host)
    assert f"saw position {known.position} at {known.at}" in str(error)
    assert "the journal ends at position 4" in str(error)  # three decisions and a mark
    assert "is forgotten" in str(error)
    assert "--accept-rollback REASON" in error.fix

    accepted = host.live(2, accept="the disk died")
    assert str(error) in accepted
    assert accepted.endswith("accepted: the disk died")
    assert (host.told.generation, host.told.accepted) == (2, "the disk died")
    assert decode((host.witness / "forgotten-1.json").read_bytes()) == known
    assert host.live() == ""


@pytest.mark.guarantee("J6", "J10")
def test_what_a_repair_gave_up_is_forgotten_and_that_needs_its_own_reason(host):
    host.live(3)
    newest = max(host.journal.glob("*.jnl"))
    content = bytearray(newest.read_bytes())
    content[content.index(b"[[1,1]]") + 1] ^= 1
    newest.write_bytes(content)
    loss = examine(host.journal)
    assert loss is not None
    assert loss.first <= host.told.position <= loss.last
    repair(host.journal, JournalRepaired(1, loss.first, loss.last, By(0, 1), "disk replaced"))
    error = refused(host)
    assert "a repair of the journal gave it up" in str(error)
    assert "--accept-rollback" in error.fix
    accepted = host.live(accept="the repair of Monday")
    assert "gave it up" in accepted
    assert host.live() == ""


@pytest.mark.guarantee("J10")
def test_a_reason_is_good_for_one_rollback(host):
    """An option left in a unit accepts nothing later."""
    host.roll_back()
    host.live(1, accept="once")
    host.live(3, accept="once")  # nothing to accept: it goes on
    host.restore()
    assert "accepted an earlier roll-back" in str(refused(host, accept="once"))
    host.live(1, accept="twice")
    assert host.told.generation == 3


@pytest.mark.guarantee("J10")
def test_a_crash_before_the_witness_heard_of_the_acceptance_asks_again(host):
    host.roll_back()
    known = host.told
    assert host.live(1, accept="once", keep=False)
    assert host.told == known
    assert host.live(1, accept="once")
    assert host.told.generation == 2


@pytest.mark.guarantee("J10")
def test_an_old_copy_that_was_written_on_elsewhere_is_refused_too(host):
    host.roll_back()
    shutil.move(host.witness, host.witness.with_name("away"))
    host.live(50)
    shutil.rmtree(host.witness)
    shutil.move(host.witness.with_name("away"), host.witness)
    assert "has something else there" in str(refused(host))


@pytest.mark.guarantee("J10")
def test_what_it_saw_is_looked_for_before_the_snapshot_too_that_a_start_begins_with(host):
    host.live(2)
    host.put_aside()
    host.live(2)
    host.live(5, keep=False, snapshot=True)
    assert len(list(host.journal.glob("*.jnl"))) == 1, "that a start reads from its beginning"
    assert host.live(keep=False) == ""

    host.restore()
    shutil.move(host.witness, host.witness.with_name("away"))
    host.live(8, snapshot=True)
    shutil.rmtree(host.witness)
    shutil.move(host.witness.with_name("away"), host.witness)
    assert "has something else there" in str(refused(host))


@pytest.mark.guarantee("J10")
def test_another_journal_and_an_empty_one_are_refused(host):
    host.live(3)
    first = host.told.journal
    shutil.rmtree(host.journal)
    host.journal.mkdir()
    error = refused(host)
    assert "the journal is empty" in str(error)
    assert str(host.witness) in error.fix

    shutil.move(host.witness, host.witness.with_name("away"))
    host.live(9)
    other = host.told.journal
    shutil.rmtree(host.witness)
    shutil.move(host.witness.with_name("away"), host.witness)
    assert f"of journal {first}, and this is journal {other}" in str(refused(host))


@pytest.mark.guarantee("J10")
def test_what_takes_the_witness_back_as_well_cannot_be_known(host):
    """As a restored virtual machine does; docs/backup.md says so."""
    host.live(3)
    host.put_aside()
    old = (host.witness / NAME).read_bytes()
    host.live(3)
    host.restore()
    (host.witness / NAME).write_bytes(old)
    assert host.live() == ""


@pytest.mark.guarantee("J10")
def test_a_mark_that_a_power_cut_took_is_no_rollback(host):
    host.live(3)
    (segment,) = host.journal.glob("*.jnl")
    content = segment.read_bytes()
    at = content.rindex(b"\n", 0, content.rindex(b'"mark"'))
    segment.write_bytes(content[: at + 1].ljust(len(content), b"\n"))
    assert host.live() == ""


@pytest.mark.guarantee("J10")
def test_an_old_journal_without_a_witness_gets_one(host):
    host.live(3)
    shutil.rmtree(host.witness)
    assert host.live() == ""
    assert host.told.position > 3
    assert host.witness.stat().st_mode & 0o777 == 0o700


@pytest.mark.guarantee("J10")
def test_a_witness_that_cannot_be_read_or_made_refuses_and_says_where(host):
    host.live(3)
    file = host.witness / NAME
    whole = file.read_bytes()
    for at in range(len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(WitnessUnusable, match=r"witness\.json"):
            Witness.open(host.witness)
    body = encode(SOME).rpartition(b" ")[0].replace(b'"format": 1', b'"format": 2')
    file.write_bytes(body + b" %08x\n" % crc32(body))
    with pytest.raises(WitnessUnusable, match="a newer version wrote it"):
        host.live()
    file.unlink()
    file.mkdir()
    with pytest.raises(JournalIOError, match=r"reading .*witness\.json"):
        host.live()
    shutil.rmtree(host.witness)
    host.witness.write_text("a file")
    with pytest.raises(WitnessUnusable, match="witness_dir") as caught:
        host.live()
    assert "Create it" in caught.value.fix


@pytest.mark.guarantee("J10")
def test_a_journal_whose_front_is_gone_is_judged_by_what_it_has(host):
    """Behind a snapshot the first segment is not there: whose it is, the witness says."""
    host.live(3)
    told = host.told
    known = Witness.open(host.witness, accept="not needed")
    known.see(Line(told.position + 4, 0, "0" * 32, b"", 0, None, "c" * 64))
    known.settle(Tip(position=told.position + 9))
    assert known.accepted == ""
    assert known.unneeded
    known.close()
    segment = min(host.journal.glob("*.jnl"))
    for bytes_ in (segment.read_bytes()[:512].ljust(8192, b"\n"), b"\n" * 8192):
        segment.write_bytes(bytes_)
        assert identity(host.journal) == "unknown"
    segment.unlink()
    assert identity(host.journal) == "unknown"


@pytest.mark.guarantee("J10")
def test_two_daemons_never_share_a_witness(host):
    held = Witness.open(host.witness)
    with pytest.raises(JournalLocked):
        host.live()
    held.close()
    host.live()


@pytest.mark.guarantee("J10")
@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fails_leaves_the_old_testimony(host, monkeypatch, call):
    host.live(3)
    known = host.told
    host.live(3, keep=False)

    def fail(*_arguments: object) -> None:
        raise OSError(5, "no disk")

    witness = Witness.open(host.witness)
    with monkeypatch.context() as patch:
        patch.setattr(durably.os if call == "fsync" else durably.Path, call, fail)
        with pytest.raises(OSError, match="no disk"):
            witness.keep(host.journal, 9, "c" * 64)
    assert decode((host.witness / NAME).read_bytes()) == known == witness.told
    witness.keep(host.journal, 9, "c" * 64)
    assert host.told.position == 9
    written = (host.witness / NAME).stat().st_ino
    witness.keep(host.journal, 9, "c" * 64)  # nothing new: nothing written
    assert (host.witness / NAME).stat().st_ino == written
    witness.close()
