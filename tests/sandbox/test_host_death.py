"""When the daemon, the launcher, both or a template are killed, so is everything they started."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import trio

from sandbox.spec import Lost
from tests.sandbox.adversaries import part
from tests.sandbox.adversaries.crowd import Crowd, Guest, Pages, gathered, new_pages
from tests.sandbox.support import launched, new_tag, no_survivors, poll, tagged, wait_until

DAEMON = Path(__file__).with_name("daemon.py")
# A second, the best of several: other work on the machine is not what these tests are about.
BOUND_S = 1.0
LONG = (pytest.mark.long, pytest.mark.timeout(3_600))
KILLS = [20, pytest.param(300, marks=LONG)]


class Daemons:
    """Daemon processes, one at a time. Their command lines do not hold what they start."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, DAEMON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = 0
        self.launcher = 0
        self.alive = False

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, **asked: object) -> None:
        assert self.process.stdin is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        self.pid = int(self.line())
        self.alive = True
        self.launcher = int(self.line())
        assert self.line() == "ready"

    def kill(self, whom: str) -> None:
        if whom != "launcher":
            self.alive = False
            os.kill(self.pid, signal.SIGKILL)
        if whom != "daemon":
            # With "both", the launcher may have followed the daemon already.
            with contextlib.suppress(ProcessLookupError) if whom == "both" else nullcontext():
                os.kill(self.launcher, signal.SIGKILL)

    def orphans(self) -> list[int]:
        """Live processes whose daemon, launcher or template is gone."""
        return _below(self.process.pid, but=self.pid if self.alive else 0)

    def finish(self) -> None:
        """See the present daemon buried, and nothing of it left."""
        if self.alive:
            self.kill("daemon")
        assert self.line() == "reaped"

    def close(self) -> None:
        """After a failed test there may be more to end than the process itself."""
        if self.alive:
            self.kill("daemon")
        for pid in self.orphans():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    daemons = Daemons()
    yield daemons
    daemons.close()


@pytest.fixture
def pages() -> Iterator[Pages]:
    with new_pages() as pages:
        yield pages


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize("whom", ["daemon", "launcher", "both"])
@pytest.mark.parametrize("kills", KILLS)
def test_no_adversary_outlives_its_host(
    adversary: str, daemons: Daemons, pages: Pages, whom: str, kills: int
) -> None:
    given = {"how": "settled", "program": adversary, "folder": str(pages.folder)}
    took: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for kill in range(kills):
        tag, modes = new_tag(), part(kill)
        with no_survivors(tag):
            daemons.start(**given, tag=tag, modes=modes)
            assert len(tagged(tag)) > len(modes)
            daemons.kill(whom)
            took[modes].append(wait_until(lambda t=tag: not daemons.orphans() and not tagged(t)))
            daemons.finish()
    assert {modes: times for modes, times in took.items() if min(times) > BOUND_S} == {}


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize("whom", ["daemon", "launcher", "both"])
@pytest.mark.parametrize("kills", KILLS)
def test_killing_in_the_first_50_ms_of_a_burst_leaves_nothing(
    adversary: str, daemons: Daemons, pages: Pages, whom: str, kills: int
) -> None:
    """The race that parent-death signals have: armed just after the parent died.

    Every second burst begins when not even a template is there.
    """
    chance = random.Random(0)
    given = {"program": adversary, "folder": str(pages.folder), "modes": ["daemon"] * 20}
    most, took = 0, []
    for kill in range(kills):
        tag = new_tag()
        with no_survivors(tag):
            daemons.start(**given, how="birth" if kill % 2 else "burst", tag=tag)
            time.sleep(chance.random() * 0.05)
            most = max(most, len(_below(daemons.launcher)))
            daemons.kill(whom)
            took.append(wait_until(lambda t=tag: not daemons.orphans() and not tagged(t)))
            daemons.finish()
    # More than a template and the first init.
    assert most > 2, "no burst was ever under way"
    assert sorted(took)[kills // 2] < BOUND_S, took


@pytest.mark.guarantee("S1", "S2")
@pytest.mark.parametrize("kills", KILLS)
async def test_a_killed_template_ends_its_attempts_and_no_other(
    adversary: str, pages: Pages, kills: int
) -> None:
    took = []
    async with launched() as launcher:
        for kill in range(kills):
            # Its cap is another, and so its template.
            modes = (
                "threads",
                *(mode for mode in part(kill) if mode != "threads"),
            )
            async with gathered(Crowd(launcher, adversary, pages), modes, "30000") as guests:
                spared = next(guest for guest in guests if guest.mode == "threads")
                hit = [guest for guest in guests if guest.mode != "threads"]
                (template,) = {_parent(guest.sandbox.identity.init_pid) for guest in hit}
                assert template not in {launcher.pid, _parent(spared.sandbox.identity.init_pid)}
                os.kill(template, signal.SIGKILL)
                began = trio.current_time()
                async with trio.open_nursery() as nursery:
                    for guest in hit:
                        nursery.start_soon(_lose, guest)
                took.append(trio.current_time() - began)
                before = spared.page.beats()
                await poll(lambda s=spared, b=before: s.page.beats() > b)
                await spared.sandbox.kill()
    assert sorted(took)[kills // 2] < BOUND_S, took


async def _lose(guest: Guest) -> None:
    end = await guest.sandbox.leader_exited()
    assert isinstance(end, Lost), end
    assert end.proof == "pidfd"
    await guest.assert_silent()


def _below(pid: int, but: int = 0) -> list[int]:
    """Every live process below that one, ``but`` left out with all that is below it."""
    found: list[int] = []
    above = [pid]
    for one in above:
        children = [child for child in _children(one) if child != but]
        found += [child for child in children if _state(child) not in "ZX"]
        above += children
    return found


def _children(pid: int) -> list[int]:
    """Of its first thread; nothing once it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


def _fields(pid: int) -> list[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return ["X", "0"]


def _state(pid: int) -> str:
    return _fields(pid)[0]


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])
