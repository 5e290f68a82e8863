"""Planted bugs in snapshots, the archive, the quarantine and the blobs, each with its catcher."""

from __future__ import annotations

from collections.abc import Callable

from tests.mutants.journal_edits import CHAIN, CODEC, OPENING, SEGMENTS, Mutant, row_of

SNAPSHOT, ARCHIVE, FRONT = (f"supervisor.journal.{m}" for m in ("snapshot", "archive", "front"))
PROVEN, BLOBS, LOG = (f"supervisor.journal.{m}" for m in ("proven", "blobs", "log"))


def crashed(where: str) -> Callable[[], None]:
    name = "test_a_crash_at_any_call_while_a_snapshot_is_made_loses_nothing"
    return row_of("test_snapshot_faults", name, where=where)


bit = row_of(
    "test_fronts",
    "test_no_changed_bit_is_another_thing_to_a_start_for_what_the_snapshot_says",
)
wrote = row_of(
    "test_fronts",
    "test_the_writer_knows_what_it_wrote_across_segments_and_starts",
    align=512,
)
padded = row_of("test_fronts", "test_after_damaged_padding_nobody_vouches_for_what_was_written")
shown = row_of("test_fronts", "test_whatever_a_witness_asks_for_it_is_shown")
cut = row_of("test_snapshots", "test_no_changed_bit_and_no_cut_leaves_a_snapshot_whole")
older = row_of("test_snapshots", "test_segments_stay_back_to_the_older_of_two_snapshots")
people = row_of("test_snapshots", "test_so_many_more_segments_stay_for_people", keep=1)
reason = row_of(
    "test_snapshots", "test_a_damaged_snapshot_is_no_reason_to_let_go_of_a_way_to_start"
)
named = row_of(
    "test_snapshots", "test_what_nothing_stands_for_any_more_is_named_and_nothing_is_changed"
)
rolled = row_of("test_snapshots", "test_a_journal_that_is_older_than_its_snapshot_is_refused")
aside = row_of(
    "test_snapshot_faults",
    "test_a_crash_at_any_call_while_a_bad_snapshot_is_put_aside_loses_neither_it_nor_a_decision",
)
taken = row_of(
    "test_snapshot_faults",
    "test_what_is_in_quarantine_is_replaced_by_nothing_and_stops_no_start",
)
replaced = row_of(
    "test_proven", "test_nothing_of_a_snapshot_that_was_replaced_is_handed_over", busy=True
)
before = row_of(
    "test_proven",
    "test_damage_before_a_snapshots_line_leaves_the_older_one_and_what_follows_it",
)
nothing = row_of("test_proven", "test_with_nothing_proven_nothing_is_handed_over")
summed = row_of(
    "test_rule",
    "test_looking_for_lines_takes_no_more_checksums_than_there_are_bytes",
    before=b"\n",
)
power = row_of("test_blobs", "test_no_power_cut_takes_back_a_blob_that_was_put")
read = row_of("test_blobs", "test_no_changed_bit_and_no_cut_is_read_as_the_result")

swept = row_of(
    "tests.dispatch.test_blobs",
    "test_no_result_that_is_named_loses_its_file_and_none_that_is_not_keeps_it",
    steps=60,
    seed=1,
)
SWEEP = "supervisor.dispatch.blobs"

MUTANTS = {
    # --- snapshots ---
    "a snapshot's checksum is not checked": Mutant(
        SNAPSHOT,
        {"seal is None or sha256(body).hexdigest().encode() != seal[1]": "seal is None"},
        cut,
    ),
    "a snapshot has its name before its content is durable": Mutant(
        SNAPSHOT,
        {
            "        digest = _write(os_, fd, place, content)\n        os_.fsync(fd)\n": (
                "        digest = _write(os_, fd, place, content)\n"
            )
        },
        crashed("removed"),
    ),
    "the older of two snapshots loses its segments": Mutant(
        SNAPSHOT, {"islice(whole, KEPT - 1, None)": "islice(whole, 0, None)"}, older
    ),
    "the snapshot's own segment is let go": Mutant(
        SNAPSHOT, {"name < point.name)": "name <= point.name)"}, older
    ),
    "the oldest segments stay for people": Mutant(
        SNAPSHOT, {"< point.name)\n": "< point.name)[::-1]\n"}, people
    ),
    "a damaged snapshot counts as one of the two": Mutant(
        SNAPSHOT,
        {
            "            yield parse(name, load(name)).point\n": (
                "            yield _head_of(load(name).split(FILLER)[0])[0]\n"
            ),
            "from supervisor.journal.codec import Made": (
                "from supervisor.journal.codec import FILLER, Made"
            ),
        },
        reason,
    ),
    "a snapshot's line need not be met": Mutant(
        CHAIN,
        {"            if known.number >= self._segments[0].number:": "            if False:"},
        rolled,
    ),
    "a snapshot that was replaced is believed": Mutant(
        CHAIN, {"known.seal != made.digest": "not known.seal"}, replaced
    ),
    "a snapshot is folded before it is vouched for": Mutant(
        PROVEN,
        {"        elif self._waiting is None:\n": "        elif self.release() is None:\n"},
        replaced,
    ),
    "a snapshot that nothing vouches for is shown": Mutant(
        PROVEN, {"found).unproven:": "found).unproven or True:"}, nothing
    ),
    "of a damaged journal the snapshot that met the damage is shown": Mutant(
        CHAIN,
        {"return frozenset(known.source for known in self._known.values())": "return frozenset()"},
        before,
    ),
    "what a snapshot says of its segment is not compared": Mutant(
        FRONT,
        {" or self.up_to(name, content, known.end).hexdigest() != known.front": ""},
        bit,
    ),
    "the writer forgets what stands between two batches": Mutant(
        SEGMENTS, {"        self._take_in(FILLER * (self._next - self.point.end))\n": ""}, wrote
    ),
    "after damaged padding the writer vouches for it": Mutant(
        CHAIN, {" and not self.tip.blemishes": ""}, padded
    ),
    "a witness is not shown what the snapshot vouches for": Mutant(
        CHAIN,
        {"for position in stops[first:last]": "for position in stops[last - 1 : last]"},
        shown,
    ),
    # --- the archive and the quarantine ---
    "a file is put over another in the archive": Mutant(
        ARCHIVE,
        {
            "    elif os_.read_cached(place, name) != os_.read_cached(directory, name):\n": (
                "    elif False:\n"
            )
        },
        taken,
    ),
    "a segment goes before its name in the archive is durable": Mutant(
        ARCHIVE, {"    os_.fsync(place)\n": ""}, crashed("archived")
    ),
    "a copy in the archive is not synced": Mutant(
        ARCHIVE,
        {
            "content[offset : offset + _CHUNK], offset)\n        os_.fsync(fd)\n": (
                "content[offset : offset + _CHUNK], offset)\n"
            )
        },
        crashed("archived elsewhere"),
    ),
    "a copy has its name in the archive before it is whole": Mutant(
        ARCHIVE,
        {'f"{name}.tmp"': "name", "    os_.rename(place, temporary, name)": ""},
        crashed("archived elsewhere"),
    ),
    "a bad snapshot is removed": Mutant(
        OPENING, {"set_aside(os_, directory, place, name)": "os_.unlink(directory, name)"}, aside
    ),
    "a bad snapshot is moved before another way to start is proven": Mutant(
        OPENING,
        {
            "        following = Following(found,": (
                "        _quarantine(self._os, self._directory, self.bad)\n"
                "        following = Following(found,"
            )
        },
        named,
    ),
    # --- blobs ---
    "a blob's name is not synced": Mutant(
        BLOBS, {"        raise\n    durably.sync(directory)\n": "        raise\n"}, power
    ),
    "a blob's content is not synced": Mutant(BLOBS, {"        os.fsync(fd)\n": ""}, power),
    "a blob that is there is taken for durable": Mutant(
        BLOBS, {"        durably.sync(directory)\n        return\n": "        return\n"}, power
    ),
    "a blob is not held against its digest": Mutant(
        BLOBS, {" and digest_of(content) == digest": ""}, read
    ),
    "a blob is written under its own name": Mutant(
        BLOBS,
        {'directory / f"{digest}.{os.getpid()}-{next(_number)}{_TEMPORARY}"': "directory / digest"},
        power,
    ),
    "a blob goes before the record that let go of it is durable": Mutant(
        SWEEP, {"            await durable()\n": "            pass\n"}, swept
    ),
    "a blob that was put again meanwhile goes": Mutant(
        SWEEP, {" - self._fresh": "", "batch if one not in named()": "batch"}, swept
    ),
    "a blob that nothing names stays": Mutant(
        SWEEP, {"self._fresh = set(self._writing)": "pass"}, swept
    ),
    # --- lines behind damage ---
    "a checksum is taken of whatever looks like a line": Mutant(
        CODEC, {" and buf.find(FILLER, start, stop) < 0": ""}, summed
    ),
}
