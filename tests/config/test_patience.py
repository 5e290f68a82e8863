"""A manifest that names what does not answer is set aside; the others load, and soon."""

from __future__ import annotations

import threading
import time

import pytest

from config.problems import ConfigError
from supervisor.dispatch import patience, visible
from tests.config.dead import dead_mount


@pytest.fixture
def dead(host, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE_S", 0.4)
    before = threading.active_count()
    with dead_mount(host.root) as place:
        yield place
    deadline = time.monotonic() + 10
    while threading.active_count() > before:  # what hung goes on when the mount is gone
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.01)


@pytest.mark.parametrize("key", ["read", "write", "unix", "command", "artifacts"])
def test_each_key_that_names_it_breaks_its_own_handler_alone(host, dead, key):
    host.manifest("before")
    host.manifest("later")
    if key in {"read", "write", "unix"}:
        host.manifest("hung", f'[sandbox]\n{key} = ["{dead}/x/y"]')
    elif key == "artifacts":
        host.manifest("hung", f'artifacts = ["{dead}/x"]')
    else:
        host.manifest("hung", command=f'["{dead}/run"]')
    handlers = visible.load(host.config)
    assert set(handlers) == {"before", "later"}
    (problem,) = handlers.broken["hung"].problems
    assert "does not answer" in problem.text


def test_an_explicit_reload_says_so_and_changes_nothing(host, dead):
    host.manifest("fine")
    host.manifest("hung", f'[sandbox]\nread = ["{dead}/x"]')
    with pytest.raises(ConfigError, match=r"hung\.toml.*does not answer"):
        visible.load(host.config, strict=True)


def test_a_slow_one_is_waited_for(host, monkeypatch):
    """Hashing takes processor time, and so it is not taken for a dead mount."""
    monkeypatch.setattr(patience, "PATIENCE_S", 0.15)
    big = host.root / "big"
    with big.open("wb") as file:
        file.truncate(512 << 20)
    host.manifest("slow", f'artifacts = ["{big}"]')
    began = time.monotonic()
    assert "slow" in visible.load(host.config)
    assert time.monotonic() - began > patience.PATIENCE_S, "it was too quick to tell"


def test_what_has_loaded_before_anybody_looks_does_not_hang(host, monkeypatch):
    start = threading.Thread.start

    def start_and_end(thread: threading.Thread) -> None:
        start(thread)
        thread.join()

    monkeypatch.setattr(threading.Thread, "start", start_and_end)
    host.manifest("quick")
    assert "quick" in visible.load(host.config)
