"""A whole run: shared out between processes, file by file, and no area of it left out.

`./dev test` asks pytest-xdist for as many processes as this says. A run of chosen tests stays in
one, where a debugger and a `print` work.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ALIKE = frozenset(("tests/core", "tests/dispatch", "tests/mutants", "sdk/tests"))
"""Areas that do the same for root as for anybody: `--privileged` leaves them out."""

LONGEST = (
    *("tests/systemd/", "tests/e2e/", "tests/sandbox/", "tests/soak/", "tests/containment/"),
    *("tests/demo/", "tests/cli/"),
)
"""What takes longest comes first, so that no process is left with it at the end."""

TOGETHER = ("tests/systemd/",)
"""Directories whose files share something that takes long to make."""

# Half of the time a test waits: for a process, a disk, a deadline.
PER_PROCESSOR = 2


def areas() -> set[str]:
    """Every directory with tests, from the root of the repository."""
    found = (path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    return {"/".join(one.parts[:2]) for one in found if len(one.parts) > 1} | {"sdk/tests"}


def area(nodeid: str) -> str:
    return "/".join(nodeid.split("/")[:2])


def is_whole(config: pytest.Config) -> bool:
    """Whether nobody chose tests by path, by name or by marker."""
    chosen = config.option.keyword or config.option.markexpr or config.option.deselect
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not chosen


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The longest first, otherwise as they were."""

    def rank(item: pytest.Item) -> int:
        found = (at for at, place in enumerate(LONGEST) if item.nodeid.startswith(place))
        return next(found, len(LONGEST))

    return sorted(items, key=rank)


class Whole:
    """The hooks of a run's first process."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_auto_num_workers(self, config: pytest.Config) -> int:
        processors = len(os.sched_getaffinity(0))
        return PER_PROCESSOR * processors if is_whole(config) else 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> object:
        """By file, in the order of collection, and a directory of `TOGETHER` as if it were one."""
        from xdist.scheduler import LoadFileScheduling

        class ByFile(LoadFileScheduling):
            def _split_scope(self, nodeid: str) -> str:
                found = (place for place in TOGETHER if nodeid.startswith(place))
                return next(found, super()._split_scope(nodeid))

        config.option.loadscopereorder = False
        return ByFile(config, log)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed[area(report.nodeid)] += 1

    def missing(self, config: pytest.Config) -> list[str]:
        """Areas of which a whole run should have shown something, and no test passed."""
        if not is_whole(config) or config.option.collectonly:
            return []
        wanted = areas() - (ALIKE if config.option.privileged else frozenset())
        return sorted(wanted - self.passed.keys())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        in_first = not hasattr(session.config, "workerinput")
        if in_first and session.exitstatus == pytest.ExitCode.OK and self.missing(session.config):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if missing := self.missing(terminalreporter.config):
            terminalreporter.section("not shown", red=True)
            terminalreporter.line(f"no test passed of: {', '.join(missing)}")
