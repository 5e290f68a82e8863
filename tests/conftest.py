"""Every test's ground rules: async tests run under trio, long ones only on request."""

from __future__ import annotations

import functools
import inspect

import pytest
import trio
from hypothesis import settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests too")


def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time, so that a red run means the change; `--long` explores."""
    explores = bool(config.getoption("--long"))
    settings.register_profile("repeated", derandomize=not explores, database=None, deadline=None)
    settings.load_profile("repeated")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        chosen = [item for item in items if item.get_closest_marker("long") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test under trio, as trio's own suite does; no plugin hides its asserts."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    args = {name: pyfuncitem.funcargs[name] for name in names}
    clock = args.get("autojump_clock")
    trio.run(functools.partial(pyfuncitem.obj, **args), clock=clock)
    return True
