"""Planted bugs in the journal: each must be caught by the test that is there for it.

The mutated source runs in a forked child, with every module of the journal and its tests
imported anew, so that nothing of the real one is left in it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants import snapshot_edits
from tests.mutants.journal_edits import CODEC, MUTANTS, Misplanted, Mutant, quoted, row_of

EVERY = {**MUTANTS, **snapshot_edits.MUTANTS}
ROOT = Path(__file__).parents[2]


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


ANEW = ("supervisor.journal", "supervisor.dispatch.blobs", "tests.journal", "tests.dispatch")


def forget_journal() -> None:
    for name in list(sys.modules):
        if name.startswith(ANEW):
            del sys.modules[name]


def _run(mutant: Mutant | None, test: Callable[[], None]) -> str:
    finder = Mutating(mutant) if mutant else None
    try:
        forget_journal()
        sys.meta_path[:0] = [finder] if finder else []
        test()
    except BaseException as error:  # pytest's own failures are no Exception
        planted = finder is not None and finder.loaded and not isinstance(error, Misplanted)
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


@pytest.mark.parametrize("name", EVERY)
def test_a_planted_bug_is_caught(name):
    mutant = EVERY[name]
    assert run_in_child(mutant, mutant.caught_by) == "caught"


def test_without_a_bug_the_child_passes():
    assert run_in_child(None, quoted) == "passed"


def test_a_mutant_whose_line_is_gone_is_not_taken_for_caught():
    gone = Mutant(CODEC, {"no such line": ""}, quoted)
    assert "the line to change is gone" in run_in_child(gone, quoted)


@pytest.mark.parametrize("row", [{"align": 513}, {"align": 512, "size": 1}, {}])
def test_what_is_no_row_of_a_test_is_not_taken_for_catching(row):
    rows = "test_zeros_from_anywhere_to_the_end_are_never_taken_for_an_end"
    mutant = MUTANTS["the terminator is ignored"]
    assert "Misplanted" in run_in_child(mutant, row_of("test_corruption", rows, **row))
