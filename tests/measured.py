"""Branch coverage of the core and the journal, by their own tests.

A run with `--measured` (`./dev coverage`) fails when a line or a branch of either was not taken,
and a whole run when fewer are than the floor; both name what is missing. Tests marked `many` go
over thousands of states that take no branch of their own: they are not traced, which would make
them slower.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from coverage import Coverage
from coverage.exceptions import NoDataError
from trio._core import _thread_cache

from tests import whole

AREAS = frozenset(("tests/core", "tests/journal"))
SOURCES = ("supervisor/core", "supervisor/journal")
WANTED = 100.0
# What a whole run insists on: a fall must be seen, and a line that only the timing of threads on a
# busy machine leaves out, of some nine thousand, is none.
FLOOR = 99.9
NO_BRANCH = [r"case _:\n +assert_never\(", "if TYPE_CHECKING:", "if __name__ == .__main__.:"]
# A process that runs none of their tests measures nothing, and that is well.
QUIET = ["module-not-measured", "module-not-imported", "no-data-collected"]


def measuring(place: Path, suffix: str = "") -> Coverage:
    """Of every file of both, met or not; the data is kept at `place`."""
    made = Coverage(
        data_file=str(place / f"measured{suffix}"),
        config_file=False,
        branch=True,
        source=[str(whole.ROOT / one) for one in SOURCES],
        omit=["*/__main__.py"],  # run on a bare Python, by which nothing could be measured
    )
    made.set_option("run:disable_warnings", QUIET)
    for one in NO_BRANCH:
        made.exclude(one)
    made.set_option("report:show_missing", True)
    made.set_option("report:skip_covered", True)
    return made


class Traced:
    """The hooks of every process that runs tests."""

    def __init__(self, place: Path) -> None:
        self.coverage = measuring(place, f".{os.getpid()}")
        self.coverage.start()  # what imports take is taken while tests are collected

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self.coverage.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._tracing() if _is_traced(item) else contextlib.nullcontext():
            return (yield)

    @contextlib.contextmanager
    def _tracing(self) -> Iterator[None]:
        # A thread that trio kept from an earlier test is traced no more: none is used again.
        _thread_cache.THREAD_CACHE = _thread_cache.ThreadCache()
        self.coverage.start()
        try:
            yield
        finally:
            self.coverage.stop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()


def _is_traced(item: pytest.Item) -> bool:
    return whole.area(item.nodeid) in AREAS and item.get_closest_marker("many") is None


class Measured:
    """The hooks of a run's first process: it judges what all of them have seen."""

    def __init__(self, wanted: float = WANTED) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="effectd-measured-"))
        self.wanted = wanted
        self.report = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node) -> None:
        node.workerinput["measured"] = str(self.place)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and not session.config.option.collectonly:
            total, self.report = judged(self.place)
            if total < self.wanted:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.report:
            terminalreporter.section("branch coverage of the core and the journal")
            terminalreporter.write(self.report)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


def judged(place: Path) -> tuple[float, str]:
    """Percent of all lines and branches, and which are missing, by file."""
    together, said = measuring(place), io.StringIO()
    try:
        together.combine([str(place)])
        total = together.report(file=said)
    except NoDataError:
        return 0.0, "nothing was measured\n"
    return total, said.getvalue() if total < WANTED else f"{total:.0f} %\n"


def is_judged(config: pytest.Config) -> bool:
    """Whether the run has all tests that are traced; root's own run leaves the core's out."""
    everything = whole.is_whole(config) and not config.option.privileged
    return everything or bool(config.getoption("--measured"))


def configure(config: pytest.Config) -> None:
    """Called once in each process of a run."""
    place = getattr(config, "workerinput", {}).get("measured")
    if place is None and not hasattr(config, "workerinput") and is_judged(config):
        first = Measured(WANTED if config.getoption("--measured") else FLOOR)
        config.pluginmanager.register(first)
        place = None if config.getoption("numprocesses", None) else first.place
    if place is not None:
        config.pluginmanager.register(Traced(Path(place)))
