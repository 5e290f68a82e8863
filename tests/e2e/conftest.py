"""Fixtures of the end-to-end tests: real daemons, real handlers, a world that counts.

`daemon`: started, for one test alone. `calm_daemon`: shared by the tests of one module, started
again when one of them left it dead, with nobody held in its world. `support.daemon.new_daemon` is
for what needs another life, or a configuration file.

`daemon.api` asks it (support/api.py), `daemon.world` counts and holds (support/world.py),
`daemon.add_handler` and `daemon.add_program` give it more than the handlers of
support/manifests.py. A failed test shows the daemon's log.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator

import pytest

from tests.e2e.support.daemon import Daemon, new_daemon

_LOG_CHARS = 8_000


def pytest_configure(config: pytest.Config) -> None:
    # A run that is ended from outside (a job's time limit) ends its daemons too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with new_daemon() as made:
        yield made.start()


@pytest.fixture(scope="module")
def _module_daemon() -> Iterator[Daemon]:
    with new_daemon() as made:
        yield made


@pytest.fixture
def calm_daemon(_module_daemon: Daemon) -> Iterator[Daemon]:
    if not _module_daemon.running:
        _module_daemon.start()
    yield _module_daemon
    _module_daemon.world.release()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        found = (_daemon_of(value) for value in getattr(item, "funcargs", {}).values())
        for one in {id(daemon): daemon for daemon in found if daemon is not None}.values():
            report.sections.append(("the daemon's log", one.log[-_LOG_CHARS:]))
    return report


def _daemon_of(value: object) -> Daemon | None:
    """The fixture's value, or the daemon that it holds."""
    one = value if isinstance(value, Daemon) else getattr(value, "daemon", None)
    return one if isinstance(one, Daemon) else None
