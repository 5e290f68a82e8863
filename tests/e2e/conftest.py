"""Fixtures of the end-to-end tests: real daemons, real handlers, a world that counts.

`daemon`: started, for one test alone, which may kill and restart it. `calm_daemon`: started, shared
by the tests of one module, which leave it running. `daemon.api` asks it (support/api.py),
`daemon.world` counts and holds (support/world.py), `daemon.add_handler` and `daemon.add_program`
give it more than the handlers of support/manifests.py. A failed test shows the daemon's log.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.support.daemon import Daemon, new_daemon

_LOG_CHARS = 8_000


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with new_daemon() as made:
        yield made.start()


@pytest.fixture(scope="module")
def calm_daemon() -> Iterator[Daemon]:
    with new_daemon() as made:
        yield made.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            one = value if isinstance(value, Daemon) else getattr(value, "daemon", None)
            if isinstance(one, Daemon):
                report.sections.append((f"the log of {name}", one.log[-_LOG_CHARS:]))
    return report
