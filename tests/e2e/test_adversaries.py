"""Every adversary side by side in one daemon: however they are ended, nothing of them is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.support.api import Document
from tests.e2e.support.daemon import GONE_S, Daemon, new_daemon
from tests.e2e.support.processes import kill, parent, wait_until
from tests.sandbox import adversaries
from tests.sandbox.adversaries.crowd import Pages, new_pages

ROUNDS = [1, pytest.param(40, marks=(pytest.mark.long, pytest.mark.timeout(3_600)))]
# Long enough for all of them to set up their trees beside one another.
LEAVES_AFTER_MS = 1_500
TIMEOUT_MS = 3_000
GRACE_MS = 100
SET_UP_S = 60.0
# With forty around it, on any machine. After that it would be called unkillable.
DEADLINE_MS = GRACE_MS + 5_000
QUIET_S = 0.05


class Crowd:
    """A daemon with two handlers that are any adversary: one that leaves, one that stays."""

    def __init__(self, daemon: Daemon, pages: Pages) -> None:
        self.daemon = daemon
        self.pages = {mode: pages.new() for mode in adversaries.MODES}
        program = daemon.programs / "adversary"
        adversaries.build(program)
        for kind, stay in (("leaves", str(LEAVES_AFTER_MS)), ("stays", "!60000")):
            command = [str(program), "?", stay, "tag"]
            daemon.add_handler(kind, _manifest(command, pages.folder))

    def gathered(self, kind: str, timeout_ms: int = 60_000) -> dict[str, str]:
        """Every adversary's operation, by mode, when each has set up its tree."""
        for page in self.pages.values():
            page.clear()
        operations: dict[str, str] = {}

        def start(mode: str) -> None:
            given = {"mode": mode, "page": str(self.pages[mode].path)}
            answer = self.daemon.api.dispatch(kind, given, timeout_ms=timeout_ms)
            operations[mode] = answer.ok()["operation_id"]

        # The busy ones last: little could be started beside them.
        for modes in (set(adversaries.MODES) - adversaries.BUSY, adversaries.BUSY):
            at_once(start, modes)
            pages = [self.pages[mode] for mode in modes]
            wait_until(lambda p=pages: all(page.is_set_up() for page in p), SET_UP_S, "their trees")
        assert len(operations) == len(adversaries.MODES)
        return operations

    def ended(self, operations: dict[str, str], phase: str = "ended") -> dict[str, Document]:
        """Their attempts, proven dead: from the moment that it is said, none beats any more."""
        found, last = {}, {}
        for mode, operation_id in operations.items():
            attempts = self.daemon.api.final(operation_id)["call"]["attempts"]
            last[mode] = self.pages[mode].beats()
            (found[mode],) = attempts
            assert attempts[0]["proven_dead"] is True, (mode, attempts)
            assert attempts[0]["phase"] == phase, (mode, attempts)
        threading.Event().wait(QUIET_S)
        assert {mode: self.pages[mode].beats() for mode in operations} == last
        assert self.daemon.handler_processes() == []
        return found


def at_once(what: Callable[[str], object], given: Iterable[str]) -> None:
    threads = [threading.Thread(target=what, args=(one,)) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _manifest(command: list[str], pages: Path) -> str:
    return f"""\
manifest = 1
description = "Does not want to die"
command = {command}
timeout_ms = 60_000
grace_ms = {GRACE_MS}
read_only = true
max_running = 64
[sandbox]
write = ["{pages}"]
tasks_max = 32
[output]
output_max_bytes = 1_000_000_000
"""


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    with new_pages() as pages, new_daemon() as daemon:
        crowd = Crowd(daemon, pages)
        daemon.start()
        yield crowd


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize("rounds", ROUNDS)
def test_what_they_leave_behind_is_dead_when_their_exit_is_reported(
    crowd: Crowd, rounds: int
) -> None:
    for _ in range(rounds):
        for mode, attempt in crowd.ended(crowd.gathered("leaves")).items():
            assert (attempt["outcome"], attempt["exit"]) == ("failed", {"code": 7}), mode
            assert attempt["leftovers_killed"] > 0, mode


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize("rounds", ROUNDS)
def test_they_time_out_and_are_gone_by_the_deadline(crowd: Crowd, rounds: int) -> None:
    for _ in range(rounds):
        for mode, attempt in crowd.ended(crowd.gathered("stays", TIMEOUT_MS)).items():
            assert (attempt["outcome"], attempt["active_ms"]) == ("timed_out", TIMEOUT_MS), mode
            assert attempt["exit"] == {"signal": signal.SIGKILL}, mode
            assert _lasted_ms(attempt) < TIMEOUT_MS + DEADLINE_MS, mode


def _lasted_ms(attempt: Document) -> int:
    start, end = (datetime.fromisoformat(attempt[name]) for name in ("started_at", "ended_at"))
    return round((end - start).total_seconds() * 1_000)


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize("rounds", ROUNDS)
def test_all_are_cancelled_at_once(crowd: Crowd, rounds: int) -> None:
    api = crowd.daemon.api
    for _ in range(rounds):
        operations = crowd.gathered("stays")
        at_once(api.cancel, operations.values())
        for mode, attempt in crowd.ended(operations).items():
            assert attempt["outcome"] == "cancelled", mode


# --- whoever is killed -----------------------------------------------------------------------


def _the_daemon(daemon: Daemon, _: int) -> None:
    daemon.kill9()


def _the_launcher(daemon: Daemon, _: int) -> None:
    os.kill(daemon.launcher, signal.SIGKILL)


def _both(daemon: Daemon, _: int) -> None:
    launcher = daemon.launcher
    daemon.kill9()
    kill(launcher)


def _the_template(daemon: Daemon, init: int) -> None:
    template = parent(init)
    assert template not in {daemon.launcher, daemon.pid}
    os.kill(template, signal.SIGKILL)


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize("whom", [_the_daemon, _the_launcher, _both, _the_template])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_none_outlives_its_host(
    crowd: Crowd, whom: Callable[[Daemon, int], None], rounds: int
) -> None:
    daemon = crowd.daemon
    for _ in range(rounds):
        operations = crowd.gathered("stays")
        (attempt,) = daemon.api.operation(operations["tree"])["call"]["attempts"]
        whom(daemon, attempt["init_pid"])
        wait_until(lambda: not daemon.handler_processes(), GONE_S)
        last = {mode: page.beats() for mode, page in crowd.pages.items()}
        threading.Event().wait(QUIET_S)
        assert {mode: page.beats() for mode, page in crowd.pages.items()} == last
        if not daemon.running:
            daemon.gone(within_s=GONE_S)
            daemon.start()
        crowd.ended(operations, phase="interrupted")
