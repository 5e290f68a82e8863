"""Planted bugs in the journal, each with the test of the suite that must catch it."""

from __future__ import annotations

import errno
import importlib
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio


class Mutant(NamedTuple):
    """Each old text of the module becomes the new one."""

    module: str
    changes: dict[str, str]
    caught_by: Callable[[], None]


def row_of(file: str, name: str, **row: object) -> Callable[[], None]:
    """One row of a test of tests/journal, or of the module named, with the fixtures it asks for.

    A parameter that is a function of the test's own module is named.
    """

    def run() -> None:
        module = importlib.import_module(file if "." in file else f"tests.journal.{file}")
        test = getattr(module, name)
        given = {**row, **({"left": getattr(module, str(row["left"]))} if "left" in row else {})}
        _is_a_row(test, given)
        with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
            every = {**_fixtures(module, Path(place), patch), **given}
            wanted = {one: every[one] for one in inspect.signature(test).parameters}
            if inspect.iscoroutinefunction(test):
                trio.run(lambda: test(**wanted))
            else:
                test(**wanted)

    return run


class Misplanted(Exception):
    """What should catch a bug is no test of the suite, and its failing would say nothing."""


def _is_a_row(test: Callable[..., object], given: dict[str, object]) -> None:
    left = dict(given)
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, rows = mark.args
            names = [one.strip() for one in names.split(",")] if isinstance(names, str) else names
            row = tuple(left.pop(one, None) for one in names)
            if row not in [_values(one, len(names)) for one in rows]:
                raise Misplanted(f"{test.__name__} has no row {given}")
    if left:
        raise Misplanted(f"{test.__name__} has no parameters {[*left]}")


def _values(row: Any, count: int) -> tuple[object, ...]:
    values = getattr(row, "values", row)
    if callable(values):  # of a plain mapping or function
        values = row
    return tuple(values) if count > 1 or hasattr(row, "marks") else (values,)


def _fixtures(module: Any, place: Path, patch: pytest.MonkeyPatch) -> dict[str, object]:
    host = getattr(module, "Host", None)
    return {"tmp_path": place, "monkeypatch": patch, "host": host and host(place)}


def crash_states() -> None:
    test = importlib.import_module("tests.journal.test_crash_states")
    test.every_workload(2, limit=64, align=512)


line_ends = row_of(
    "test_crash_states",
    "test_a_batch_whose_lines_end_anywhere_near_a_sectors_end_may_be_torn",
    align=512,
)
tears = row_of(
    "test_corruption", "test_no_tear_of_a_large_batch_is_taken_for_rot", align=512, step=11
)
acknowledged = row_of(
    "test_corruption",
    "test_a_flip_or_a_newline_in_an_acknowledged_batch_is_refused_or_harmless",
    align=512,
    mark=False,
)
blocks = row_of(
    "test_corruption",
    "test_every_lost_or_misdirected_block_is_refused_or_harmless",
    align=512,
    size=512,
)
cut_short = row_of(
    "test_corruption",
    "test_a_segment_cut_short_anywhere_is_refused_unless_only_dead_bytes_are_gone",
    align=512,
)
edited = row_of("test_corruption", "test_an_edit_with_a_new_checksum_is_found_by_the_line_behind")
quoted = row_of("test_rule", "test_a_payload_that_quotes_a_frame_cannot_make_a_tear_look_like_rot")
failed_sync = row_of("test_faults", "test_a_failed_commit_makes_no_further_call", call="fdatasync")
short_writes = row_of(
    "test_faults",
    "test_a_fault_at_any_call_loses_nothing_acknowledged",
    kind="short by one",
    sticky=False,
)
kept_cache = row_of(
    "test_faults",
    "test_a_fault_at_any_call_loses_nothing_acknowledged",
    kind=errno.EIO,
    sticky=True,
)
reserve = row_of("test_room", "test_the_end_of_a_file_where_an_outcome_may_not_fit_is_not_counted")
poisoned = row_of("test_log", "test_one_failed_sync_poisons_for_good", code=errno.EIO)
full = row_of(
    "test_reserve", "test_a_full_disk_refuses_new_work_but_no_outcome_and_heals_by_itself"
)
repaired = row_of(
    "test_repair",
    "test_any_damage_is_given_up_behind_the_proven_prefix_and_kept_as_it_was_found",
    align=512,
)


def crashed_repair(case: str) -> Callable[[], None]:
    return row_of(
        "test_repair",
        "test_a_crash_at_any_call_of_a_repair_leaves_it_done_or_to_be_done_again",
        case=case,
    )


SEGMENTS, RULE, CHAIN = (f"supervisor.journal.{m}" for m in ("segments", "rule", "chain"))
CODEC, OPENING, ROOM = (f"supervisor.journal.{m}" for m in ("codec", "opening", "room"))
COMMIT, FILE, LOCK = (f"supervisor.journal.{m}" for m in ("commit", "file", "lock"))
READ, REPAIR, DURABLY = (f"supervisor.journal.{m}" for m in ("read", "repair", "durably"))
ANCHOR, VERIFY, WITNESS = (f"supervisor.journal.{m}" for m in ("anchor", "verify", "witness"))
SYNC = "        self._os.fdatasync(self._fd)\n"
TWICE = "        try:\n    SYNC        except OSError:\n    SYNC".replace("SYNC", SYNC)

MUTANTS = {
    "a batch is not synced": Mutant(SEGMENTS, {SYNC: ""}, crash_states),
    "the directory is not synced after a rotation": Mutant(
        SEGMENTS, {"            self._os.fsync(self._directory)\n": ""}, crash_states
    ),
    "a new segment is not synced before it has a name": Mutant(
        SEGMENTS, {"            self._os.fsync(fd)\n": ""}, crash_states
    ),
    "the watermark claims the batch it stands in": Mutant(
        SEGMENTS, {"        durable = position\n": "        durable = position + 99\n"}, tears
    ),
    "batches are appended to a torn segment": Mutant(
        OPENING, {"walked.tail.torn or not agree": "not agree"}, crash_states
    ),
    "a killed writer's bytes are served unsynced": Mutant(
        OPENING, {"            os_.fsync(fd)\n": "            pass\n"}, crash_states
    ),
    "the page cache is believed after a failed sync": Mutant(
        OPENING, {" or not agree": ""}, kept_cache
    ),
    "holes between sectors are rot": Mutant(
        RULE, {"filler % SECTOR == 0 or shared": "False"}, tears
    ),
    "any filler byte explains damage": Mutant(
        RULE,
        {"    if not _unwritten(buf, newline,": "    if not bool(buf) and bool("},
        acknowledged,
    ),
    "what later lines attest is ignored": Mutant(
        RULE, {"    if attested > position:": "    if attested < 0:"}, blocks
    ),
    "the terminator is ignored": Mutant(
        RULE, {"buf[max(start, newline - 2) : newline] == TERMINATOR": "False"}, acknowledged
    ),
    "reading stops at the first bad frame": Mutant(
        CHAIN, {"            if tail.rot is None:": "            if True:"}, acknowledged
    ),
    "the predecessor is not checked": Mutant(
        CHAIN,
        {
            "        if reached != (": "        if False and reached != (",
            "        if not joined or before != named:": "        if False:",
            "            if not joined or (position": "            if False and (position",
        },
        cut_short,
    ),
    "a segment's size is not checked": Mutant(
        CHAIN, {"            if len(buf) != header.size:": "            if False:"}, cut_short
    ),
    "a line's predecessor is not checked": Mutant(
        CHAIN,
        {"            joined = line.previous == tip.digest[:32]\n": "            joined = True\n"},
        edited,
    ),
    "lines inside a payload are believed": Mutant(
        CODEC,
        {"        if _is_own_line(buf, at, at + 16 + length):": "        if True:"},
        quoted,
    ),
    "a line may end where a sector begins": Mutant(
        CODEC, {"% SECTOR == 1:": "% SECTOR == -1:"}, line_ends
    ),
    "a failed sync is tried once more": Mutant(SEGMENTS, {SYNC: TWICE}, failed_sync),
    "a short write counts as written": Mutant(
        SEGMENTS, {"    if count != len(data):": "    if count < 0:"}, short_writes
    ),
    "the end of each file counts as room": Mutant(
        ROOM,
        {"max(0, self._rest - self._waste)": "self._rest"},
        reserve,
    ),
    # --- the writer's threads ---
    "a frame is called durable before its sync returned": Mutant(
        COMMIT,
        {
            "        size = self._writer.commit(batch)\n": "",
            "self.durable = self._writer.point.position\n": (
                "self.durable = self._writer.point.position + len(batch)\n"
                "        size = self._writer.commit(batch)\n"
            ),
        },
        row_of("test_log", "test_a_position_is_given_at_once_and_durable_only_after_its_sync"),
    ),
    "a failed batch is committed once more": Mutant(
        COMMIT,
        {
            "                self._commit(batch)\n": (
                "                try:\n                    self._commit(batch)\n"
                "                except OSError:\n                    self._commit(batch)\n"
            )
        },
        poisoned,
    ),
    "a poisoned journal takes more": Mutant(
        COMMIT, {"if self.poison is not None or self._closing:": "if self._closing:"}, poisoned
    ),
    "new work uses the reserve": Mutant(COMMIT, {"(0 if reserve else keep)": "0"}, full),
    "a mark uses the reserve": Mutant(
        COMMIT,
        {"if not due or self.room.after(cost) < self._keep:": "if not due:"},
        row_of("test_reserve", "test_a_mark_leaves_the_reserve_alone"),
    ),
    # --- the calls ---
    "segments are opened to append": Mutant(
        FILE,
        {"flags | os.O_NOFOLLOW, 0o600": "flags | os.O_APPEND | os.O_NOFOLLOW, 0o600"},
        row_of("test_log", "test_what_was_appended_comes_back_in_order_after_a_clean_close"),
    ),
    "a new directory is not durable in its parent": Mutant(
        DURABLY,
        {"        sync(one.parent)\n": "        pass\n"},
        row_of("test_real", "test_a_new_journal_is_durable_in_the_directory_above", made="now"),
    ),
    "the lock is not taken": Mutant(
        LOCK,
        {"            os_.lock(fd)\n": "            pass\n"},
        row_of("test_lock", "test_a_second_journal_in_the_same_process_is_refused"),
    ),
    # --- segments ---
    "a segment has its name before its header is durable": Mutant(
        SEGMENTS,
        {
            "            write_whole(self._os, fd, line, 0)\n"
            "            self._os.fsync(fd)\n"
            "            self._refuse_taken(name)\n"
            "            self._os.rename(self._directory, spare.name, name)\n": (
                "            self._refuse_taken(name)\n"
                "            self._os.rename(self._directory, spare.name, name)\n"
                "            write_whole(self._os, fd, line, 0)\n"
                "            self._os.fsync(fd)\n"
            )
        },
        crash_states,
    ),
    "a spare that a rotation had begun to use is taken as it is": Mutant(
        SEGMENTS,
        {"        if not pristine:\n": "        if False:\n"},
        row_of(
            "test_faults",
            "test_a_crash_in_a_start_after_a_crash_in_a_start_loses_nothing",
            left="leftovers",
        ),
    ),
    # --- reading ---
    "lines are looked for behind newlines only": Mutant(
        CODEC,
        {
            "        if _is_own_line(": (
                "        if buf[max(0, at - 1) : at] in (b'', FILLER) and _is_own_line("
            )
        },
        row_of(
            "test_rule",
            "test_a_line_behind_any_byte_says_what_had_been_durable",
            align=512,
        ),
    ),
    "a start clears up before it has judged": Mutant(
        OPENING,
        {
            "        replay.run(watching)\n": (
                "        keep_spares(os_, directory, replay.names, segment_bytes)\n"
                "        replay.run(watching)\n"
            )
        },
        row_of("test_faults", "test_a_refused_start_leaves_even_the_leftovers_as_they_are"),
    ),
    "what was read ahead is read before it is synced": Mutant(
        "supervisor.journal.ahead",
        {"            settle(self, self._fd, segments)\n": ""},
        row_of("test_ahead", "test_what_a_killed_writer_left_unsynced_is_synced_before_it_is_read"),
    ),
    "what was read ahead is told for ever": Mutant(
        "supervisor.journal.ahead",
        {"known.pop(key, None)": "known.get(key)"},
        row_of("test_ahead", "test_only_the_first_answer_is_from_before"),
    ),
    "what the witness saw before the snapshot is passed over": Mutant(
        OPENING,
        {"() if watching is None else watching.positions": "()"},
        row_of(
            "test_witness",
            "test_what_it_saw_is_looked_for_before_the_snapshot_too_that_a_start_begins_with",
        ),
    ),
    "a read error is taken for damage": Mutant(
        OPENING,
        {
            "        self.newest = self._os.read_disk(self._directory, name)\n": (
                "        try:\n"
                "            self.newest = self._os.read_disk(self._directory, name)\n"
                "        except OSError:\n            self.newest = b''\n"
            )
        },
        row_of(
            "test_faults",
            "test_a_fault_at_any_call_of_a_start_changes_no_segment_and_the_next_start_succeeds",
            left="clean",
            kind=errno.EIO,
        ),
    ),
    "a reader believes what is in flight": Mutant(
        READ,
        {"    attested = line.position <= durable or offset == 0": "    attested = True"},
        row_of("test_offline", "test_only_attested_frames_are_read_unless_asked"),
    ),
    # --- repair ---
    "a repair gives lost positions again": Mutant(
        REPAIR, {"    return max(last, begun + size // LINE_MIN)": "    return last"}, repaired
    ),
    "a repair removes the oldest first": Mutant(
        REPAIR,
        {"reversed(given_up[1:])": "given_up[1:]"},
        crashed_repair("the first header"),
    ),
    "a repair does not sync its segment": Mutant(
        REPAIR,
        {
            "        write_whole(os_, file, content, 0)\n        os_.fsync(file)\n": (
                "        write_whole(os_, file, content, 0)\n"
            )
        },
        crashed_repair("in the newest"),
    ),
    "a repair does not sync its copies": Mutant(
        REPAIR,
        {
            "content[at : at + _CHUNK], at)\n        os_.fsync(fd)\n": (
                "content[at : at + _CHUNK], at)\n"
            )
        },
        crashed_repair("in the newest"),
    ),
    "a repair does not sync its copies' names": Mutant(
        REPAIR, {"        os_.fsync(place)\n": ""}, crashed_repair("in the newest")
    ),
    # --- what is known from elsewhere ---
    "a cut-off tail contradicts no anchor": Mutant(
        ANCHOR,
        {"frozenset({CUT_OFF, ": "frozenset({"},
        row_of("test_anchor", "test_anchored_to_the_last_decision_is_0_and_anything_after_is_3"),
    ),
    "what is in flight is anchored": Mutant(
        ANCHOR,
        {"self._waiting[0][2].position <= durable": "True"},
        row_of("test_anchor", "test_beside_a_writer_only_what_is_proven_durable_is_anchored"),
    ),
    "a chain without an anchor is verified": Mutant(
        VERIFY,
        {'if require == "chain" or self.anchored': "if True"},
        row_of("test_offline", "test_every_cut_off_tail_is_intact_but_never_anchored"),
    ),
    "an old copy that was written on passes the witness": Mutant(
        WITNESS,
        {
            '        return (\n            f"{saw}, and the journal has': (
                "        return '' and (\n            f\"{saw}, and the journal has"
            )
        },
        row_of("test_witness", "test_an_old_copy_that_was_written_on_elsewhere_is_refused_too"),
    ),
}
