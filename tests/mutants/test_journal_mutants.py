"""Planted bugs in the journal: each must be caught by the test that is there for it.

The mutated source runs in a forked child, with every module of the journal and its tests
imported anew, so that nothing of the real one is left in it.
"""

from __future__ import annotations

import errno
import importlib
import importlib.abc
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """Each old text of the module becomes the new one."""

    module: str
    changes: dict[str, str]
    caught_by: Callable[[], None]


def crash_states() -> None:
    test = importlib.import_module("tests.journal.test_crash_states")
    test.every_workload(2, limit=64, align=512)


def line_ends() -> None:
    test = importlib.import_module("tests.journal.test_crash_states")
    test.test_a_batch_whose_lines_end_anywhere_near_a_sectors_end_may_be_torn(512)


def tears() -> None:
    test = importlib.import_module("tests.journal.test_corruption")
    test.test_no_tear_of_a_large_batch_is_taken_for_rot(512, 11)


def corruption(name: str, *arguments: object) -> Callable[[], None]:
    def run() -> None:
        getattr(importlib.import_module("tests.journal.test_corruption"), name)(*arguments)

    run.__name__ = name
    return run


acknowledged = corruption(
    "test_a_flip_or_a_newline_in_an_acknowledged_batch_is_refused_or_harmless", 512, False
)
blocks = corruption("test_every_lost_or_misdirected_block_is_refused_or_harmless", 512, 512)
cut_short = corruption(
    "test_a_segment_cut_short_anywhere_is_refused_unless_only_dead_bytes_are_gone", 512
)
edited = corruption("test_an_edit_with_a_new_checksum_is_found_by_the_line_behind")
quoted = corruption("test_a_payload_that_quotes_a_frame_cannot_make_a_tear_look_like_rot")


def failed_sync() -> None:
    test = importlib.import_module("tests.journal.test_faults")
    test.test_a_failed_commit_makes_no_further_call("fdatasync")


def short_writes() -> None:
    test = importlib.import_module("tests.journal.test_faults")
    test.test_a_fault_at_any_call_loses_nothing_acknowledged("short by one", False)


def kept_cache() -> None:
    test = importlib.import_module("tests.journal.test_faults")
    test.test_a_fault_at_any_call_loses_nothing_acknowledged(errno.EIO, True)


def reserve() -> None:
    test = importlib.import_module("tests.journal.test_room")
    test.test_the_end_of_a_file_where_an_outcome_may_not_fit_is_not_counted()


SEGMENTS, RULE, CHAIN = (f"supervisor.journal.{m}" for m in ("segments", "rule", "chain"))
CODEC, OPENING, ROOM = (f"supervisor.journal.{m}" for m in ("codec", "opening", "room"))
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
            "if not self._continues(line):": "if False:",
        },
        cut_short,
    ),
    "a segment's size is not checked": Mutant(
        CHAIN, {"            if len(buf) != header.size:": "            if False:"}, cut_short
    ),
    "a line's predecessor is not checked": Mutant(
        CHAIN, {"if line.previous != self.tip.digest[:32]:": "if False:"}, edited
    ),
    "lines inside a payload are believed": Mutant(
        CODEC,
        {"if line is not None and _is_own_line(buf, at, line)": "if line is not None"},
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
}


class Mutating(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from its changed source; everything else as always."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.loaded = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None):
        if name != self._mutant.module:
            return None
        return importlib.util.spec_from_loader(name, self)

    def exec_module(self, module: ModuleType) -> None:
        path = ROOT / (self._mutant.module.replace(".", "/") + ".py")
        source = path.read_text("utf-8")
        for old, new in self._mutant.changes.items():
            assert old in source, "the line to change is gone: change the mutant too"
            source = source.replace(old, new)
        exec(compile(source, path, "exec"), module.__dict__)
        self.loaded = True


def forget_journal() -> None:
    for name in list(sys.modules):
        if name.startswith(("supervisor.journal", "tests.journal")):
            del sys.modules[name]


def _run(mutant: Mutant | None, test: Callable[[], None]) -> str:
    finder = Mutating(mutant) if mutant else None
    try:
        forget_journal()
        sys.meta_path[:0] = [finder] if finder else []
        test()
    except BaseException:  # pytest's own failures are no Exception
        planted = finder is not None and finder.loaded
        return "caught" if planted else traceback.format_exc()
    return "passed"


def run_in_child(mutant: Mutant | None, test: Callable[[], None]) -> str:
    """ "passed", "caught", or the traceback of what went wrong with the planting itself."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            os.write(writer, _run(mutant, test).encode()[-2000:])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        verdict = pipe.read().decode()
    os.waitpid(pid, 0)
    return verdict


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name):
    mutant = MUTANTS[name]
    assert run_in_child(mutant, mutant.caught_by) == "caught"


def test_without_a_bug_the_child_passes():
    assert run_in_child(None, quoted) == "passed"


def test_a_mutant_whose_line_is_gone_is_not_taken_for_caught():
    gone = Mutant(CODEC, {"no such line": ""}, quoted)
    assert "the line to change is gone" in run_in_child(gone, quoted)
