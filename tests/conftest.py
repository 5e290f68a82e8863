"""Every test's ground rules: async tests run under trio, long ones only on request."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import settings

from tests import hung, measured, whole


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests too")
    alike = ", ".join(sorted(whole.ALIKE))
    parser.addoption("--privileged", action="store_true", help=f"all but {alike}")
    parser.addoption("--measured", action="store_true", help="judge branch coverage as well")
    pluginmanager.register(whole.Whole())


def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time, so that a red run means the change; `--long` explores."""
    explores = bool(config.getoption("--long"))
    settings.register_profile("repeated", derandomize=not explores, database=None, deadline=None)
    settings.load_profile("repeated")
    measured.configure(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = [item for item in items if _is_wanted(config, item)]
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = whole.in_order(chosen)


def _is_wanted(config: pytest.Config, item: pytest.Item) -> bool:
    if config.getoption("--privileged") and whole.area(item.nodeid) in whole.ALIKE:
        return False
    return bool(config.getoption("--long")) or item.get_closest_marker("long") is None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test under trio, as trio's own suite does; no plugin hides its asserts."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    hung.run(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in names})
    return True
